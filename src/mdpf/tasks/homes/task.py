"""The task: where am I in this apartment, given its floor plan, images and bad odometry?

A state is a pose in pixels of the map, 0.02 m, and radians; an action what odometry reports of a step. An image is determined by
the home and the pose it is seen from, so an observation is these four numbers: ``(x, y, theta, home)``. They are rendered where
they are looked at, on the device of whoever trains, and the number of walks is a choice, not a matter of storage.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import torch
from torch import Generator, Tensor

from mdpf.data.sequences import SequenceBatch
from mdpf.tasks.homes import geometry, walks
from mdpf.tasks.homes.geometry import PIXEL, Home
from mdpf.tasks.task import Split, Task

LOST = 2.0  # Metres.
LABEL_EVERY = 4

SPLITS = (
    Split("train", num_sequences=74_800, length=24, label_every=LABEL_EVERY),
    Split("validation", num_sequences=2_000, length=24, label_every=LABEL_EVERY),
    Split("evaluation", num_sequences=820, length=100),
)
"""Each walks through homes of its own; so many walks as the paper has."""

METRES = PIXEL
"""Metres in a pixel: lengths of this task times it are in metres."""


@lru_cache(maxsize=1)
def all_homes() -> tuple[Home, ...]:
    """Every home of the package, in the order that gives each its number."""
    return tuple(geometry.homes())


def task(homes: Callable[[], Sequence[Home]] = all_homes) -> Task:
    """Localisation in apartments never seen before, from images and a floor plan.

    Args:
        homes: All homes; walks of a split go through those of it. Their place among all of them is their number.
    """

    def simulate(split: Split, generator: Generator) -> SequenceBatch:
        numbers = [number for number, home in enumerate(homes()) if home.split == split.name]
        if not numbers:
            raise ValueError(f"Walks of the split {split.name!r} need homes of it, got none among {len(homes())}.")
        seed = int(torch.randint(2**31, (), generator=generator))
        chosen = [homes()[number] for number in numbers]
        walked = walks.walk(chosen, split.num_sequences, split.length, seed=seed, numbers=numbers)
        return SequenceBatch(walked.states, observed_from(walked.states, walked.home), walked.actions, labelled=split.labels())

    return Task(
        name="homes",
        space=walks.SPACE,
        observation=(4,),
        action_dim=3,
        splits=SPLITS,
        simulate=simulate,
        start=walks.start_kernel,
        limit_lost=LOST / PIXEL,
        version=1,
    )


def observed_from(states: Tensor, home: Tensor) -> Tensor:
    """Observations for poses ``[*batch, T, 3]`` in homes ``[*batch]``: ``[*batch, T, 4]``."""
    number = home.to(states.dtype)[..., None, None].expand(*states.shape[:-1], 1)
    return torch.cat([states, number], -1)
