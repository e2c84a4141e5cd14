"""The direct form of the factors: every deviation on its own, exact however far the cloud lies or reaches.

All functions work on one block of pairs and overwrite the memory they are given.
"""

import math

import torch
from torch import Tensor

from mdpf.ops.binary import LOG2_E

POWER = {"e": 1.0, "b": 2.0}


def _below_edge(u: Tensor, out: Tensor) -> Tensor:
    """``1 - u^2``, outside the support the smallest number; as a product it keeps its digits at the edge."""
    torch.sub(1, u, out=out)
    return out.addcmul_(out, u).clamp_min_(torch.finfo(u.dtype).tiny)


def add_factor(kind: str, deviation: Tensor, parameter: Tensor, scores: Tensor, work: Tensor) -> None:
    """Add the log-density of one coordinate, relative to its peak and to base two, to ``scores``."""
    if kind == "v":
        deviation.mul_(0.5).sin_().mul_((2 * parameter).sqrt())
        scores.addcmul_(deviation, deviation, value=-1)
        return
    u = deviation.div_(parameter)
    if kind == "g":
        scores.addcmul_(u, u, value=-0.5)
    else:
        # No point inside comes near the smallest number. Of zero itself the logarithm is nine times slower than of others.
        outside = math.log2(torch.finfo(u.dtype).tiny) + 1
        scores.add_(torch.threshold_(_below_edge(u, work).log2_(), outside, -torch.inf), alpha=POWER[kind])


def pull_back(kind: str, deviation: Tensor, parameter: Tensor, probabilities: Tensor, slopes: Tensor) -> Tensor:
    """Weigh the derivatives of one coordinate's factor by the responsibilities.

    Args:
        kind: The kind of the coordinate.
        deviation: ``x - loc`` of every pair.
        parameter: The kernel's parameter, ``[b, 1, 1]``.
        probabilities: The responsibilities.
        slopes: Receives responsibility times derivative to the deviation.

    Returns:
        For each query, the sum over components of responsibility times derivative to the parameter, ``[b, rows]``.
    """
    if kind == "v":
        torch.mul(deviation, 0.5, out=slopes).sin_()
        to_parameter = slopes.mul_(slopes).mul_(probabilities).sum(-1).mul_(-2)
        torch.mul(deviation.sin_(), probabilities, out=slopes).mul_(-parameter)
        return to_parameter
    u = deviation.div_(parameter)
    if kind == "g":
        torch.mul(probabilities, u, out=slopes).mul_(-1 / parameter)
    else:
        # A responsibility vanishes with its factor; the quotient of both zeros counts for nothing.
        torch.div(probabilities, _below_edge(u, slopes), out=slopes).mul_(u).mul_(-2 * LOG2_E * POWER[kind] / parameter)
    return u.mul_(slopes).sum(-1).neg_()
