"""Draw from the mixture; move each point with the component it came from, reweight for the mixture weights alone."""

from dataclasses import dataclass

import torch

from mdpf.mixture import Mixture
from mdpf.noise import Source
from mdpf.ops import mixture_log_prob
from mdpf.resamplers.protocol import Draw
from mdpf.resamplers.weights import uniform_log_weights, weight_one
from mdpf.selection import Selection, multinomial
from mdpf.trees import detach


@dataclass(frozen=True)
class ComponentPathwise:
    r"""Draw from the mixture; locations and bandwidths pathwise within the drawn component, weights by importance.

    With :math:`x_j = \mu_{a_j} + \beta \epsilon_j` (and its like for other kernels) left differentiable, only the mixture weights
    are carried by importance weights:

    .. math:: \log v_j = \log \sum_i w_i \operatorname{stop}[K(x_j \mid \mu_i)] - \operatorname{stop}[\cdot] - \log n .

    Differentiating the density rather than the drawn component's weight averages over every component that could have produced
    the point, which lowers the variance.

    Args:
        select: How mixture components are chosen.

    Gradient:
        Unbiased for weights, locations and bandwidth, for test functions that are continuous. Between distant modes its variance
        is below that of ``ImportanceWeighted`` for locations and bandwidths, because no point needs to change its component.

    Cost:
        As ``ImportanceWeighted``; linear when no gradient is wanted.
    """

    select: Selection = multinomial

    def __call__(self, mixture: Mixture, num_particles: int, *, generator: Source = None) -> Draw:
        points = mixture.sample(num_particles, generator=generator, select=self.select)
        if not torch.is_grad_enabled():
            return Draw(points, uniform_log_weights(mixture, num_particles))
        kernel = detach(mixture.kernel)
        log_density = mixture_log_prob(points.detach(), mixture.locs.detach(), mixture.log_weights, kernel)
        return Draw(points, weight_one(log_density))
