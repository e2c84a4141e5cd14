"""Adam for several runs at once, each clipped, guarded and scheduled on its own."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

FIRST_DECAY, SECOND_DECAY, EPSILON = 0.9, 0.999, 1e-8
CLIP_EPSILON = 1e-6  # As torch.nn.utils.clip_grad_norm_ has it.


class AdamState(NamedTuple):
    """Moments ``[R, P]``, and for each run how many updates it made and how many it skipped, ``[R]``."""

    first: Tensor
    second: Tensor
    updates: Tensor
    skipped: Tensor


def start(values: Tensor) -> AdamState:
    """The state before the first update."""
    zero = torch.zeros(len(values), dtype=values.dtype, device=values.device)
    return AdamState(torch.zeros_like(values), torch.zeros_like(values), zero, zero.clone())


@torch.no_grad()
def update(
    state: AdamState, values: Tensor, gradients: Tensor, rates: Tensor, active: Tensor, clip: float = torch.inf, decay: float = 0.0
) -> Tensor:
    """Make one step, in place, without waiting for the device.

    A run whose gradient is not finite skips the step: neither its values nor its moments change, and its neighbours notice nothing.

    Args:
        state: Changed in place.
        values: What is learned, ``[R, P]``; changed in place.
        gradients: Their gradients, ``[R, P]``.
        rates: Learning rates, ``[R, P]``; a column of rate zero stays as it is and takes no part in the norm.
        active: Which runs still learn, ``[R]``.
        clip: The largest norm of a run's gradient.
        decay: Added to the clipped gradient, times the value (as torch's Adam does it).

    Returns:
        The norm of each run's gradient before clipping, ``[R]``.
    """
    learned = rates > 0
    gradients = torch.where(learned, gradients, 0.0)
    norm = gradients.norm(dim=-1)
    finite = torch.isfinite(norm)
    moves = (finite & active).unsqueeze(-1)
    gradients = gradients * (clip / (norm + CLIP_EPSILON)).clamp_max(1).unsqueeze(-1)
    gradients = torch.where(moves & learned, gradients + decay * values, 0.0)

    state.updates.add_(moves.squeeze(-1).to(values.dtype))
    state.skipped.add_((~finite & active).to(values.dtype))
    first = FIRST_DECAY * state.first + (1 - FIRST_DECAY) * gradients
    second = SECOND_DECAY * state.second + (1 - SECOND_DECAY) * gradients.square()
    state.first.copy_(torch.where(moves, first, state.first))
    state.second.copy_(torch.where(moves, second, state.second))
    first_bias, second_bias = _bias(FIRST_DECAY, state.updates), _bias(SECOND_DECAY, state.updates)
    step = rates / first_bias * state.first / ((state.second / second_bias).sqrt() + EPSILON)
    values.sub_(torch.where(moves & learned, step, 0.0))
    return norm


def _bias(decay: float, updates: Tensor) -> Tensor:
    """The share of a moment that the updates so far account for: ``1 - decay ** updates``, to the last digit of any precision."""
    return -torch.expm1(updates.clamp_min(1).unsqueeze(-1) * math.log(decay))
