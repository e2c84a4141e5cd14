"""Stages: which parts learn, on what objective, how fast and for how long."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from torch import Tensor, nn

from mdpf.data.sequences import SequenceBatch
from mdpf.noise import Source


class Objective(Protocol):
    """What a stage minimises: a filter and a batch ``[R, B, T, ...]`` to one number for each run, ``[R]``."""

    def __call__(self, filter: nn.Module, batch: SequenceBatch, *, generator: Source = None) -> Tensor: ...


class Found(NamedTuple):
    """What an objective can notice besides its value.

    Args:
        loss: One number for each run, ``[R]``.
        degenerate: Where every particle was scored as impossible, ``[R, B, T - 1]``: for each frame after the first.
    """

    loss: Tensor
    degenerate: Tensor


@runtime_checkable
class Noticing(Objective, Protocol):
    """An objective that runs a whole filter and can say where that lost all its particles."""

    def find(self, filter: nn.Module, batch: SequenceBatch, *, generator: Source = None) -> Found: ...


@dataclass(frozen=True)
class Plateau:
    """Divide the learning rate when the validation loss no longer falls, and stop when it has not for long.

    Each run has its own rate and its own end.

    Args:
        factor: What the rate is multiplied by.
        patience: So many epochs without an improvement by the share ``threshold``.
        cooldown: Epochs after a reduction during which nothing is counted.
        threshold: The smallest improvement that counts, relative to the loss.
        minimum: The smallest rate, relative to the first.
        stop_patience: Stop after so many epochs without any improvement,
        stop_offset: counted after this many epochs; and again from zero at each of the first ``restarts`` reductions.
    """

    factor: float = 0.1
    patience: int = 20
    cooldown: int = 4
    threshold: float = 1e-3
    minimum: float = 0.0
    stop_patience: int = 25
    stop_offset: int = 200
    restarts: int = 3


@dataclass(frozen=True)
class Cosine:
    """Let the learning rate fall along half a cosine, after a linear rise over the first epochs.

    Args:
        warmup: Epochs of the rise.
        final: The last rate, relative to the first.
    """

    warmup: float = 1.0
    final: float = 0.01


@dataclass(frozen=True)
class Stage:
    """One stage of training.

    Args:
        name: Unique within a method; names its files.
        objective: What is minimised, in training and in validation.
        rates: Learning rates by the leading part of a parameter's name, the longest match winning; parts without one stay fixed.
        epochs: At most so many passes over the data.
        schedule: How the rates change.
        batch: Sequences in a batch.
        validation_batch: Sequences in a batch of validation.
        clip: The largest norm of a run's gradient.
        decay: Weight decay, added to the gradient.
    """

    name: str
    objective: Objective
    rates: Mapping[str, float] = field(hash=False)
    epochs: int
    schedule: Plateau | Cosine
    batch: int = 64
    validation_batch: int = 256
    clip: float = float("inf")
    decay: float = 0.0
