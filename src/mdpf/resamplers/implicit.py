"""Draw from the mixture; move each point so that its place in the cumulative distribution stays what it was."""

from dataclasses import dataclass

import torch
from torch import Tensor

from mdpf.kernels.product import has_cdf
from mdpf.kernels.protocol import KernelWithCdf
from mdpf.mixture import Mixture
from mdpf.noise import Source
from mdpf.resamplers.protocol import Draw
from mdpf.resamplers.weights import uniform_log_weights
from mdpf.selection import Selection, multinomial


@dataclass(frozen=True)
class ImplicitlyReparameterized:
    r"""Draw from the mixture; differentiate through the inverse of the distributional transform (IRG-MDPF).

    With the transform :math:`S_\phi(x)` of :meth:`mdpf.Mixture.distributional_transform`,

    .. math:: \nabla_\phi x = -(\nabla_x S_\phi(x))^{-1} \nabla_\phi S_\phi(x) .

    Args:
        select: How mixture components are chosen.

    Gradient:
        Unbiased where the cumulative distribution is smooth, and of enormous variance where modes are separated: a point between
        two modes has to travel the whole gap when a weight changes. Here for comparison; use ``ImportanceWeighted``.

    Cost:
        ``num_particles x particle x state``, with a quadrature per pair for angles; linear when no gradient is wanted.

    References:
        Graves (2016); Figurnov, Mohamed and Mnih (2018).
    """

    select: Selection = multinomial

    def __call__(self, mixture: Mixture, num_particles: int, *, generator: Source = None) -> Draw:
        if not has_cdf(mixture.kernel):
            raise TypeError(
                "ImplicitlyReparameterized needs a kernel with `log_factors`, `scores` and `cdf`, "
                f"got {type(mixture.kernel).__name__}. Use resamplers.ImportanceWeighted, which needs only log_prob."
            )
        with torch.no_grad():
            points = mixture.sample(num_particles, generator=generator, select=self.select)
        log_weights = uniform_log_weights(mixture, num_particles)
        if not torch.is_grad_enabled():
            return Draw(points, log_weights)
        place = mixture.distributional_transform(points)
        shift = torch.linalg.solve_triangular(_jacobian(mixture, points), (place - place.detach()).unsqueeze(-1), upper=False)
        return Draw(points - shift.squeeze(-1), log_weights)


@torch.no_grad()
def _jacobian(mixture: Mixture, points: Tensor) -> Tensor:
    r"""The derivative of the transform to the points, lower triangular: ``[*batch, m, d, d]``.

    With the conditional weights :math:`c^{(k)}`, cumulative distributions :math:`F_k` and scores :math:`s_j = \partial \log K_j /
    \partial x_j` of every component, row :math:`k` has the density :math:`\sum_i c_i^{(k)} K_{ik}` on the diagonal and the
    covariance of :math:`F_k` and :math:`s_j` under :math:`c^{(k)}` before it.
    """
    kernel: KernelWithCdf = mixture.kernel  # type: ignore[assignment]
    x, locs = points.unsqueeze(-2), mixture.locs.unsqueeze(-3)
    pairs = x.expand(*points.shape[:-1], mixture.num_components, -1)
    log_factors = kernel.log_factors(pairs, locs)
    cdf = kernel.cdf(pairs, locs)
    scores = kernel.scores(pairs, locs)

    log_conditional = mixture.log_weights.unsqueeze(-2).expand(pairs.shape[:-1])
    rows = []
    for k in range(mixture.state_dim):
        conditional = log_conditional.softmax(-1)
        density = (conditional * log_factors[..., k].exp()).sum(-1, keepdim=True)
        mean_score = (conditional.unsqueeze(-1) * scores[..., :k]).sum(-2, keepdim=True)
        slope = ((conditional * cdf[..., k]).unsqueeze(-1) * (scores[..., :k] - mean_score)).sum(-2)
        # A density that underflows would divide by zero; the smallest normal number leaves the gradient huge, not undefined.
        rows.append(torch.cat([slope, density.clamp_min(torch.finfo(density.dtype).tiny)], -1))
        log_conditional = log_conditional + log_factors[..., k]
    return torch.stack([torch.nn.functional.pad(row, (0, mixture.state_dim - row.shape[-1])) for row in rows], -2)
