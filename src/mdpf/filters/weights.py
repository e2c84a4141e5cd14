"""Weights: how scores change them, and how unequal they are."""

from typing import NamedTuple

import torch
from torch import Tensor

from mdpf.ops import log_sum_exp
from mdpf.ops.logsumexp import LOWEST_EXPONENT


class Reweighted(NamedTuple):
    """New log-weights ``[*batch, n]``, with the evidence and whether they are degenerate, each ``[*batch]``."""

    log_weights: Tensor
    log_evidence: Tensor
    degenerate: Tensor


def reweight(log_weights: Tensor, scores: Tensor) -> Reweighted:
    r"""Multiply importance weights by likelihoods and normalise.

    .. math:: w_i \propto \hat w_i\, \ell_i, \qquad \text{evidence} = \sum_i \hat w_i\, \ell_i

    A score that is not a number, or plus infinity, counts as impossible. Where every particle is impossible the incoming weights
    are carried on, the evidence is zero (its logarithm minus infinity, without gradient), and the element is marked; its
    neighbours notice nothing.

    Args:
        log_weights: Log importance weights, ``[*batch, n]``; they need not sum to one.
        scores: Log-likelihoods up to a constant, ``[*batch, n]``.
    """
    joint = log_weights + scores
    joint = torch.where(joint < torch.inf, joint, -torch.inf)
    degenerate = joint.detach().amax(-1, keepdim=True) == -torch.inf
    # Importance weights can vanish altogether; then nothing is left to carry on but the particles.
    carried = torch.where(log_weights.detach().amax(-1, keepdim=True) > -torch.inf, log_weights, 0.0)
    chosen = torch.where(degenerate, carried, joint)
    total, degenerate = log_sum_exp(chosen), degenerate.squeeze(-1)
    return Reweighted(chosen - total.unsqueeze(-1), torch.where(degenerate, -torch.inf, total), degenerate)


def effective_sample_size(log_weights: Tensor) -> Tensor:
    r"""The number of equally weighted particles worth as much, :math:`1 / \sum_i w_i^2`: ``[*batch]``."""
    return (2 * log_weights).clamp_min(LOWEST_EXPONENT).exp().sum(-1).reciprocal()
