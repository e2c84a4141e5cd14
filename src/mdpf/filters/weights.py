"""Weights: how scores change them, and how unequal they are."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mdpf.ops import log_sum_exp


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
    log_evidence = log_sum_exp(joint)
    degenerate = log_evidence == -torch.inf
    updated = joint - torch.where(degenerate, 0.0, log_evidence).unsqueeze(-1)
    total = log_sum_exp(log_weights).unsqueeze(-1)
    # Importance weights can vanish altogether; then nothing is left to carry on but the particles.
    carried = torch.where(total > -torch.inf, log_weights - total, -math.log(log_weights.shape[-1]))
    return Reweighted(torch.where(degenerate.unsqueeze(-1), carried, updated), log_evidence, degenerate)


def effective_sample_size(log_weights: Tensor) -> Tensor:
    r"""The number of equally weighted particles worth as much, :math:`1 / \sum_i w_i^2`: ``[*batch]``."""
    return (-log_sum_exp(2 * log_weights)).exp()
