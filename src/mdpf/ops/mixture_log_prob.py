"""The density of a mixture at many points: the one function, whichever implementation runs."""

from typing import Literal

import torch
from torch import Tensor

from mdpf.kernels.protocol import Kernel
from mdpf.ops import blockwise, reference
from mdpf.ops.availability import fused_is_available
from mdpf.ops.factors import Factors, factorise

Implementation = Literal["auto", "reference", "blockwise", "fused"]
IMPLEMENTATIONS = ("auto", "reference", "blockwise", "fused")


def mixture_log_prob(
    x: Tensor, locs: Tensor, log_weights: Tensor, kernel: Kernel, *, implementation: Implementation = "auto"
) -> Tensor:
    r"""Evaluate :math:`\log \sum_j w_j K(x_i \mid \mu_j)`.

    Three implementations give the same numbers. ``reference`` evaluates every pair at once with the kernel's own formula: any
    kernel, memory for every pair. ``blockwise`` never holds more than a block of pairs and recomputes them in the backward pass.
    ``fused`` does the same in a few Triton programs on a CUDA device. The last two know products of ``Gaussian``, ``VonMises``,
    ``Epanechnikov`` and ``Biweight`` over up to 8 coordinates; with any other kernel they are the reference.

    Args:
        x: Where to evaluate.
        locs: Where the components are.
        log_weights: Their log-weights.
        kernel: Their common shape; parameters ``[d]`` or ``[*batch, d]``.
        implementation: ``"auto"`` takes ``fused`` on a CUDA device that can run it and ``blockwise`` elsewhere. What cannot run
            ``fused`` says so once, with a ``MdpfWarning``, and runs ``blockwise``.

    Shapes:
        ``x``: ``[*batch, m, d]``, ``locs``: ``[*batch, n, d]``, ``log_weights``: ``[*batch, n]``; returns ``[*batch, m]``. Runs
        side by side are one more batch axis, which serves where ``torch.func.vmap`` would be used.

    Gradient:
        To every input, once; for second derivatives ask for the reference. Where the log-density is not finite the gradient is
        zero: at points no kernel covers, at infinite points (minus infinity) and at points that are not numbers (NaN, there
        alone). That of ``fused`` compares scores with the rounded outcome: in single precision it is off by up to a tenth at points
        a thousand bandwidths from every component, and means nothing from ten thousand on; the others are right at any distance.
    """
    if implementation not in IMPLEMENTATIONS:
        raise ValueError(f"mixture_log_prob needs implementation to be one of {IMPLEMENTATIONS}, got {implementation!r}.")
    # The largest coordinate is infinite or NaN as soon as one of them is.
    reach = x.detach().abs().amax(-1)
    finite = reach < torch.inf
    points = torch.where(finite.unsqueeze(-1), x, locs[..., :1, :].detach())
    return torch.where(finite, _evaluate(points, locs, log_weights, kernel, implementation), -reach)


def _evaluate(x: Tensor, locs: Tensor, log_weights: Tensor, kernel: Kernel, implementation: Implementation) -> Tensor:
    batch = torch.broadcast_shapes(x.shape[:-2], locs.shape[:-2], log_weights.shape[:-1])
    mixed = not x.dtype == locs.dtype == log_weights.dtype
    factors = None if implementation == "reference" or mixed else factorise(kernel, batch, x)
    if factors is None:
        return reference.mixture_log_prob(x, locs, log_weights, kernel)
    relative_log_prob = blockwise.relative_log_prob
    if (implementation == "fused" or (implementation == "auto" and x.is_cuda)) and fused_is_available(x.device):
        # Only here: Triton is not everywhere.
        from mdpf.ops.fused import relative_log_prob
    relative = relative_log_prob(*_flatten(x, locs, log_weights, factors, batch)).reshape(*batch, x.shape[-2])
    # Where nothing is covered the peak must not receive a gradient either.
    return torch.where(relative.isfinite(), relative + factors.log_peak.unsqueeze(-1), relative)


def _flatten(
    x: Tensor, locs: Tensor, log_weights: Tensor, factors: Factors, batch: torch.Size
) -> tuple[Tensor, Tensor, Tensor, Tensor, str]:
    """Bring everything to one batch axis."""
    size = batch.numel()
    return (
        x.expand(*batch, *x.shape[-2:]).reshape(size, *x.shape[-2:]),
        locs.expand(*batch, *locs.shape[-2:]).reshape(size, *locs.shape[-2:]),
        log_weights.expand(*batch, -1).reshape(size, log_weights.shape[-1]),
        factors.parameters.reshape(size, len(factors.kinds)),
        factors.kinds,
    )
