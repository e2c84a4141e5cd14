"""Walks through a maze, from one place to the next, wherever there is room.

Whoever walks picks a place anywhere in the maze, takes the shortest way there from cell to cell, and picks the next. The engine
runs at 60 frames per second, of which every fourth is kept, as is usual for its agents. In one engine frame one turns by at most
3.75 degrees (15 degrees from one kept frame to the next) and goes ahead by at most 5.33 units (320 units per second, the engine's
running speed; 21.3 units from one kept frame to the next), the slower the more one looks away from where one wants to go. Whoever
touches a wall slides along it. Each leg has a pace of its own, of half to full speed. Poses are ``(x, y, theta)`` in units of the
engine and radians.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from mdpf.checks import check_count
from mdpf.tasks.mazes.geometry import NEIGHBOUR, Maze

ENGINE_RATE = 60.0  # Frames per second.
KEPT = 4  # One in so many frames of the engine is kept.
SPEED = 320.0  # Units per second, at most.
TURN = math.radians(225)  # Per second, at most.
PACES = (0.5, 1.0)  # Of the full speed.
RADIUS = 16.0  # Half the side of whoever walks.
REACHED = 30.0  # A place is reached this close to it,
PATIENCE = 120  # or given up after so many kept frames.
ASIDE = 15.0  # So far from the middle of a cell one passes through it.


class Walker(NamedTuple):
    """Everybody on the way: ``place`` and ``goal`` ``[n, 2]``, all else ``[n]`` or, ``aside``, ``[n, 2]``."""

    place: np.ndarray
    heading: np.ndarray
    goal: np.ndarray
    aside: np.ndarray
    pace: np.ndarray
    steps: np.ndarray


def walk(maze: Maze, count: int, length: int, *, generator: Generator | None = None) -> Tensor:
    """Walk ``count`` times through a maze: poses ``[count, length, 3]``, in double precision.

    Example:
        >>> from mdpf.tasks.mazes.geometry import read
        >>> walk(read(1), 5, 100, generator=torch.Generator().manual_seed(0)).shape
        torch.Size([5, 100, 3])
    """
    check_count("walk", count, "count")
    check_count("walk", length, "length")
    random = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
    walker = _start(maze, count, random)
    frames = []
    for _ in range(length):
        frames.append(np.concatenate([walker.place, walker.heading[:, None]], 1))
        walker = _go_on(maze, _choose(maze, walker, random))
    return torch.from_numpy(np.stack(frames, 1))


def anywhere(maze: Maze, count: int, *, generator: Generator | None = None) -> Tensor:
    """Poses spread evenly over wherever one can stand, ``[count, 3]``."""
    check_count("anywhere", count, "count")
    random = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
    return torch.from_numpy(np.concatenate([_places(maze, count, random), _headings(count, random)[:, None]], 1))


def _start(maze: Maze, count: int, random: np.random.Generator) -> Walker:
    place = _places(maze, count, random)
    # The first goal counts as reached.
    zero = np.zeros(count)
    return Walker(place, _headings(count, random), place, np.zeros((count, 2)), zero, zero.astype(int))


def _choose(maze: Maze, walker: Walker, random: np.random.Generator) -> Walker:
    """Give those a new goal who have reached theirs, or cannot."""
    arrived = (np.linalg.norm(walker.place - walker.goal, axis=1) <= REACHED) | (walker.steps >= PATIENCE)
    count = len(arrived)
    # Everybody draws, so that nobody's walk depends on when others arrive.
    goal, aside = _places(maze, count, random), random.uniform(-ASIDE, ASIDE, (count, 2))
    pace = random.uniform(*PACES, count)
    return walker._replace(
        goal=np.where(arrived[:, None], goal, walker.goal),
        aside=np.where(arrived[:, None], aside, walker.aside),
        pace=np.where(arrived, pace, walker.pace),
        steps=np.where(arrived, 0, walker.steps + 1),
    )


def _go_on(maze: Maze, walker: Walker) -> Walker:
    """Walk until the next kept frame."""
    place, heading = walker.place, walker.heading
    for _ in range(KEPT):
        ahead = _waypoint(maze, walker._replace(place=place)) - place
        error = _wrap(np.arctan2(ahead[:, 1], ahead[:, 0]) - heading)
        heading = _wrap(heading + np.clip(error, -TURN / ENGINE_RATE, TURN / ENGINE_RATE))
        stride = walker.pace * np.cos(error).clip(0.0) * (SPEED / ENGINE_RATE)
        stride = np.minimum(stride, np.linalg.norm(ahead, axis=1))
        for axis, share in enumerate((np.cos(heading), np.sin(heading))):
            moved = place.copy()
            moved[:, axis] += stride * share
            place = np.where(maze.has_room(moved, RADIUS)[:, None], moved, place)
    return walker._replace(place=place, heading=heading)


def _waypoint(maze: Maze, walker: Walker) -> np.ndarray:
    """Where to head for: the goal itself, or some place in the next cell on the way to it."""
    here, there = _cell(maze, walker.place), _cell(maze, walker.goal)
    then = next_cells(maze)[here, there]
    columns = np.stack([then // maze.shape[1], then % maze.shape[1]], 1)
    return np.where((here == there)[:, None], walker.goal, (columns + 0.5) * maze.cell + walker.aside)


@lru_cache(maxsize=3)
def next_cells(maze: Maze) -> np.ndarray:
    """The next cell on a shortest way from each cell to each other one, ``[cells, cells]``; cell (i, j) has number i ny + j."""
    nx, ny = maze.shape
    count = nx * ny
    beside = np.full((count, 4), -1)
    for i, j, side in np.argwhere(~maze.walled):
        beside[i * ny + j, side] = (i + NEIGHBOUR[side][0]) * ny + j + NEIGHBOUR[side][1]
    found = np.tile(np.arange(count)[:, None], (1, count))
    for goal in range(count):
        seen, front = {goal}, [goal]
        while front:
            reached = []
            for cell in front:
                for other in beside[cell][beside[cell] >= 0].tolist():
                    if other not in seen:
                        seen.add(other)
                        found[other, goal] = cell
                        reached.append(other)
            front = reached
    return found


def _cell(maze: Maze, places: np.ndarray) -> np.ndarray:
    i, j = (np.clip(places[:, axis] // maze.cell, 0, maze.shape[axis] - 1).astype(int) for axis in (0, 1))
    return i * maze.shape[1] + j


def _places(maze: Maze, count: int, random: np.random.Generator) -> np.ndarray:
    """Places with room, spread evenly."""
    found = np.empty((count, 2))
    pending = np.arange(count)
    while len(pending):
        proposed = random.uniform((0.0, 0.0), maze.extent, (len(pending), 2))
        good = maze.has_room(proposed, RADIUS)
        found[pending[good]] = proposed[good]
        pending = pending[~good]
    return found


def _headings(count: int, random: np.random.Generator) -> np.ndarray:
    return random.uniform(-math.pi, math.pi, count)


def _wrap(angle: np.ndarray) -> np.ndarray:
    return (angle + math.pi) % (2 * math.pi) - math.pi
