"""The particle filter with separate mixtures for what is believed and for where to look next."""

from typing import Any

from torch import Tensor, nn

from mdpf import noise
from mdpf.filters.belief import Belief, StepInfo
from mdpf.filters.parts import encode, initial_belief, move, score, seen, smooth
from mdpf.filters.scan import Collect, collect_trajectory, scan
from mdpf.filters.weights import effective_sample_size, reweight
from mdpf.mixture import Mixture
from mdpf.models.protocol import Bandwidth, Dynamics, Encoder, Feature, Measurement
from mdpf.noise import Source
from mdpf.resamplers.protocol import Resampler


class AdaptiveParticleFilter(nn.Module):
    """A particle filter that weighs and smooths its particles twice (A-MDPF).

    One set of weights and one bandwidth make the posterior, the others the mixture from which the next particles are drawn. Both
    are learned from the loss on the posterior alone, which only a gradient through resampling makes possible.

    Args:
        dynamics: Moves particles: ``(points, action, *, generator)``.
        measurement: Scores particles twice: ``(particles, feature)`` to log-scores ``[*batch, n, 2]``, for the posterior and for
            resampling.
        bandwidth: Makes the kernel of the posterior.
        resampling_bandwidth: Makes the kernel of the mixture that is drawn from.
        resampler: Draws new particles; decides what gradient flows.
        encoder: Turns observations into features, once for a whole sequence. By default the observation is the feature.
    """

    def __init__(
        self,
        *,
        dynamics: Dynamics,
        measurement: Measurement,
        bandwidth: Bandwidth,
        resampling_bandwidth: Bandwidth,
        resampler: Resampler,
        encoder: Encoder | None = None,
    ):
        super().__init__()
        self.dynamics = dynamics
        self.measurement = measurement
        self.bandwidth = bandwidth
        self.resampling_bandwidth = resampling_bandwidth
        self.resampler = resampler
        self.encoder = encoder

    def init(self, particles: Tensor, log_weights: Tensor | None = None, *, check_values: bool = True) -> Belief:
        """Believe in particles ``[*batch, n, d]``, equally weighted unless ``log_weights`` ``[*batch, n]`` say otherwise.

        Looking at values waits for the device; ``check_values=False`` is for a training step, whose data were looked at before.
        """
        return initial_belief("AdaptiveParticleFilter.init", self.bandwidth, particles, log_weights, check_values)

    def step(
        self,
        belief: Belief,
        feature: Feature,
        action: Tensor | None = None,
        *,
        observed: Tensor | None = None,
        num_particles: int | None = None,
        generator: Source = None,
    ) -> tuple[Belief, StepInfo]:
        """Go one frame on; see ``ParticleFilter.step``. What it notices is about the posterior's weights."""
        generator = noise.source(generator)
        draw = move(belief, self.resampler, self.dynamics, action, num_particles, generator)
        scores = score(self.measurement, draw.points, feature, observed, num_heads=2)
        weights = reweight(draw.log_weights, scores[..., 0])
        resampling_weights = reweight(draw.log_weights, scores[..., 1])
        posterior = Mixture(draw.points, weights.log_weights, smooth(self.bandwidth, draw.points))
        resampling = Mixture(draw.points, resampling_weights.log_weights, smooth(self.resampling_bandwidth, draw.points))
        degenerate = weights.degenerate | resampling_weights.degenerate
        info = StepInfo(weights.log_evidence, effective_sample_size(weights.log_weights), degenerate)
        return Belief(posterior, resampling), info

    def forward(
        self,
        belief: Belief,
        observations: Tensor,
        actions: Tensor | None = None,
        *,
        observed: Tensor | None = None,
        valid: Tensor | None = None,
        truncate: int | None = None,
        collect: Collect = collect_trajectory,
        generator: Source = None,
    ) -> tuple[Belief, Any]:
        """Go through a sequence; see ``mdpf.scan`` for the arguments. Returns the last belief and what was collected."""
        features = encode(self.encoder, observations, seen(observed, valid))
        return scan(
            self.step,
            belief,
            features,
            actions,
            observed=observed,
            valid=valid,
            truncate=truncate,
            collect=collect,
            generator=generator,
        )
