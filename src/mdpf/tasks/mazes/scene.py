"""The mazes as scenes, and the camera that looks at them.

The camera is 50 units above the floor and sees 90 degrees; images have 32 by 32 pixels, each the mean of four samples. Height and
field of view are those of the engine's own player as far as they are known; light, apples and goals of the engine are left out.
"""

import math
from functools import cache, lru_cache
from importlib import resources

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from mdpf.render import Atlas, Camera, Frames, GridWalls, Material, Plane, Scene, Surfaces, render
from mdpf.tasks.mazes.geometry import SIDES, Face, Maze

EYE = 50.0  # Units above the floor.
FIELD_OF_VIEW = math.radians(90)
SIDE = 32  # Pixels.
SAMPLES = 2
PORTION = 8192


def camera(maze: Maze, *, width: int = SIDE, height: int = SIDE, samples: int = SAMPLES) -> Camera:
    """The camera of the task; its unit of length is the cell."""
    return Camera(width, height, FIELD_OF_VIEW, eye=EYE / maze.cell, samples=samples)


def look(maze: Maze, poses: Tensor, *, view: Camera | None = None, depth: bool = False) -> Frames:
    """Look from poses ``[F, 3]`` in units and radians, on their device; depth is in cells.

    Example:
        >>> from mdpf.tasks.mazes.geometry import read
        >>> look(read(1), torch.tensor([[50.0, 50.0, 0.0]])).rgb.shape
        torch.Size([1, 32, 32, 3])
    """
    maze.check_poses("look", poses)
    scaled = poses / poses.new_tensor([maze.cell, maze.cell, 1.0])
    return render(scene(maze).to(poses.device), scaled, view or camera(maze), depth=depth)


def images(maze: Maze, poses: Tensor) -> Tensor:
    """What the camera of the task sees from poses ``[F, 3]``, as bytes ``[F, 32, 32, 3]``."""
    # In portions: floats take four times the memory of bytes.
    return torch.cat([(255 * look(maze, part).rgb).round().to(torch.uint8) for part in poses.split(PORTION)])


@lru_cache(maxsize=3)
def scene(maze: Maze) -> Scene:
    """Walls with their pictures, floor and sky; one cell is one unit of length."""
    names = sorted(_painted(maze))
    index = {name: place for place, name in enumerate(names)}
    surfaces = _surfaces(maze, index)
    floor = torch.tensor([[index[name] for name in column] for column in maze.floor])
    one = torch.ones(1)
    return Scene(
        walls=_walls(maze),
        surfaces=surfaces,
        materials=Material(torch.arange(len(names))[None]),
        atlas=Atlas.of(torch.from_numpy(np.stack([texture(name) for name in names]))),
        floor=Plane(floor[None], torch.zeros(1, 2), cell=one, period=one),
        sky=torch.tensor([index[maze.sky]]),
    )


def _painted(maze: Maze) -> set[str]:
    """The names of all textures in it."""
    textures = {part.texture for part in (*maze.faces, *maze.pictures)}
    return textures.union(*maze.floor) | {maze.sky}


@cache
def texture(name: str) -> np.ndarray:
    """A texture of the package by its name, ``[128, 128, 3]``, uint8."""
    with resources.files("mdpf.tasks.mazes").joinpath("textures", f"{name}.png").open("rb") as stream:
        return np.array(Image.open(stream).convert("RGB"))


def _surfaces(maze: Maze, index: dict[str, int]) -> Surfaces:
    """Faces in the order of the maze; textures read from left to right for whoever faces the wall."""
    material = torch.tensor([index[face.texture] for face in maze.faces])
    plain = Surfaces.plain(material, maze.height / maze.cell)
    # Along a face towards east or south, what lies farther along the axis is on the left.
    mirrored = torch.tensor([face.side in (SIDES["E"], SIDES["S"]) for face in maze.faces])
    picture = torch.full((len(maze.faces),), -1)
    frame = torch.zeros(len(maze.faces), 4)
    places = {(face.i, face.j, face.side): place for place, face in enumerate(maze.faces)}
    for found in maze.pictures:
        place = places[found.i, found.j, found.side]
        picture[place] = index[found.texture]
        sides = (found.right, found.left) if found.flip else (found.left, found.right)
        frame[place] = torch.tensor([*sides, found.low, found.high]) / maze.cell
    surfaces = plain._replace(tiles=torch.where(mirrored, -plain.tiles, plain.tiles), picture=picture, frame=frame)
    return Surfaces(*(None if part is None else part[None] for part in surfaces))  # pyright: ignore[reportArgumentType]


def _walls(maze: Maze) -> GridWalls:
    nx, ny = maze.shape
    across_x = np.full((2, nx + 1, 2 * ny + 1), -1)
    across_y = np.full((2, ny + 1, 2 * nx + 1), -1)
    for place, face in enumerate(maze.faces):
        table, facing, line, cell = _slot(across_x, across_y, face)
        table[facing, line, 2 * cell + 1] = place
    for table, pillars in ((across_x, maze.pillars), (across_y, maze.pillars.T)):
        for facing, line, corner in np.argwhere(np.broadcast_to(pillars, (2, *pillars.shape))):
            table[facing, line, 2 * corner] = _nearest(table, across_x, across_y, facing, line, corner)
    half = torch.tensor([maze.inset / maze.cell])
    return GridWalls(torch.from_numpy(across_x)[None], torch.from_numpy(across_y)[None], half)


def _slot(across_x: np.ndarray, across_y: np.ndarray, face: Face) -> tuple[np.ndarray, int, int, int]:
    """Where a face stands: its table, whether it is seen by rays going right or up (0) or back (1), its line, its cell along it."""
    upper = face.side in (SIDES["E"], SIDES["N"])
    if face.side in (SIDES["W"], SIDES["E"]):
        return across_x, int(not upper), face.i + upper, face.j
    return across_y, int(not upper), face.j + upper, face.i


def _nearest(table: np.ndarray, across_x: np.ndarray, across_y: np.ndarray, facing: int, line: int, corner: int) -> int:
    """The face whose paint a pillar shows: that of a wall beside it on its line, or of one across."""
    walls = table[:, :, 1::2]
    beside = [walls[facing, line, cell] for cell in (corner - 1, corner) if 0 <= cell < walls.shape[2]]
    other = (across_y if table is across_x else across_x)[:, :, 1::2]
    across = [other[side, corner, cell] for side in (0, 1) for cell in (line - 1, line) if 0 <= cell < other.shape[2]]
    behind = [walls[1 - facing, line, cell] for cell in (corner - 1, corner) if 0 <= cell < walls.shape[2]]
    return next(int(face) for face in (*beside, *across, *behind) if face >= 0)
