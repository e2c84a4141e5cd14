"""What training asks of its data, said before the first epoch."""

import torch
from torch import Tensor

from mdpf.checks import check_finite, check_same_kind
from mdpf.data.sequences import SequenceBatch


def check_data(call: str, name: str, batch: SequenceBatch, like: Tensor) -> None:
    """Check that there is something to learn from, in every value that will be looked at.

    Args:
        call: Who asks.
        name: What the data are for.
        batch: The data, ``[n, T, ...]``.
        like: A parameter, whose dtype and device they share.
    """
    if batch.num_sequences == 0 or batch.length < 2:
        raise ValueError(
            f"{call} needs {name} sequences of at least two frames, got {batch.num_sequences} of length {batch.length}. "
            "A filter starts at the first frame and needs another to work on."
        )
    check_same_kind(call, parameters=like, **{f"{name}_states": batch.states})
    targets = batch.targets
    if not bool(targets[:, 0].all()):
        sequence = int((~targets[:, 0]).nonzero()[0])
        raise ValueError(
            f"{call} needs every {name} sequence to be labelled at its first frame, got none at index {sequence}. "
            "A filter starts from the state of frame 0; cut off what comes before the first label."
        )
    if not bool(targets[:, 1:].any()):
        raise ValueError(
            f"{call} needs labelled frames after the first, got none in all {batch.num_sequences} {name} sequences. "
            "Mark frames whose state is known in `labelled`."
        )
    _check_where(call, f"{name} states", batch.states, targets)
    check_inputs(call, name, batch)


def check_inputs(call: str, name: str, batch: SequenceBatch) -> None:
    """Check that what a filter is given is finite wherever it will be looked at: observations that came, actions that were done."""
    everywhere = torch.ones(batch.states.shape[:-1], dtype=torch.bool, device=batch.states.device)
    valid = everywhere if batch.valid is None else batch.valid
    observed = valid if batch.observed is None else valid & batch.observed
    _check_where(call, f"{name} observations".strip(), batch.observations, observed)
    if batch.actions is not None:
        _check_where(call, f"{name} actions".strip(), batch.actions, valid[..., 1:])


def _check_where(call: str, name: str, value: Tensor, mask: Tensor) -> None:
    if value.is_floating_point():
        seen = torch.where(mask.reshape(mask.shape + (1,) * (value.ndim - mask.ndim)), value, 0.0)
        check_finite(call, seen, name, "Remove such frames, or mark them in `labelled`, `observed` or `valid`.")
