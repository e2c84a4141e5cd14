"""Small networks for vector observations, put together to any method of the bearings study."""

from dataclasses import dataclass

from torch import nn

from mdpf.filters import AdaptiveParticleFilter, ParticleFilter, RecurrentFilter
from mdpf.kernels import Gaussian
from mdpf.models import LearnedBandwidth, RecurrentNetwork, ResidualDynamics, ScoreNetwork, mlp
from mdpf.models.bandwidth import Family
from mdpf.resamplers import Resampler
from mdpf.spaces import StateSpace


@dataclass(frozen=True)
class VectorNetworks:
    """Small networks for vector observations.

    Args:
        space: Which coordinates are angles.
        observation_dim: Numbers per observation.
        bound: The largest step of the dynamics, for each encoded coordinate.
        start: The bandwidths to start from, for each coordinate.
        minimum: What they cannot fall below.
        hidden_dim: The width of every layer.
        action_dim: Numbers per action.
        linear: The kernel of linear coordinates.
        located: Whether the dynamics look at the linear coordinates too.
        resampler: In place of a method's own.
    """

    space: StateSpace
    observation_dim: int
    bound: tuple[float, ...]
    start: tuple[float, ...]
    minimum: tuple[float, ...]
    hidden_dim: int = 8
    action_dim: int = 0
    linear: Family = Gaussian
    located: bool = False
    resampler: Resampler | None = None

    def filter(self, resampler: Resampler) -> ParticleFilter:
        """A particle filter with these networks."""
        return ParticleFilter(
            dynamics=self.dynamics(),
            measurement=self.measurement(num_heads=1),
            bandwidth=self.bandwidth(),
            resampler=self.resampler or resampler,
            encoder=self.encoder(),
        )

    def adaptive_filter(self, resampler: Resampler) -> AdaptiveParticleFilter:
        """A particle filter with separate mixtures for posterior and resampling."""
        return AdaptiveParticleFilter(
            dynamics=self.dynamics(),
            measurement=self.measurement(num_heads=2),
            bandwidth=self.bandwidth(),
            resampling_bandwidth=self.bandwidth(),
            resampler=self.resampler or resampler,
            encoder=self.encoder(),
        )

    def recurrent_filter(self, *, as_published: bool = False) -> RecurrentFilter:
        """The long short-term memory, with the same encoders; see ``RecurrentNetwork`` for how the paper's differs."""
        network = RecurrentNetwork(
            self.space,
            feature_dim=self.hidden_dim,
            bound=self.bound,
            encoder_dim=self.hidden_dim,
            action_dim=self.action_dim,
            as_published=as_published,
        )
        return RecurrentFilter(network=network, bandwidth=self.bandwidth(), encoder=self.encoder())

    def dynamics(self) -> ResidualDynamics:
        options = {"bound": self.bound, "hidden_dim": self.hidden_dim, "action_dim": self.action_dim}
        return ResidualDynamics(self.space, **options, located=self.located)

    def measurement(self, num_heads: int) -> ScoreNetwork:
        width = self.hidden_dim
        return ScoreNetwork(self.space, feature_dim=width, particle_sizes=(width,) * 3, hidden_dim=width, num_heads=num_heads)

    def bandwidth(self) -> LearnedBandwidth:
        return LearnedBandwidth(self.space, self.start, self.minimum, self.linear)

    def encoder(self) -> nn.Module:
        return mlp([self.observation_dim, *(self.hidden_dim,) * 3])
