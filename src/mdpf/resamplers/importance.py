"""Draw from the mixture; carry its gradient in importance weights."""

from dataclasses import dataclass

import torch

from mdpf.mixture import Mixture
from mdpf.noise import Source
from mdpf.resamplers.protocol import Draw
from mdpf.resamplers.weights import uniform_log_weights, weight_one
from mdpf.selection import Selection, multinomial


@dataclass(frozen=True)
class ImportanceWeighted:
    r"""Draw from the mixture; importance weights of value one carry its gradient (IWSG, the rule of MDPF and A-MDPF).

    For :math:`m(x) = \sum_i w_i\, K(x \mid \mu_i)` the points :math:`x_j \sim m` are constants and

    .. math:: \log v_j = \log m(x_j) - \operatorname{stop}[\log m(x_j)] - \log n .

    Args:
        select: How mixture components are chosen.

    Gradient:
        Unbiased for weights, locations and bandwidth, where the kernel's score has finite variance (it is infinite, just, for
        Epanechnikov at an uncovered edge of the support; ``Biweight`` is the compact kernel without that defect). None through the
        points. A filter that normalises the weights afterwards shrinks every gradient by the factor ``1 - 1/n``.

    Cost:
        One density evaluation, ``num_particles x particle``, skipped when no gradient is wanted: then the cost is linear.

    Example:
        >>> import torch, mdpf
        >>> kernel = mdpf.kernels.Gaussian(torch.tensor([0.5]))
        >>> mixture = mdpf.Mixture(torch.randn(2, 5, 1), torch.full((2, 5), 0.2).log(), kernel)
        >>> draw = ImportanceWeighted()(mixture, 8)
        >>> draw.points.shape
        torch.Size([2, 8, 1])

    References:
        Younis and Sudderth (2023), Differentiable and stable long-range tracking of multiple posterior modes.
    """

    select: Selection = multinomial

    def __call__(self, mixture: Mixture, num_particles: int, *, generator: Source = None) -> Draw:
        with torch.no_grad():
            points = mixture.sample(num_particles, generator=generator, select=self.select)
        if not torch.is_grad_enabled():
            return Draw(points, uniform_log_weights(mixture, num_particles))
        return Draw(points, weight_one(mixture.log_prob(points)))
