"""Copy particles; no gradient through resampling."""

from dataclasses import dataclass

from mdpf.mixture import Mixture, gather
from mdpf.noise import Source
from mdpf.resamplers.protocol import Draw
from mdpf.resamplers.weights import uniform_log_weights
from mdpf.selection import Selection, multinomial


@dataclass(frozen=True)
class Discrete:
    r"""Copy particles in proportion to their weights and cut the gradient (TG-PF).

    .. math:: \hat x_j = x_{a_j}, \quad a_j \sim \mathrm{Cat}(w), \quad \hat w_j = 1/n

    The kernel of the mixture is not used: the points stand for the weighted particles, not for the smoothed density.

    Args:
        select: How ancestors are chosen.

    Gradient:
        None, neither to the weights nor to the locations.

    References:
        Jonschkowski, Rastogi and Brock (2018), Differentiable particle filters.
    """

    select: Selection = multinomial

    def __call__(self, mixture: Mixture, num_particles: int, *, generator: Source = None) -> Draw:
        mixture.check("Discrete")
        ancestors = self.select(mixture.log_weights, num_particles, generator=generator)
        return Draw(gather(mixture.locs.detach(), ancestors), uniform_log_weights(mixture, num_particles))
