"""Blend the weights with the uniform distribution before resampling."""

import math
from dataclasses import dataclass

import torch

from mdpf.mixture import Mixture, gather
from mdpf.noise import Source
from mdpf.resamplers.protocol import Draw
from mdpf.selection import Selection, multinomial


@dataclass(frozen=True)
class Soft:
    r"""Copy particles in proportion to weights blended with uniform ones; correct by importance weighting (SR-PF).

    .. math:: a_j \sim \mathrm{Cat}(v), \quad v = (1 - \lambda) w + \lambda / N, \quad \hat w_j = \frac{w_{a_j}}{n v_{a_j}}

    Args:
        mix: The share :math:`\lambda` of the uniform distribution.
        select: How ancestors are chosen.
        detach_proposal: Hold :math:`v` constant in the gradient, which removes its bias.
        detach_locations: Cut the gradient of the copied locations, as the experiments of the paper did.

    Gradient:
        Biased by default: the weight is differentiated through numerator and denominator, although the choice of ancestors depends
        on the denominator too. With ``detach_proposal`` it is unbiased for the discrete distribution. To the locations of the
        chosen ancestors.

    References:
        Karkus, Hsu and Lee (2018), Particle filter networks with application to visual localization.
    """

    mix: float = 0.1
    select: Selection = multinomial
    detach_proposal: bool = False
    detach_locations: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.mix < 1:
            raise ValueError(
                f"Soft needs mix between 0 and 1, both excluded, got {self.mix}. Without blending use Discrete or StopGradient."
            )

    def __call__(self, mixture: Mixture, num_particles: int, *, generator: Source = None) -> Draw:
        mixture.check("Soft")
        log_weights = mixture.log_weights
        uniform = torch.full_like(log_weights, math.log(self.mix / mixture.num_components))
        log_proposal = torch.logaddexp(log_weights + math.log1p(-self.mix), uniform)
        ancestors = self.select(log_proposal, num_particles, generator=generator)
        if self.detach_proposal:
            log_proposal = log_proposal.detach()
        log_ratio = log_weights.gather(-1, ancestors) - log_proposal.gather(-1, ancestors)
        locs = mixture.locs.detach() if self.detach_locations else mixture.locs
        return Draw(gather(locs, ancestors), log_ratio - math.log(num_particles))
