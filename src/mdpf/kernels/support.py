"""What the kernels of compact support share: care at the edge."""

import torch
from torch import Tensor


def inside(delta: Tensor, halfwidth: Tensor) -> tuple[Tensor, Tensor]:
    """The deviation in halfwidths, zero where it lies outside the support, and where that is.

    Zeroing before the logarithm, and before the division, keeps the backward pass free of ``0 * inf``. A NaN counts as inside, so
    that it stays a NaN.
    """
    outside = delta.abs() >= halfwidth
    return torch.where(outside, 0.0, delta) / halfwidth, outside


def within(u: Tensor, loc: Tensor, halfwidth: Tensor) -> Tensor:
    """Bring ``u`` so far inside (-1, 1) that ``loc + halfwidth * u`` lies inside the support after rounding.

    The margin is the rounding error of the sum, which counts where ``loc`` is much larger than ``halfwidth``.
    """
    margin = torch.finfo(u.dtype).eps * (2 + loc.detach().abs() / halfwidth.detach())
    limit = (1 - margin).clamp_min(0)
    return torch.minimum(torch.maximum(u, -limit), limit)
