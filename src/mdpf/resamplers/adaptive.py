"""Resample only where the particles have become unequal."""

from dataclasses import dataclass

from mdpf import trees
from mdpf.mixture import Mixture
from mdpf.noise import Source
from mdpf.ops import log_sum_exp
from mdpf.resamplers.protocol import Draw, Resampler


@dataclass(frozen=True)
class Adaptive:
    r"""Resample a batch element only when its effective sample size falls below a share of its particles.

    Elsewhere particles and weights are carried on, so the weights of a ``Draw`` differ from element to element; a filter that takes
    them as they come, as those of this library do, keeps the right evidence. Both branches are computed and one is chosen, element
    by element: fixed shapes, no host synchronisation.

    Args:
        resampler: What to do where resampling is due.
        threshold: The share of the number of particles below which it is.

    Gradient:
        That of ``resampler`` where it was used; the full gradient of the carried weights and locations elsewhere.
    """

    resampler: Resampler
    threshold: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise ValueError(
                f"Adaptive needs a threshold above 0 and up to 1, got {self.threshold}. It is a share of the particles."
            )

    def __call__(self, mixture: Mixture, num_particles: int, *, generator: Source = None) -> Draw:
        draw = self.resampler(mixture, num_particles, generator=generator)
        if num_particles != mixture.num_components:
            return draw
        ess = (-log_sum_exp(2 * mixture.log_weights.detach())).exp()
        due = ess < self.threshold * num_particles
        return trees.where(due, draw, Draw(mixture.locs, mixture.log_weights))
