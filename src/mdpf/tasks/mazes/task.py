r"""Localisation in a maze from images: where am I, given a camera and bad odometry?

A state is position and heading. Positions are centred and scaled so that the maze is 20 wide; both axes alike, so that lengths and
angles belong together. An action is the true step seen by whoever walks (ahead, to the left, turn), each component multiplied by a
random number :math:`N(1, 0.5^2)`. An observation is a part of the image of 24 by 24 pixels, at a random place of the 32 by 32, with
noise :math:`N(0, 20^2)` on every pixel of 0 to 255, rounded and clipped as a camera does.

The published study differs in three points, which ``Conventions`` and the recipe offer by name: it scales each axis on its own, to
20 by 20; it mirrors the sideways component of actions; and it draws noise and crops once for all epochs of a training.
"""

import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import Generator, Tensor

from mdpf import noise, trees
from mdpf.checks import describe
from mdpf.data.sequences import SequenceBatch
from mdpf.kernels import Gaussian, Kernel, Product, VonMises
from mdpf.noise import Source
from mdpf.spaces import StateSpace, wrap
from mdpf.tasks.homes.walks import relative
from mdpf.tasks.mazes import geometry
from mdpf.tasks.mazes.geometry import Maze
from mdpf.tasks.mazes.recordings import STEPS, Recording, record
from mdpf.tasks.task import Split, Task

SPACE = StateSpace.of("x", "y", theta="angle")
HALF_WIDTH = 10.0  # Of a maze, after scaling.
CROP = 24  # Pixels.
WINDOW = 17  # Frames of a training sequence.
LABEL_EVERY = 4
VERSION = 2  # Counted up whenever walks or frames change.
START_SCALE = 0.5
START_CONCENTRATION = 1 / 0.03

# Of 1000 walks for training, 200 choose the best epoch; each is cut into five windows.
SPLITS = (
    Split("train", num_sequences=4000, length=WINDOW, label_every=LABEL_EVERY),
    Split("validation", num_sequences=1000, length=WINDOW, label_every=LABEL_EVERY),
    Split("evaluation", num_sequences=1000, length=STEPS),
)


@dataclass(frozen=True)
class Conventions:
    """How poses become states and actions.

    Args:
        per_axis: Scale each axis on its own, so that every maze is 20 by 20. Headings stay as they are, which bends the relation
            between motion and heading.
        mirrored: Count the sideways component of an action to the right.
    """

    per_axis: bool = False
    mirrored: bool = False

    def scale(self, maze: Maze) -> tuple[float, float]:
        """Scaled units per unit of the engine, along x and y."""
        width, height = maze.extent
        return 2 * HALF_WIDTH / width, 2 * HALF_WIDTH / (height if self.per_axis else width)

    def states(self, maze: Maze, poses: Tensor) -> Tensor:
        """States of poses in units and radians ``[*batch, 3]``."""
        middle = poses.new_tensor([*(side / 2 for side in maze.extent), 0.0])
        states = (poses - middle) * poses.new_tensor([*self.scale(maze), 1.0])
        return torch.cat([states[..., :2], wrap(states[..., 2:])], -1)

    def poses(self, maze: Maze, states: Tensor) -> Tensor:
        """Poses of states: the inverse of ``states``."""
        middle = states.new_tensor([*(side / 2 for side in maze.extent), 0.0])
        return states / states.new_tensor([*self.scale(maze), 1.0]) + middle

    def actions(self, states: Tensor) -> Tensor:
        """The true steps between states ``[*batch, T, 3]``, seen by whoever walks: ``[*batch, T - 1, 3]``."""
        steps = relative(states[..., :-1, :], states[..., 1:, :])
        return steps * steps.new_tensor([1.0, -1.0, 1.0]) if self.mirrored else steps


CLEAN = Conventions()
ORIGINAL = Conventions(per_axis=True, mirrored=True)


@dataclass(frozen=True)
class Sensors:
    """What a camera and odometry make of the truth.

    Args:
        crop: The side of the part of an image that is seen, at a random place.
        pixel_scale: The standard deviation of the noise on each pixel, of 0 to 255.
        action_scale: The standard deviation of the factor on each component of an action.
    """

    crop: int = CROP
    pixel_scale: float = 20.0
    action_scale: float = 0.5

    def __call__(self, batch: SequenceBatch, *, generator: Source = None) -> SequenceBatch:
        """True actions and whole images to noisy actions and noisy parts of images."""
        generator = noise.source(generator)
        observations = self.see(batch.observations, batch.states, generator=generator)
        if batch.actions is None:
            return batch._replace(observations=observations)
        factor = 1 + self.action_scale * noise.normal(tuple(batch.actions.shape), batch.actions, generator)
        return batch._replace(observations=observations, actions=batch.actions * factor)

    def see(self, images: Tensor, like: Tensor, *, generator: Source = None) -> Tensor:
        """Noisy parts ``[*batch, 24, 24, 3]`` of images ``[*batch, 32, 32, 3]``, in uint8; noise has the dtype of ``like``."""
        *batch, height, width, colours = images.shape
        if images.dtype != torch.uint8 or height < self.crop or width < self.crop:
            raise ValueError(f"Sensors need images of at least {self.crop} by {self.crop} in uint8, got {describe(images)}.")
        generator = noise.source(generator)
        place = noise.uniform((*batch, 2), like, generator)
        row, column = ((place[..., axis] * (side - self.crop + 1)).long() for axis, side in ((0, height), (1, width)))
        # A uniform number may be rounded up to one.
        row, column = row.clamp_max(height - self.crop), column.clamp_max(width - self.crop)
        steps = torch.arange(self.crop, device=images.device)
        pixel = (row[..., None] + steps)[..., :, None] * width + (column[..., None] + steps)[..., None, :]
        first = torch.arange(math.prod(batch), device=images.device).reshape(*batch, 1, 1) * (height * width)
        shape = (*batch, self.crop, self.crop, colours)
        parts = images.reshape(-1, colours).index_select(0, (first + pixel).reshape(-1)).reshape(shape)
        disturbed = parts + self.pixel_scale * noise.normal(shape, like, generator)
        return disturbed.round().clamp(0, 255).to(torch.uint8)


def sequences(recording: Recording, conventions: Conventions = CLEAN) -> SequenceBatch:
    """A recording as sequences: states, whole images, true actions."""
    states = conventions.states(recording.maze, recording.poses.double())
    return SequenceBatch(states.float(), recording.images, conventions.actions(states).float())


def windows(batch: SequenceBatch, length: int, *, label_every: int = 1) -> SequenceBatch:
    """Cut sequences into as many windows of ``length`` frames as there are room for, one after the other; the rest is dropped."""
    pieces = [batch.frames(start, start + length) for start in range(0, batch.length - length + 1, length)]
    if not pieces:
        raise ValueError(f"windows needs sequences of at least {length} frames, got {batch.length}.")
    # Window after window of every sequence.
    order = torch.arange(len(pieces) * batch.num_sequences).reshape(len(pieces), -1).mT.reshape(-1)
    found = joined(pieces).take(order.to(batch.states.device))
    labelled = Split("", found.num_sequences, length, label_every).labels()
    return found._replace(labelled=None if labelled is None else labelled.to(found.states.device))


def num_walks(split: Split) -> int:
    """How many walks of 100 frames the sequences of a split are cut from."""
    return math.ceil(split.num_sequences / (STEPS // split.length))


def task(number: int, conventions: Conventions = CLEAN, sensors: Sensors | None = None) -> Task:
    """Localisation in one of the three mazes.

    Args:
        number: Which maze.
        conventions: How poses become states and actions.
        sensors: What camera and odometry make of the truth.
    """
    return Task(
        name=f"maze-{number}",
        space=SPACE,
        observation=(CROP, CROP, 3),
        action_dim=3,
        splits=SPLITS,
        simulate=partial(_simulate, geometry.read(number), conventions, sensors or Sensors()),
        start=start,
        limit_lost=2.0,
        version=VERSION,
    )


def start(like: Tensor) -> Kernel:
    """The kernel around the true state from which particles start."""
    return Product((Gaussian(like.new_full((2,), START_SCALE)), VonMises(like.new_full((1,), START_CONCENTRATION))))


@torch.no_grad()
def _simulate(maze: Maze, conventions: Conventions, sensors: Sensors, split: Split, generator: Generator) -> SequenceBatch:
    whole = sequences(record(maze, num_walks(split), generator=generator), conventions)
    found = windows(whole, split.length, label_every=split.label_every).take(slice(0, split.num_sequences))
    # In portions: noise takes four times the memory of what it is added to.
    parts = [sensors(found.take(slice(first, first + 100)), generator=generator) for first in range(0, split.num_sequences, 100)]
    return joined(parts)


def joined(parts: list[SequenceBatch]) -> SequenceBatch:
    """Sequences of several batches as one batch."""
    return trees.tree_map(lambda *tensors: torch.cat(tensors), parts[0], *parts[1:])
