"""The particle filter: resample, move, weigh, smooth."""

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


class ParticleFilter(nn.Module):
    """A recursion over beliefs; parameters live in its parts, the belief travels through the arguments.

    With ``resamplers.ImportanceWeighted`` it is the mixture density particle filter (MDPF), with ``Truncated`` TG-MDPF, with
    ``Discrete`` the ordinary particle filter, and so on. A sequence has frames 0 to T-1; the belief given to ``forward`` is at
    frame 0, the observations and actions those of frames 1 to T-1. The first step after ``init`` does not resample.

    Args:
        dynamics: Moves particles: ``(points, action, *, generator)``.
        measurement: Scores particles: ``(particles, feature)`` to log-scores ``[*batch, n]``.
        bandwidth: Makes the kernel of the posterior.
        resampler: Draws new particles from the posterior; decides what gradient flows.
        encoder: Turns observations into features, once for a whole sequence. By default the observation is the feature.
    """

    def __init__(
        self,
        *,
        dynamics: Dynamics,
        measurement: Measurement,
        bandwidth: Bandwidth,
        resampler: Resampler,
        encoder: Encoder | None = None,
    ):
        super().__init__()
        self.dynamics = dynamics
        self.measurement = measurement
        self.bandwidth = bandwidth
        self.resampler = resampler
        self.encoder = encoder

    def init(self, particles: Tensor, log_weights: Tensor | None = None, *, check_values: bool = True) -> Belief:
        """Believe in particles ``[*batch, n, d]``, equally weighted unless ``log_weights`` ``[*batch, n]`` say otherwise.

        Looking at values waits for the device; ``check_values=False`` is for a training step, whose data were looked at before.
        """
        return initial_belief("ParticleFilter.init", self.bandwidth, particles, log_weights, check_values)

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
        """Go one frame on.

        Args:
            belief: What is believed at the frame before.
            feature: What was observed at this frame, encoded; ``None`` where nothing was.
            action: What was done in between, ``[*batch, a]``.
            observed: Which batch elements have an observation, ``[*batch]``; all by default. The others are moved, not weighed.
            num_particles: How many particles to draw; as many as there are by default. The first step keeps those it is given.
            generator: The source of random numbers.
        """
        generator = noise.source(generator)
        draw = move(belief, self.resampler, self.dynamics, action, num_particles, generator)
        scores = score(self.measurement, draw.points, feature, observed)
        weights = reweight(draw.log_weights, scores)
        posterior = Mixture(draw.points, weights.log_weights, smooth(self.bandwidth, draw.points))
        info = StepInfo(weights.log_evidence, effective_sample_size(weights.log_weights), weights.degenerate)
        return Belief(posterior, posterior), info

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
