"""Three mazes of DeepMind Lab: which walls stand where, what hangs on them, and where there is room to walk.

They are ``nav_maze_static_01``, ``02`` and ``03``, in the units of that engine: cells of 100 units, x to the right, y upwards, the
origin in a corner. Geometry and textures are those of the published levels (see NOTICE); 21 of the 70 pictures are substitutes,
because the originals are not among the published files.
"""

import json
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from typing import NamedTuple

import numpy as np
from torch import Tensor

from mdpf.checks import check_tensor

NUMBERS = (1, 2, 3)
SIDES = {"W": 0, "E": 1, "S": 2, "N": 3}
OPPOSITE = (1, 0, 3, 2)
NEIGHBOUR = ((-1, 0), (1, 0), (0, -1), (0, 1))


class Face(NamedTuple):
    """One side of a wall: that of cell ``(i, j)`` towards ``side`` (an index into ``SIDES``)."""

    i: int
    j: int
    side: int
    texture: str


class Picture(NamedTuple):
    """A picture on a face: from ``left`` to ``right`` along it and from ``low`` to ``high``, in units; ``flip`` mirrors it."""

    i: int
    j: int
    side: int
    texture: str
    left: float
    right: float
    low: float
    high: float
    flip: bool


@dataclass(frozen=True, eq=False)
class Maze:
    """A maze.

    Args:
        number: 1, 2 or 3.
        shape: Cells along x and y.
        cell: The side of a cell, in units.
        inset: Half the thickness of a wall.
        height: Of all walls.
        faces: Both sides of every wall; of the outer ones the inner side.
        pictures: What hangs on them.
        floor: The texture of every cell's floor, ``floor[i][j]``.
        sky: The texture above the walls.

    Example:
        >>> maze = read(1)
        >>> maze.shape, maze.extent, len(maze.walls)
        ((10, 5), (1000.0, 500.0), 63)
    """

    number: int
    shape: tuple[int, int]
    cell: float
    inset: float
    height: float
    faces: tuple[Face, ...]
    pictures: tuple[Picture, ...]
    floor: tuple[tuple[str, ...], ...]
    sky: str

    @property
    def extent(self) -> tuple[float, float]:
        """Width and height of the whole, in units."""
        return self.shape[0] * self.cell, self.shape[1] * self.cell

    @cached_property
    def walled(self) -> np.ndarray:
        """Whether a cell has a wall on each side, ``[nx, ny, 4]``."""
        found = np.zeros((*self.shape, 4), bool)
        for i, j, side, _ in self.faces:
            found[i, j, side] = True
        return found

    @cached_property
    def pillars(self) -> np.ndarray:
        """Whether a wall ends at, or goes through, each corner of the grid, ``[nx + 1, ny + 1]``."""
        nx, ny = self.shape
        found = np.zeros((nx + 1, ny + 1), bool)
        for (x0, y0), (x1, y1) in self.walls:
            found[x0, y0] = found[x1, y1] = True
        return found

    @cached_property
    def walls(self) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        """Every wall once, from corner to corner of the grid, in cells."""
        found = set()
        for i, j, side, _ in self.faces:
            x, y = i + (side == SIDES["E"]), j + (side == SIDES["N"])
            found.add(((x, y), (x, y + 1) if side in (SIDES["W"], SIDES["E"]) else (x + 1, y)))
        return sorted(found)

    def has_room(self, places: np.ndarray, margin: float) -> np.ndarray:
        """Where a square that reaches ``margin`` units to every side touches no wall; places ``[..., 2]`` in units.

        ``margin`` is less than half a cell; a place outside the maze has no room.
        """
        room = self._room_table.reshape(-1)[self._zone(places, margin + self.inset)]
        return np.asarray(room & self._inside(places))

    def check_poses(self, call: str, poses: Tensor) -> Tensor:
        """Check that one can stand where poses ``[*batch, 3]`` say, in units and radians; a door, so it looks at values."""
        check_tensor(call, poses, [3], "Poses are x and y in units and the heading in radians.")
        rows = poses.detach().reshape(-1, 3).double().cpu().numpy()
        inside, free = self._inside(rows[:, :2]), self.has_room(rows[:, :2], 0.0)
        width, height = self.extent
        for good, text in (
            (np.isfinite(rows).all(1), "finite poses"),
            (inside, f"poses inside maze {self.number}, from 0 to {width:.0f} and from 0 to {height:.0f} units"),
            (free, f"poses in the free space of maze {self.number}"),
        ):
            if not good.all():
                index = int((~good).argmax())
                x, y, _ = rows[index]
                where = " inside a wall" if text.startswith("poses in the free") else ""
                raise ValueError(f"{call} needs {text}, got ({x:.4g}, {y:.4g}) at index {index}{where}. Positions are in units.")
        widest = float(np.abs(rows[:, 2]).max(initial=0.0))
        if widest > 4 * math.pi:
            raise ValueError(
                f"{call} needs headings in radians, got {widest:.4g}, more than two turns. Convert degrees with torch.deg2rad."
            )
        return poses

    @cached_property
    def _room_table(self) -> np.ndarray:
        """Whether there is room, by cell and by thirds of a cell: near its lower edge, in the middle, near its upper edge."""
        nx, ny = self.shape
        free = np.ones((nx, ny, 3, 3), bool)
        walled, pillars = self.walled, self.pillars
        for side, zone in (("W", np.s_[0, :]), ("E", np.s_[2, :]), ("S", np.s_[:, 0]), ("N", np.s_[:, 2])):
            free[:, :, zone[0], zone[1]] &= ~walled[:, :, SIDES[side], None]
        for column, x in ((0, 0), (2, 1)):
            for row, y in ((0, 0), (2, 1)):
                free[:, :, column, row] &= ~pillars[x : x + nx, y : y + ny]
        return free

    def _zone(self, places: np.ndarray, margin: float) -> np.ndarray:
        nx, ny = self.shape
        scaled = np.nan_to_num(places) / self.cell
        cell = np.clip(np.floor(scaled), 0, (nx - 1, ny - 1)).astype(int)
        rest, near = scaled - cell, margin / self.cell
        third = 1 + (rest > 1 - near).astype(int) - (rest < near).astype(int)
        return ((cell[..., 0] * ny + cell[..., 1]) * 3 + third[..., 0]) * 3 + third[..., 1]

    def _inside(self, places: np.ndarray) -> np.ndarray:
        return np.asarray(((places >= 0) & (places <= self.extent)).all(-1))


@lru_cache(maxsize=3)
def read(number: int) -> Maze:
    """One of the three mazes."""
    if number not in NUMBERS:
        raise ValueError(f"There are the mazes {', '.join(map(str, NUMBERS))}, got {number!r}.")
    content = json.loads(resources.files("mdpf.tasks.mazes").joinpath("mazes.json").read_text())[str(number)]
    return Maze(
        number=number,
        shape=(content["nx"], content["ny"]),
        cell=float(content["cell"]),
        inset=float(content["inset"]),
        height=float(content["height"]),
        faces=tuple(Face(i, j, SIDES[side], texture) for i, j, side, texture in content["walls"]),
        pictures=tuple(Picture(i, j, SIDES[side], *rest) for i, j, side, *rest in content["pictures"]),
        floor=tuple(tuple(column) for column in content["floor"]),
        sky=content["sky"],
    )
