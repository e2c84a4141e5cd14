"""Copy particles; carry the gradient of the weights in importance weights of value one."""

from dataclasses import dataclass

from mdpf.mixture import Mixture, gather
from mdpf.noise import Source
from mdpf.resamplers.protocol import Draw
from mdpf.resamplers.weights import weight_one
from mdpf.selection import Selection, multinomial


@dataclass(frozen=True)
class StopGradient:
    r"""Copy particles; each copy is weighted by its weight over the same weight held constant (DIS-PF).

    .. math:: \hat x_j = x_{a_j}, \quad a_j \sim \mathrm{Cat}(w), \quad \hat w_j = \frac{w_{a_j}}{n \operatorname{stop}[w_{a_j}]}

    Args:
        select: How ancestors are chosen.
        detach_locations: Cut the gradient of the copied locations, as the experiments of the paper did.

    Gradient:
        Unbiased to the weights of the discrete distribution, through the chosen ancestors alone (particles without offspring get
        none, hence its variance); to the locations of the chosen ancestors.

    References:
        Scibior and Wood (2021), Differentiable particle filtering without modifying the forward pass.
    """

    select: Selection = multinomial
    detach_locations: bool = False

    def __call__(self, mixture: Mixture, num_particles: int, *, generator: Source = None) -> Draw:
        mixture.check("StopGradient")
        ancestors = self.select(mixture.log_weights, num_particles, generator=generator)
        locs = mixture.locs.detach() if self.detach_locations else mixture.locs
        return Draw(gather(locs, ancestors), weight_one(mixture.log_weights.gather(-1, ancestors)))
