"""The density of a mixture at many points: the one function, whichever implementation runs."""

from torch import Tensor

from mdpf.kernels.protocol import Kernel
from mdpf.ops import reference


def mixture_log_prob(x: Tensor, locs: Tensor, log_weights: Tensor, kernel: Kernel) -> Tensor:
    r"""Evaluate :math:`\log \sum_j w_j K(x_i \mid \mu_j)`.

    Shapes:
        ``x``: ``[*batch, m, d]``, ``locs``: ``[*batch, n, d]``, ``log_weights``: ``[*batch, n]``; returns ``[*batch, m]``.

    Gradient:
        To every input. Where no kernel covers a point the log-density is minus infinity and its gradient zero.
    """
    return reference.mixture_log_prob(x, locs, log_weights, kernel)
