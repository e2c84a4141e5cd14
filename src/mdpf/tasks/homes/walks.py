"""Walks from room to room, and what odometry tells of them.

Someone walks to a place in one room, then to one in another. Every step either turns on the spot, by 15 to 60 degrees, or goes
straight ahead, by 0.2 to 0.8 m and no farther than there is room: the steps of the published data. Poses are ``(x, y, theta)`` in
pixels of the map, 0.02 m, and radians.
"""

import hashlib
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mdpf import noise
from mdpf.checks import check_count
from mdpf.kernels import Gaussian, Kernel, Product, VonMises
from mdpf.noise import Source
from mdpf.spaces import StateSpace, wrap
from mdpf.tasks.homes.geometry import CELL, PIXEL, Home

SPACE = StateSpace.of("x", "y", theta="angle")
STRIDES = (0.2, 0.8)  # Metres.
TURNS = (math.radians(15), math.radians(60))
WANDERING = 0.05  # Share of the steps that turn for no reason.
ASTRAY = math.radians(40)  # Off by more than this, one turns before going on.
ALIGNED = math.radians(3)
SHORTEST_STRIDE = 0.1  # Metres; where there is less room one turns.
ARRIVED = 5  # Steps of the coarse grid.
COARSE = 2  # Cells along the side of one of the coarse grid, on which ways are planned.
HEADINGS = 24
LOOK = CELL / 2
MOST_GOALS = 8
DOUBLINGS = 5  # One looks so far ahead: 2 to this power, in cells of the coarse grid.

ODOMETRY_SCALE = 10.0  # Pixels, of both components of a step.
ODOMETRY_CONCENTRATION = 35.0  # Of its turn.
START_SCALE = 10.0  # Pixels.
START_CONCENTRATION = 1 / 0.03


class Walks(NamedTuple):
    """Walks through homes.

    Args:
        states: Poses in pixels and radians, ``[n, T, 3]``.
        actions: What odometry reports of the steps between them, ``[n, T - 1, 3]``: ahead, to the side, turn.
        home: Which home each walk is in, ``[n]``.
    """

    states: Tensor
    actions: Tensor
    home: Tensor


class Ways(NamedTuple):
    """How to get from anywhere in a home to some of its places.

    Args:
        distance: Steps on the coarse grid to each goal, ``[G, cells]``; -1 where there is no way.
        ahead: The cells 32, 16, 8, 4, 2 and 1 steps farther on the way to each goal, ``[6, G, cells]``.
        columns: Columns of the coarse grid.
    """

    distance: np.ndarray
    ahead: np.ndarray
    columns: int


def start_kernel(like: Tensor) -> Kernel:
    """The kernel around the true pose from which particles start: 0.2 m and some 10 degrees."""
    return Product((Gaussian(like.new_full((2,), START_SCALE)), VonMises(like.new_full((1,), START_CONCENTRATION))))


def walk(homes: Sequence[Home], count: int, length: int, *, seed: int, numbers: Sequence[int] | None = None) -> Walks:
    """Walk through homes, as often in each as in the others (up to one), in an order without a pattern.

    Args:
        homes: Where to walk.
        count: How many walks.
        length: Frames of each.
        seed: Of everything random; each home has a stream of its own.
        numbers: What ``Walks.home`` calls each home; its place in ``homes`` by default.

    Example:
        >>> from mdpf.tasks.homes.geometry import homes
        >>> walk(homes("validation", count=2), 5, 24, seed=0).states.shape
        torch.Size([5, 24, 3])
    """
    check_count("walk", count, "count")
    check_count("walk", length, "length", at_least=2)
    if not homes:
        raise ValueError("walk needs at least one home, got none.")
    shares = [count // len(homes) + (index < count % len(homes)) for index in range(len(homes))]
    poses, where = [], []
    for index, (home, share) in enumerate(zip(homes, shares, strict=True)):
        if share:
            poses.append(_walk(home, share, length, _stream(seed, home.id)))
            where.append(np.full(share, index if numbers is None else numbers[index]))
    order = _stream(seed, "order").permutation(count)
    states = torch.from_numpy(np.concatenate(poses)[order])
    generator = torch.Generator().manual_seed(_digest(seed, "odometry"))
    return Walks(states.float(), odometry(states, generator=generator).float(), torch.from_numpy(np.concatenate(where)[order]))


def odometry(states: Tensor, *, generator: Source = None) -> Tensor:
    """The steps between poses seen by whoever walks, with noise: ``[*batch, T, 3]`` to ``[*batch, T - 1, 3]``."""
    return odometry_noise(relative(states[..., :-1, :], states[..., 1:, :]), generator=generator)


def odometry_noise(
    steps: Tensor, *, scale: float = ODOMETRY_SCALE, concentration: float = ODOMETRY_CONCENTRATION, generator: Source = None
) -> Tensor:
    """Add the noise of odometry to true steps ``[..., 3]``; the sum of turn and noise is not wrapped back."""
    generator = noise.source(generator)
    shift = scale * noise.normal((*steps.shape[:-1], 2), steps, generator)
    turn = VonMises(steps.new_tensor([concentration])).sample(torch.zeros_like(steps[..., 2:]), generator=generator)
    return steps + torch.cat([shift, turn], -1)


def relative(before: Tensor, after: Tensor) -> Tensor:
    """One pose seen from another: how far ahead, how far towards growing angles, turned by how much."""
    x, y, turn = (after - before).unbind(-1)
    cos, sin = before[..., 2].cos(), before[..., 2].sin()
    return torch.stack([cos * x + sin * y, cos * y - sin * x, wrap(turn)], -1)


def compose(before: Tensor, step: Tensor) -> Tensor:
    """The pose after a step: the inverse of ``relative``."""
    cos, sin = before[..., 2].cos(), before[..., 2].sin()
    x = before[..., 0] + cos * step[..., 0] - sin * step[..., 1]
    y = before[..., 1] + sin * step[..., 0] + cos * step[..., 1]
    return torch.stack([x, y, wrap(before[..., 2] + step[..., 2])], -1)


def dead_reckoning(start: Tensor, actions: Tensor) -> Tensor:
    """Where one believes to be who trusts odometry alone: ``[*batch, 3]`` and ``[*batch, T - 1, 3]`` to ``[*batch, T, 3]``."""
    poses = [start]
    for action in actions.unbind(-2):
        poses.append(compose(poses[-1], action))
    return torch.stack(poses, -2)


def anywhere(home: Home, count: int, *, seed: int) -> Tensor:
    """Poses spread evenly over the free space of a home, ``[count, 3]``, in pixels and radians."""
    return torch.from_numpy(_anywhere(home, count, _stream(seed, home.id + "/anywhere"))).float() * _units()


def _units() -> Tensor:
    return torch.tensor([1 / PIXEL, 1 / PIXEL, 1.0])


def _walk(home: Home, count: int, length: int, random: np.random.Generator) -> np.ndarray:
    """``count`` walks at once, ``[count, length, 3]``, in pixels."""
    ways = plan_ways(home, random)
    pose = _anywhere(home, count, random)
    goal = random.integers(len(ways.distance), size=count)
    frames = [pose]
    for _ in range(length - 1):
        cell = _coarse_cell(pose[:, :2], ways)
        goal = np.where(ways.distance[goal, cell] <= ARRIVED, random.integers(len(ways.distance), size=count), goal)
        pose = _step(home, ways, pose, goal, random)
        frames.append(pose)
    return np.stack(frames, 1) * _units().double().numpy()


def _step(home: Home, ways: Ways, pose: np.ndarray, goal: np.ndarray, random: np.random.Generator) -> np.ndarray:
    count = len(pose)
    error = _wrap(_direction(home, ways, pose, goal) - pose[:, 2])
    room = _room_ahead(home, pose[:, :2], pose[:, 2], STRIDES[1])
    stride = np.minimum(random.uniform(*STRIDES, size=count), room)
    angle = random.uniform(*TURNS, size=count)
    blocked = stride < SHORTEST_STRIDE
    wanders = (random.random(count) < WANDERING) | (blocked & (np.abs(error) < ALIGNED))
    side = np.where(wanders & (random.random(count) < 0.5), -1.0, 1.0) * np.where(error < 0, -1.0, 1.0)
    turns = wanders | blocked | (np.abs(error) > ASTRAY)
    # Nobody turns too far on purpose; a door may take a small turn to be met.
    angle = np.where(wanders, angle, np.minimum(angle, np.abs(error)))
    heading = np.where(turns, _wrap(pose[:, 2] + side * angle), pose[:, 2])
    ahead = np.where(turns, 0.0, stride)
    place = pose[:, :2] + ahead[:, None] * np.stack([np.cos(heading), np.sin(heading)], -1)
    # Between two places that were looked at there may be the corner of a cell.
    looked = np.floor(ahead / LOOK) * LOOK
    nearby = pose[:, :2] + looked[:, None] * np.stack([np.cos(heading), np.sin(heading)], -1)
    place = np.where(_free(home, place[:, 0], place[:, 1])[:, None], place, nearby)
    return np.concatenate([place, heading[:, None]], -1)


def _direction(home: Home, ways: Ways, pose: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Towards the farthest point of the way that can be seen; if none can, wherever a stride leads closest to the goal."""
    cell, side = _coarse_cell(pose[:, :2], ways), COARSE * CELL
    chosen = np.zeros(len(pose))
    undecided = np.arange(len(pose))
    for jump in range(len(ways.ahead)):
        target = ways.ahead[jump, goal[undecided], cell[undecided]]
        place = pose[undecided, :2]
        dx = (target % ways.columns + 0.5) * side - place[:, 0]
        dy = (target // ways.columns + 0.5) * side - place[:, 1]
        direction, distance = np.arctan2(dy, dx), np.hypot(dx, dy)
        farthest = 2 ** (DOUBLINGS - jump) * side * math.sqrt(2)
        seen = _room_ahead(home, place, direction, farthest) >= np.minimum(distance, farthest) - LOOK
        seen &= distance > SHORTEST_STRIDE
        chosen[undecided[seen]] = direction[seen]
        undecided = undecided[~seen]
    if len(undecided):
        chosen[undecided] = _closest(home, ways, pose[undecided], goal[undecided])
    return chosen


def _closest(home: Home, ways: Ways, pose: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Of many headings the one in which a stride ends closest to the goal."""
    headings = np.arange(HEADINGS) * (2 * math.pi / HEADINGS)
    places = np.repeat(pose[:, :2], HEADINGS, 0)
    tried = np.tile(headings, len(pose))
    room = np.minimum(_room_ahead(home, places, tried, STRIDES[0] * 2), STRIDES[0] * 2)
    ends = places + room[:, None] * np.stack([np.cos(tried), np.sin(tried)], -1)
    left = ways.distance[np.repeat(goal, HEADINGS), _coarse_cell(ends, ways)]
    left = np.where((left < 0) | (room < SHORTEST_STRIDE), ways.distance.max() + 1, left)
    return _wrap(headings[left.reshape(len(pose), HEADINGS).argmin(1)])


def _room_ahead(home: Home, place: np.ndarray, heading: np.ndarray, most: float) -> np.ndarray:
    """How far one can go straight ahead, up to ``most`` metres, looked at every ``LOOK`` metres."""
    steps = np.arange(1, math.ceil(most / LOOK) + 1) * LOOK
    blocked = ~_free(home, place[:, :1] + steps * np.cos(heading)[:, None], place[:, 1:] + steps * np.sin(heading)[:, None])
    return np.where(blocked.any(1), blocked.argmax(1) * LOOK, most)


def _free(home: Home, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    rows, columns = home.free.shape
    return home.free[np.clip((y / CELL).astype(int), 0, rows - 1), np.clip((x / CELL).astype(int), 0, columns - 1)]


def plan_ways(home: Home, random: np.random.Generator) -> Ways:
    """Choose a place in each of some rooms and find the way there from everywhere, on a grid of 0.1 m."""
    rows, columns = (math.ceil(size / COARSE) + 2 for size in home.free.shape)  # With a border that nobody enters.
    padded = np.zeros((COARSE * rows, COARSE * columns), bool)
    padded[: home.free.shape[0], : home.free.shape[1]] = home.free
    free = padded.reshape(rows, COARSE, columns, COARSE).any((1, 3)).reshape(-1)
    parts = np.unique(home.parts[home.free & (home.parts > 0)])
    goals = []
    for part in random.permutation(parts)[:MOST_GOALS]:
        places = np.argwhere(home.free & (home.parts == part)) // COARSE
        row, column = places[random.integers(len(places))]
        goals.append(int(row) * columns + int(column))
    distance = _flood(free, np.array(goals), columns)
    around = np.array([0, -1, 1, -columns, columns, -columns - 1, -columns + 1, columns - 1, columns + 1])
    cells = np.arange(free.size)
    neighbours = np.clip(cells + around[:, None], 0, free.size - 1)
    near = distance[:, neighbours]  # [G, 9, cells]
    one = np.take_along_axis(
        np.broadcast_to(neighbours, near.shape), np.where(near < 0, near.max() + 1, near).argmin(1)[:, None], 1
    )[:, 0]
    jumps = [one]
    for _ in range(DOUBLINGS):
        jumps.append(np.take_along_axis(jumps[-1], jumps[-1], 1))
    return Ways(distance, np.stack(jumps[::-1]), columns)


def _flood(free: np.ndarray, goals: np.ndarray, columns: int) -> np.ndarray:
    """Steps from every cell to each goal; sideways and oblique steps take turns, which makes circles octagons."""
    cells = free.size
    open_ = np.tile(free, len(goals))
    distance = np.full(open_.size, -1)
    front = goals + np.arange(len(goals)) * cells
    beside = np.array([-1, 1, -columns, columns])
    oblique = np.concatenate([beside, [-columns - 1, -columns + 1, columns - 1, columns + 1]])
    steps = 0
    while len(front):
        distance[front] = steps
        open_[front] = False
        steps += 1
        reached = (front[:, None] + (oblique if steps % 2 else beside)).reshape(-1)
        front = np.unique(reached[open_[np.clip(reached, 0, open_.size - 1)] & (reached >= 0) & (reached < open_.size)])
    return distance.reshape(len(goals), cells)


def _anywhere(home: Home, count: int, random: np.random.Generator) -> np.ndarray:
    cells = np.argwhere(home.free)
    chosen = cells[random.integers(len(cells), size=count)]
    place = (chosen[:, ::-1] + random.random((count, 2))) * CELL
    return np.concatenate([place, random.uniform(-math.pi, math.pi, (count, 1))], 1)


def _coarse_cell(place: np.ndarray, ways: Ways) -> np.ndarray:
    column, row = ((place[:, axis] / (COARSE * CELL)).astype(int) for axis in (0, 1))
    return row * ways.columns + column


def _wrap(angle: np.ndarray) -> np.ndarray:
    return (angle + math.pi) % (2 * math.pi) - math.pi


def _stream(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng(_digest(seed, name))


def _digest(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"homes/{seed}/{name}".encode()).digest()[:4], "little")
