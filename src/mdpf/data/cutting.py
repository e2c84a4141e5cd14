"""Cut recorded sequences into what a filter can start on: pieces that begin with a known state, and parts to learn and judge by."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from mdpf.data.sequences import SequenceBatch

HELD_OUT = 0.15  # Share of the sequences that choose the best epoch, and again of those that judge the outcome.
FEWEST = 3  # With fewer sequences each is cut into pieces first,
PIECES = 10  # so many.


class Piece(NamedTuple):
    """The frames of one sequence from ``start`` up to but without ``stop``."""

    sequence: int
    start: int
    stop: int

    @property
    def length(self) -> int:
        return self.stop - self.start


class Parts(NamedTuple):
    """Sequences to learn from, to choose the best epoch by, and to judge by; and whether sequences had to be cut for that."""

    train: SequenceBatch
    validation: SequenceBatch
    test: SequenceBatch
    cut: bool


def begin_with_label(data: SequenceBatch) -> SequenceBatch:
    """Let every sequence begin with its first known state; leave out those in which no known state follows.

    Example:
        >>> labelled = torch.tensor([[False, True, False, True]])
        >>> begin_with_label(SequenceBatch(torch.zeros(1, 4, 1), torch.zeros(1, 4, 2), labelled=labelled)).length
        3
    """
    return gather(data, _labelled(data, [Piece(row, 0, length) for row, length in enumerate(_lengths(data))]))


def windows(data: SequenceBatch, length: int) -> SequenceBatch:
    """Cut sequences into pieces of at most ``length`` frames, each beginning with a known state in which another follows.

    A piece begins where the one before it ends, or at the last known state before that.
    """
    pieces = []
    targets = data.targets.cpu()
    for row, last in enumerate(_lengths(data)):
        start = _first(targets[row], 0)
        while start is not None and start < last - 1:
            stop = min(start + length, last)
            pieces.append(Piece(row, start, stop))
            known = targets[row, start + 1 : stop].nonzero()
            start = start + 1 + int(known[-1]) if len(known) else _first(targets[row], stop)
    return gather(data, _labelled(data, pieces))


def split(data: SequenceBatch, *, seed: int = 0) -> Parts:
    """Divide sequences at random into those to learn from, to choose by and to judge by.

    A split by sequence: frames of one never stand on both sides. Where there are fewer than three, each is cut into ten pieces
    first, which follow each other in time.
    """
    cut = data.num_sequences < FEWEST
    if cut:
        pieces = []
        for row, length in enumerate(_lengths(data)):
            size = max(2, -(-length // PIECES))
            pieces += [Piece(row, start, min(start + size, length)) for start in range(0, length - 1, size)]
        data = gather(data, _labelled(data, [piece for piece in pieces if piece.length > 1]))
    count = data.num_sequences
    held_out = max(1, round(HELD_OUT * count))
    if count < FEWEST:
        raise ValueError(
            f"Training needs at least {FEWEST} sequences, or one long enough to be cut into as many, each beginning with a known "
            f"state that another follows; got {count}. Record more, or label more frames."
        )
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    validation, test, train = order.split([held_out, held_out, count - 2 * held_out])
    return Parts(*(data.take(part.sort().values) for part in (train, validation, test)), cut=cut)


def gather(data: SequenceBatch, pieces: Sequence[Piece]) -> SequenceBatch:
    """Put pieces of sequences side by side, padded to the longest at their end."""
    if not pieces:
        raise ValueError(
            "Training needs sequences with two known states, got none. A filter starts from one and learns from the next; "
            "label more frames."
        )
    longest = max(piece.length for piece in pieces)
    rows = torch.tensor([piece.sequence for piece in pieces])
    starts = torch.tensor([piece.start for piece in pieces])
    lengths = torch.tensor([piece.length for piece in pieces])
    offsets = torch.arange(longest)
    frames = torch.minimum(starts[:, None] + offsets, (starts + lengths - 1)[:, None])
    inside = offsets < lengths[:, None]
    found = {
        name: tensor[rows[:, None], frames] for name, tensor in data._asdict().items() if tensor is not None and name != "actions"
    }
    if data.actions is not None:
        between = frames[:, :-1].clamp_max(data.actions.shape[1] - 1)
        acted = data.actions[rows[:, None], between]
        found["actions"] = torch.where(inside[:, 1:, None], acted, 0.0)
    if not bool(inside.all()) or data.valid is not None:
        found["valid"] = inside if data.valid is None else inside & found["valid"]
    return SequenceBatch(**found)


def _lengths(data: SequenceBatch) -> list[int]:
    """How many frames each sequence has."""
    return [data.length] * data.num_sequences if data.valid is None else data.valid.sum(1).tolist()


def _first(known: torch.Tensor, start: int) -> int | None:
    found = known[start:].nonzero()
    return start + int(found[0]) if len(found) else None


def _labelled(data: SequenceBatch, pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces from their first known state on, without those in which no other follows."""
    targets, found = data.targets.cpu(), []
    for piece in pieces:
        known = targets[piece.sequence, piece.start : piece.stop].nonzero().flatten()
        if len(known) > 1:
            found.append(piece._replace(start=piece.start + int(known[0])))
    return found
