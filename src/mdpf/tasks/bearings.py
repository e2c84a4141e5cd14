r"""Bearings-only tracking: a radar that sees the direction of a car, sometimes wrongly, and never its distance.

A car crosses a square of side 20 on straight legs. Each leg leads to a point in one of four bands along the border, at a speed of 1
or 2 that is kept for the leg; at its end the car turns, at most 30 degrees per step, and drives on. No leg leads towards the radar,
at (-5, 0): seen from the car, target and radar lie at least 30 degrees apart. The radar reports the direction :math:`\psi` of the
car as

.. math:: o \sim 0.85\, \mathrm{vonMises}(\psi, 50) + 0.15\, \mathrm{Uniform}(-\pi, \pi) .

The steering has a quirk that belongs to the task: where the seam at :math:`\pm\pi` lies between heading and direction, the car
turns by the full 30 degrees however small the true error, and corrects itself one step later.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from mdpf.data.sequences import SequenceBatch
from mdpf.kernels import Gaussian, Kernel, Product, VonMises
from mdpf.spaces import StateSpace, wrap
from mdpf.tasks.task import Split, Task

SPACE = StateSpace.of("x", "y", theta="angle")
RADAR = (-5.0, 0.0)
HALF_SIDE = 10.0
BAND = 2.0  # Width of the bands along the border that targets lie in.
CLEARANCE = math.radians(30)  # Between target and radar, seen from the car.
SPEEDS = (1.0, 2.0)
REACHED = 0.5  # A leg ends this close to its target,
PATIENCE = 1000  # or after this many steps.
MAX_TURN = math.radians(30)  # Per step.
STEP = 0.25
STEPS_PER_FRAME = 3
HIT = 0.85  # Share of observations that have to do with the car.
HIT_CONCENTRATION = 50.0
PORTION = 128

SPLITS = (
    Split("train", num_sequences=5000, length=17, label_every=4),
    Split("validation", num_sequences=1000, length=17, label_every=4),
    Split("evaluation", num_sequences=5000, length=150),
)


def task(position_kernel: Callable[[Tensor], Kernel] = Gaussian) -> Task:
    """Bearings-only tracking.

    Args:
        position_kernel: The family of the initial position noise, of width 0.5 (a standard deviation, or a half-width for compact
            kernels). It is that of the filter's kernel.
    """

    def start(like: Tensor) -> Kernel:
        # Filled on the device: numbers of the host would have to be copied there in every step of a training.
        return Product((position_kernel(like.new_full((2,), 0.5)), VonMises(like.new_full((1,), 1 / 0.03))))

    return Task(
        name="bearings",
        space=SPACE,
        observation=(2,),
        action_dim=0,
        splits=SPLITS,
        simulate=simulate,
        start=start,
        limit_lost=3.0,
        version=1,
    )


class Cars(NamedTuple):
    """Cars on their legs: position and target ``[n, 2]``; heading, speed and steps since the last target ``[n]``."""

    position: Tensor
    heading: Tensor
    target: Tensor
    speed: Tensor
    steps: Tensor


@torch.no_grad()
def simulate(split: Split, generator: Generator) -> SequenceBatch:
    """Drive the cars of a split and observe them; in double precision, handed out in single."""
    states = drive(split.num_sequences, split.length, generator)
    # In portions that stay in the processor's cache: four times faster, and a hundredth of the memory.
    angle = torch.cat([observe(truth, generator) for truth in bearing(states).split(PORTION)])
    observations = torch.stack([angle.sin(), angle.cos()], -1)
    return SequenceBatch(states.float(), observations.float(), labelled=split.labels())


def drive(num_cars: int, length: int, generator: Generator) -> Tensor:
    """Simulate cars and keep the first of every three steps as a frame: states ``[num_cars, length, 3]``.

    Frame 0 comes after one step, so the pose that was drawn to start from is never seen.
    """
    cars = _park(num_cars, generator)
    frames = []
    for step in range(STEPS_PER_FRAME * (length - 1) + 1):
        cars = advance(retarget(cars, generator))
        if step % STEPS_PER_FRAME == 0:
            frames.append(torch.cat([cars.position, cars.heading[:, None]], -1))
    return torch.stack(frames, 1)


def bearing(states: Tensor) -> Tensor:
    """The true direction of a car seen from the radar, ``[..., 3]`` to ``[...]``."""
    return torch.atan2(states[..., 1] - RADAR[1], states[..., 0] - RADAR[0])


def observe(truth: Tensor, generator: Generator) -> Tensor:
    """Draw what the radar reports of the true directions."""
    hit = torch.rand(truth.shape, dtype=truth.dtype, generator=generator) < HIT
    anywhere = _uniform(truth.shape, -math.pi, math.pi, generator)
    near = VonMises(truth.new_tensor([HIT_CONCENTRATION])).sample(truth[..., None], generator=generator)[..., 0]
    return torch.where(hit, near, anywhere)


def retarget(cars: Cars, generator: Generator) -> Cars:
    """Give a new target and speed to the cars whose leg has ended."""
    distance = (cars.position - cars.target).norm(dim=-1)
    (ended,) = torch.where((distance <= REACHED) | (cars.steps > PATIENCE))
    if len(ended) == 0:
        return cars
    fast = torch.rand(len(ended), dtype=cars.speed.dtype, generator=generator) < 0.5
    speed = torch.where(fast, SPEEDS[1], SPEEDS[0]).to(cars.speed.dtype)
    return cars._replace(
        target=cars.target.index_copy(0, ended, choose_targets(cars.position[ended], generator)),
        speed=cars.speed.index_copy(0, ended, speed),
        steps=cars.steps.index_fill(0, ended, 0),
    )


def choose_targets(position: Tensor, generator: Generator) -> Tensor:
    """Draw a target for each position, again and again until none leads towards the radar."""
    targets = torch.empty_like(position)
    pending = torch.arange(len(position))
    while len(pending):
        proposal = _border_points(len(pending), generator)
        away = angle_at(position[pending], proposal, position.new_tensor(RADAR)) >= CLEARANCE
        targets[pending[away]] = proposal[away]
        pending = pending[~away]
    return targets


def angle_at(corner: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The unsigned angle at ``corner`` between the directions to two points."""
    left, right = left - corner, right - corner
    cross = left[..., 0] * right[..., 1] - left[..., 1] * right[..., 0]
    return torch.atan2(cross.abs(), (left * right).sum(-1))


def advance(cars: Cars) -> Cars:
    """Turn towards the target, then move by one step."""
    to_target = cars.target - cars.position
    wanted = torch.atan2(to_target[:, 1], to_target[:, 0])
    # The plain difference, not the one around the circle: this is the quirk at the seam.
    gap = (cars.heading - wanted).abs()
    left = (cars.heading < wanted) == (gap < math.pi)
    turn = torch.where(left, 1, -1) * gap.clamp_max(MAX_TURN)
    heading = wrap(cars.heading + turn)
    direction = torch.stack([heading.cos(), heading.sin()], -1)
    return cars._replace(position=cars.position + cars.speed[:, None] * STEP * direction, heading=heading, steps=cars.steps + 1)


def _park(num_cars: int, generator: Generator) -> Cars:
    """Cars before their first step, whose leg counts as ended."""
    position = _uniform((num_cars, 2), -HALF_SIDE, HALF_SIDE, generator)
    heading = _uniform((num_cars,), -math.pi, math.pi, generator)
    return Cars(position, heading, position, torch.zeros_like(heading), torch.zeros(num_cars, dtype=torch.long))


def _border_points(num_points: int, generator: Generator) -> Tensor:
    """Draw points in the bands along the four sides: first the side, then the place within its band."""
    side = torch.randint(4, (num_points,), generator=generator)
    along = _uniform((num_points,), -HALF_SIDE, HALF_SIDE, generator)
    across = _uniform((num_points,), HALF_SIDE - BAND, HALF_SIDE, generator)
    across = torch.where(side < 2, across, -across)
    vertical = side % 2 == 0
    return torch.stack([torch.where(vertical, across, along), torch.where(vertical, along, across)], -1)


def _uniform(shape: tuple[int, ...], low: float, high: float, generator: Generator) -> Tensor:
    return low + (high - low) * torch.rand(shape, dtype=torch.float64, generator=generator)
