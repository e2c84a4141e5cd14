"""What a task is: sequences to learn from, a place to start, and when a track counts as lost."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from mdpf import noise
from mdpf.checks import check_count, check_tensor
from mdpf.data.cache import load_or_make
from mdpf.data.sequences import SequenceBatch
from mdpf.kernels import Kernel
from mdpf.spaces import StateSpace


@dataclass(frozen=True)
class Split:
    """One part of a task's data.

    Args:
        name: ``"train"``, ``"validation"``, ``"evaluation"``.
        num_sequences: How many sequences it has.
        length: Frames per sequence.
        label_every: Frame 0 and every so-manieth after it have a label; 1 labels all.
    """

    name: str
    num_sequences: int
    length: int
    label_every: int = 1

    def labels(self) -> Tensor | None:
        """Which frames are labelled, ``[num_sequences, length]``, or None: all."""
        if self.label_every == 1:
            return None
        return (torch.arange(self.length) % self.label_every == 0).expand(self.num_sequences, -1).contiguous()


@dataclass(frozen=True)
class Task:
    """A tracking problem with its data; it knows nothing of networks.

    Args:
        name: The word on the command line.
        space: The coordinates of the state.
        observation: Shape of one frame's observation; three axes are an image, channels last, uint8.
        action_dim: Numbers per action; zero for a task without actions.
        splits: The parts of its data.
        simulate: Makes the sequences of a split from a stream of random numbers.
        start: Makes the kernel from which initial particles are drawn around the true state, with the dtype and device of a tensor.
        limit_lost: A track whose final position error exceeds this is lost.
        version: Counted up whenever ``simulate`` changes its outcome; caches go by it.
    """

    name: str
    space: StateSpace
    observation: tuple[int, ...]
    action_dim: int
    splits: tuple[Split, ...]
    simulate: Callable[[Split, torch.Generator], SequenceBatch]
    start: Callable[[Tensor], Kernel]
    limit_lost: float
    version: int

    def split(
        self,
        name: str,
        *,
        seed: int = 0,
        num_sequences: int | None = None,
        length: int | None = None,
        folder: str | Path | None = None,
    ) -> SequenceBatch:
        """Make the sequences of one split.

        Args:
            name: Which split.
            seed: Which data set of all possible ones. Everybody who keeps the default works on the same data. Splits, and tasks,
                have streams of their own: a seed names one in each.
            num_sequences: More or fewer sequences than the split declares.
            length: Longer or shorter ones.
            folder: Keep the data set in this folder and take it from there the next time.
        """
        split = self._declared(name)
        split = replace(split, num_sequences=num_sequences or split.num_sequences, length=length or split.length)

        def make() -> SequenceBatch:
            return self.simulate(split, torch.Generator().manual_seed(stream_seed(self.name, name, seed)))

        if folder is None:
            return make()
        recipe = {"task": self.name, "split": name, "version": self.version, "seed": seed}
        sizes = {"num_sequences": split.num_sequences, "length": split.length, "label_every": split.label_every}
        return load_or_make(folder, {**recipe, **sizes}, self.space, make)

    def prior(self, states: Tensor, num_particles: int, *, generator: noise.Source = None) -> Tensor:
        """Draw initial particles around true states: ``[*batch, d]`` to ``[*batch, num_particles, d]``."""
        check_tensor("Task.prior", states, [self.space.dim], f"The states of {self.name} are {list(self.space.names)}.")
        check_count("Task.prior", num_particles, "num_particles")
        around = states[..., None, :].expand(*states.shape[:-1], num_particles, -1)
        return self.start(states).sample(around, generator=generator)

    def _declared(self, name: str) -> Split:
        for split in self.splits:
            if split.name == name:
                return split
        known = [split.name for split in self.splits]
        raise ValueError(f"Task.split needs one of the splits {known} of {self.name}, got {name!r}.")


def stream_seed(task: str, split: str, seed: int) -> int:
    """The seed of one split's stream of random numbers.

    Hashing the names keeps training and evaluation data apart whatever seeds a user picks for each.

    Example:
        >>> stream_seed("bearings", "train", 0), stream_seed("bearings", "evaluation", 0)
        (1499040846, 621189676)
    """
    digest = hashlib.sha256(f"{task}/{split}/{seed}".encode()).digest()
    # Four bytes: torch's generator on the CPU uses no more of a seed.
    return int.from_bytes(digest[:4], "little")
