"""Draw from the mixture; no gradient through resampling."""

from dataclasses import dataclass

import torch

from mdpf.mixture import Mixture
from mdpf.noise import Source
from mdpf.resamplers.protocol import Draw
from mdpf.resamplers.weights import uniform_log_weights
from mdpf.selection import Selection, multinomial


@dataclass(frozen=True)
class Truncated:
    """Draw from the mixture and cut the gradient (TG-MDPF).

    Args:
        select: How mixture components are chosen.

    Gradient:
        None. Its values equal those of ``ImportanceWeighted`` under the same random numbers.
    """

    select: Selection = multinomial

    def __call__(self, mixture: Mixture, num_particles: int, *, generator: Source = None) -> Draw:
        with torch.no_grad():
            points = mixture.sample(num_particles, generator=generator, select=self.select)
        return Draw(points, uniform_log_weights(mixture, num_particles))
