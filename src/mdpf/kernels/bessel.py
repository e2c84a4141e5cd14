r"""The Bessel functions of the von Mises density, as integrals over the circle.

Write :math:`v(t) = 1 - \cos t`, the versine. Then :math:`I_0(\kappa) e^{-\kappa} = \frac1\pi \int_0^\pi e^{-\kappa v(t)}\, dt`. The
midpoint rule converges faster than any power for such integrands, every term is positive, and the derivatives of the logarithm are
weighted means of the same terms: no cancellation anywhere, where the textbook difference :math:`I_1/I_0 - 1` loses all its digits
at large concentrations.
"""

import math

import torch
from torch import Tensor

NODES = 24
EXPONENT = 40.0


def versine(angle: Tensor) -> Tensor:
    """``1 - cos(angle)`` without cancellation."""
    return 2 * (angle / 2).sin().square()


def inverse_versine(value: Tensor) -> Tensor:
    """The angle from zero to pi whose versine is ``value``; pi for anything above two."""
    return 2 * (value / 2).sqrt().clamp_max(1).asin()


def _terms(concentration: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Versines at the midpoints ``[..., NODES]``, the relative density there, and how far they reach.

    Beyond the reach the relative density is below ``exp(-EXPONENT)``; it is a choice of where to look and carries no gradient.
    """
    reach = inverse_versine(EXPONENT / concentration.detach())
    midpoints = (torch.arange(NODES, dtype=reach.dtype, device=reach.device) + 0.5) / NODES
    versines = versine(reach[..., None] * midpoints)
    return versines, (-concentration[..., None] * versines).exp(), reach


def log_i0e(concentration: Tensor) -> Tensor:
    r"""The logarithm of :math:`I_0(\kappa) e^{-\kappa}`.

    Gradient:
        :math:`I_1/I_0 - 1`, accurate relative to itself for concentrations from 1e-6 to 1e6, and differentiable in turn.
    """
    _, densities, reach = _terms(concentration)
    return (densities.mean(-1) * reach / math.pi).log()


def mean_versine(concentration: Tensor) -> Tensor:
    r""":math:`1 - I_1(\kappa)/I_0(\kappa)`, the mean of :math:`1 - \cos` under the von Mises density."""
    versines, densities, _ = _terms(concentration)
    return (versines * densities).sum(-1) / densities.sum(-1)
