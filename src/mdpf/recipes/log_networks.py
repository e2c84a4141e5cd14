"""Networks for recorded sequences, of the size and in the units that a blueprint says, put together to any method."""

from dataclasses import dataclass

from torch import nn

from mdpf.filters import AdaptiveParticleFilter, ParticleFilter, RecurrentFilter
from mdpf.models import InformedDynamics, LearnedBandwidth, RecurrentNetwork, ScoreNetwork, Standardise, mlp
from mdpf.models.images import PictureEncoder
from mdpf.recipes.blueprint import Blueprint
from mdpf.resamplers import Resampler

SMALLEST_SHARE = 0.05  # A kernel stays wider than this share of its starting width; for an angle the share holds for its square.


@dataclass(frozen=True)
class LogNetworks:
    """Networks for recorded sequences.

    Args:
        blueprint: What the data decided.
        hidden_dim: The width of every layer.
        memory_dim: What each of two layers of the recurrent network holds.
    """

    blueprint: Blueprint
    hidden_dim: int = 32
    memory_dim: int = 64

    def filter(self, resampler: Resampler) -> ParticleFilter:
        """A particle filter with these networks."""
        return ParticleFilter(
            dynamics=self.dynamics(),
            measurement=self.measurement(num_heads=1),
            bandwidth=self.bandwidth(),
            resampler=resampler,
            encoder=self.encoder(),
        )

    def adaptive_filter(self, resampler: Resampler) -> AdaptiveParticleFilter:
        """A particle filter with separate mixtures for posterior and resampling."""
        return AdaptiveParticleFilter(
            dynamics=self.dynamics(),
            measurement=self.measurement(num_heads=2),
            bandwidth=self.bandwidth(),
            resampling_bandwidth=self.bandwidth(),
            resampler=resampler,
            encoder=self.encoder(),
        )

    def recurrent_filter(self) -> RecurrentFilter:
        """The long short-term memory; it sees everything in the units in which the particle filters see it."""
        plan = self.blueprint
        space = plan.state_space
        linear = [plan.bound[dim] / scale for dim, scale in zip(space.linear, plan.scale, strict=True)]
        angular = [min(2.0, plan.bound[dim]) for dim in space.angular for _ in range(2)]
        network = RecurrentNetwork(
            plan.scaled_space,
            feature_dim=self.hidden_dim,
            bound=(*linear, *angular),
            encoder_dim=self.hidden_dim,
            action_dim=plan.action_dim,
            memory_dim=self.memory_dim,
            num_layers=2,
        )
        if network.action_encoder is not None:
            network.action_encoder.insert(0, Standardise(plan.action_mean, plan.action_scale))
        return RecurrentFilter(network=network, bandwidth=self.bandwidth(), encoder=self.encoder())

    def dynamics(self) -> InformedDynamics:
        plan = self.blueprint
        return InformedDynamics(
            plan.features,
            scale=plan.step,
            weight=plan.drift,
            bias=plan.drift_bias,
            noise_scale=plan.noise,
            bound=plan.bound,
            hidden_dim=self.hidden_dim,
            action=Standardise(plan.action_mean, plan.action_scale) if plan.action_dim else None,
        )

    def measurement(self, num_heads: int) -> ScoreNetwork:
        width = self.hidden_dim
        return ScoreNetwork(
            self.blueprint.scaled_space, feature_dim=width, particle_sizes=(width,) * 3, hidden_dim=width, num_heads=num_heads
        )

    def bandwidth(self) -> LearnedBandwidth:
        start, angular = self.blueprint.bandwidth, self.blueprint.state_space.angular
        minimum = [width * (SMALLEST_SHARE**2 if dim in angular else SMALLEST_SHARE) for dim, width in enumerate(start)]
        return LearnedBandwidth(self.blueprint.state_space, start, minimum)

    def encoder(self) -> nn.Module:
        """A small convolutional network for images, for everything else a perceptron of standardised numbers."""
        plan, width = self.blueprint, self.hidden_dim
        if plan.image:
            height, across, channels = plan.observation
            return PictureEncoder((height, across, channels), feature_dim=width)
        first = Standardise(plan.observation_mean, plan.observation_scale, ndim=len(plan.observation))
        return nn.Sequential(first, *mlp([len(plan.observation_mean), *(width,) * 3]))
