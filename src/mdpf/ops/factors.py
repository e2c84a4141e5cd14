r"""What the fast implementations need to know of a kernel: per coordinate a kind and one parameter.

Every factor is written relative to its peak, :math:`\log K(x \mid \mu) - \log K(\mu \mid \mu)`; with the deviation
:math:`t = x - \mu` and the parameter :math:`a` that is

=============== ==== =================================
kernel          kind relative log-density
=============== ==== =================================
``Gaussian``    g    :math:`-\tfrac12 (t/a)^2`
``VonMises``    v    :math:`-2 a \sin^2(t/2)`
``Epanechnikov`` e   :math:`\log(1 - (t/a)^2)`
``Biweight``    b    :math:`2 \log(1 - (t/a)^2)`
=============== ==== =================================

The density at the peak depends on the parameters alone; the kernel itself is asked for it, so no normaliser is written twice.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from mdpf.kernels import Biweight, Epanechnikov, Gaussian, Kernel, Product, VonMises
from mdpf.kernels.protocol import align

MOST_COORDINATES = 8

_KINDS: dict[type, str] = {Gaussian: "g", VonMises: "v", Epanechnikov: "e", Biweight: "b"}


class Factors(NamedTuple):
    """A kernel over independent coordinates.

    Args:
        kinds: One letter per coordinate.
        parameters: One number per coordinate, ``[*batch, d]``.
        log_peak: The log-density at the location itself, ``[*batch]``.
    """

    kinds: str
    parameters: Tensor
    log_peak: Tensor


def factorise(kernel: Kernel, batch: torch.Size, like: Tensor) -> Factors | None:
    """Describe a kernel for states ``[*batch, ..., d]``; ``None`` for what only the reference can evaluate.

    That is a kernel not made of the four factors above, over more than ``MOST_COORDINATES``, with parameters that vary within a
    batch element, or with numbers that are not all single or all double precision.

    Gradient:
        To the kernel's parameters, through ``parameters`` and ``log_peak``.
    """
    parts = _leaves(kernel)
    if (
        like.dtype not in (torch.float32, torch.float64)
        or parts is None
        or sum(part.state_dim for part in parts) > MOST_COORDINATES
    ):
        return None
    parameters = [part[0] for part in parts]
    if any(parameter.ndim > len(batch) + 1 or parameter.dtype != like.dtype for parameter in parameters):
        return None
    kinds = "".join(_KINDS[type(part)] * part.state_dim for part in parts)
    centre = like.new_zeros(kernel.state_dim)
    if any(parameter.ndim > 1 for parameter in parameters):
        centre = centre.expand(*batch, -1)
        parameters = [align("mixture_log_prob", each, centre[..., : each.shape[-1]]).expand(*batch, -1) for each in parameters]
    together = torch.cat(parameters, -1) if len(parts) > 1 else parameters[0]
    return Factors(kinds, together.expand(*batch, -1), kernel.log_prob(centre, centre).expand(batch))


def _leaves(kernel: Kernel) -> list | None:
    """The parts of a kernel, products opened; ``None`` if one of them is unknown."""
    if type(kernel) is Product:
        opened = [_leaves(part) for part in kernel.parts]
        return None if None in opened else [leaf for leaves in opened for leaf in leaves or ()]
    return [kernel] if type(kernel) in _KINDS else None
