"""Sequences in memory: what a task makes, a file holds and training consumes.

Frames count from 0 to ``T - 1``. Action ``t`` leads from frame ``t`` to frame ``t + 1``, so there is one action less than frames.
A filter starts from the state of frame 0 and consumes the observations of the frames after it.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from mdpf import noise
from mdpf.checks import check_count


class SequenceBatch(NamedTuple):
    """Sequences of states, observations and actions.

    Args:
        states: True states ``[*batch, T, d]``; finite, but of no meaning where not labelled.
        observations: What was seen, ``[*batch, T, ...]``; images stay uint8, whoever encodes them scales them.
        actions: What was done between frames, ``[*batch, T - 1, a]``, or None.
        labelled: Frames whose state is known, ``[*batch, T]``, or None: all.
        valid: Frames that exist, ``[*batch, T]``, or None: all. Shorter sequences are padded at their end.
        observed: Frames whose observation came, ``[*batch, T]``, or None: all.

    Shapes:
        ``*batch`` is ``[n]`` for a data set and ``[R, B]`` for a batch of ``R`` runs trained at once.
    """

    states: Tensor
    observations: Tensor
    actions: Tensor | None = None
    labelled: Tensor | None = None
    valid: Tensor | None = None
    observed: Tensor | None = None

    @property
    def num_sequences(self) -> int:
        return self.states.shape[-3]

    @property
    def length(self) -> int:
        """Frames per sequence, padding included."""
        return self.states.shape[-2]

    @property
    def targets(self) -> Tensor:
        """Frames that have a state to learn from or be judged by, ``[*batch, T]``: labelled and valid."""
        everywhere = torch.ones(self.states.shape[:-1], dtype=torch.bool, device=self.states.device)
        for mask in (self.labelled, self.valid):
            everywhere = everywhere if mask is None else everywhere & mask
        return everywhere

    def map(self, change: Callable[[Tensor], Tensor]) -> "SequenceBatch":
        """Apply ``change`` to every tensor that is there."""
        return SequenceBatch(**{name: change(tensor) for name, tensor in self._asdict().items() if tensor is not None})

    def take(self, indices: Tensor | slice) -> "SequenceBatch":
        """Choose sequences along the first axis; indices ``[R, B]`` give a batch ``[R, B, ...]``."""
        return self.map(lambda tensor: tensor[indices])

    def frames(self, start: int, stop: int) -> "SequenceBatch":
        """Cut out the frames from ``start`` up to but without ``stop``, and the actions between them."""
        axis, length = self.states.ndim - 2, stop - start
        cut = {name: tensor.narrow(axis, start, length) for name, tensor in self._asdict().items() if _per_frame(name, tensor)}
        if self.actions is not None:
            cut["actions"] = self.actions.narrow(axis, start, length - 1)
        return SequenceBatch(**cut)

    def labelled_frames(self) -> "SequenceBatch":
        """The frames at which some sequence has a label, without what is between them and the actions that lead there."""
        axis, wanted = self.states.ndim - 2, self.targets.flatten(0, -2).any(0).nonzero().squeeze(-1)
        kept = {name: tensor.index_select(axis, wanted) for name, tensor in self._asdict().items() if _per_frame(name, tensor)}
        return SequenceBatch(**kept)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "SequenceBatch":
        """Move everything to ``device`` and convert floating-point tensors to ``dtype``; images and masks keep theirs."""
        return self.map(lambda tensor: tensor.to(device=device, dtype=dtype if tensor.is_floating_point() else None))


def _per_frame(name: str, tensor: Tensor | None) -> bool:
    return tensor is not None and name != "actions"


def epoch_order(num_sequences: int, *, runs: int | None = None, shuffle: bool = True, generator: noise.Source = None) -> Tensor:
    """Draw in which order one epoch visits the sequences.

    Args:
        num_sequences: How many there are.
        runs: None for one order ``[num_sequences]``; a number ``R`` for independent orders ``[R, num_sequences]``.
        shuffle: False keeps the order of the data set.
        generator: Where the order is drawn from. It is drawn at once, so the state of the generator between epochs is enough to
            resume.
    """
    batch = () if runs is None else (runs,)
    stream = noise.source(generator)
    device = stream.device if isinstance(stream, torch.Generator) else "cpu"
    if not shuffle:
        return torch.arange(num_sequences, device=device).expand(*batch, num_sequences)
    # Double precision, so that ties (which sorting would break in favour of the data set's order) do not happen.
    like = torch.zeros((), dtype=torch.float64, device=device)
    return noise.uniform((*batch, num_sequences), like, stream).argsort(-1)


def minibatches(
    batch: SequenceBatch, size: int, *, generator: noise.Source = None, shuffle: bool = True, runs: int | None = None
) -> Iterator[SequenceBatch]:
    """Pass once over whole sequences in batches; the last, smaller batch is kept.

    Args:
        batch: The data set, ``[n, T, ...]``.
        size: Sequences per batch.
        generator: Where the order of this epoch is drawn from.
        shuffle: False keeps the order of the data set.
        runs: Give each of so many runs its own independent order, in batches ``[runs, size, T, ...]``.

    Example:
        >>> batch = SequenceBatch(torch.zeros(10, 5, 3), torch.zeros(10, 5, 2))
        >>> [part.states.shape[0] for part in minibatches(batch, 4)]
        [4, 4, 2]
    """
    check_count("minibatches", size, "size")
    order = epoch_order(batch.num_sequences, runs=runs, shuffle=shuffle, generator=generator)
    # A generator function checks and draws only when first asked; this way an error comes from the call itself.
    return (batch.take(part) for part in order.to(batch.states.device).split(size, -1))
