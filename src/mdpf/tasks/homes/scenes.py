"""From homes to scenes that can be rendered, all of them at once, so that the frames of a batch may come from any.

Walls get their thickness and a face on either side, painted after the room it looks at; a passage gets jambs under its lintel. On
the map y points down, and whoever looks along x has growing y to the right; the renderer has y up, so scenes are turned over:
what is to the right of the way on the map is on the right of the image.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mdpf.checks import check_tensor
from mdpf.render import Atlas, Camera, Material, Plane, Scene, SegmentWalls, Surfaces, stack_scenes
from mdpf.tasks.homes import decor, patterns
from mdpf.tasks.homes.geometry import CEILING, CELL, DOOR_TOP, PIXEL, WALL, Home, Surface

CAMERA = Camera(width=56, height=56, field_of_view=math.radians(60), eye=1.0, samples=2, far=10.0)
"""As high and as wide as the camera of the published data."""

PERIOD = 1.2  # Metres, the side of a pattern on walls and floors.
PANE = 0.8  # Metres, about the width of a window's pattern.
INSET = 0.002  # Metres by which faces end before they would touch a face of another wall.
NEAR = 0.4  # Metres; a place along a wall this far from a room still belongs to it.
OUTSIDE = 0


class Face(NamedTuple):
    """One painted side of something, on the map."""

    start: tuple[float, float]
    end: tuple[float, float]
    bottom: float
    top: float
    material: int
    tiles: float
    density: float


def build(homes: Sequence[Home], *, seed: int = 0) -> Scene:
    """One scene for each home, in metres, decorated by ``decor.decorate``.

    Args:
        homes: The homes.
        seed: Of their decoration.

    Example:
        >>> from mdpf.tasks.homes.geometry import homes
        >>> build(homes("validation", count=2)).num_scenes
        2
    """
    if not homes:
        raise ValueError("build needs at least one home, got none.")
    atlas = Atlas.of(torch.from_numpy(patterns.draw()))
    return stack_scenes([_scene(home, decor.decorate(home.id, seed=seed), atlas) for home in homes])


def viewpoints(poses: Tensor) -> Tensor:
    """Poses on a map, in pixels ``[..., 3]``, as poses in a scene, in metres."""
    check_tensor("viewpoints", poses, ["frame", 3], "Poses are x, y in pixels of the map and a heading in radians.")
    return poses * torch.stack([poses.new_full((), factor) for factor in (PIXEL, -PIXEL, -1.0)])


def _scene(home: Home, painted: decor.Decor, atlas: Atlas) -> Scene:
    faces = _faces(home)
    start, end = (torch.tensor(points)[None] for points in zip(*((face.start, face.end) for face in faces), strict=True))
    turned = torch.tensor([1.0, -1.0])
    columns = zip(*(face[2:] for face in faces), strict=True)
    bottom, top, material, tiles, density = (torch.tensor(column)[None] for column in columns)
    one = torch.ones(1)
    # Row 0 of the rooms lies at y = 0, the upper end of the scene.
    rooms = torch.from_numpy(home.rooms[::-1].T + decor.FIRST_FLOOR).to(torch.uint8)[None]
    floor = Plane(rooms, torch.tensor([[0.0, -CELL * home.rooms.shape[0]]]), CELL * one, PERIOD * one)
    ceiling = Plane(torch.full((1, 1, 1), decor.CEILING, dtype=torch.uint8), torch.zeros(1, 2), one, PERIOD * one)
    return Scene(
        walls=SegmentWalls(start * turned, end * turned),
        surfaces=Surfaces(material, bottom, top, tiles, density),
        materials=Material(torch.from_numpy(painted.pattern)[None], torch.from_numpy(painted.tint)[None]),
        atlas=atlas,
        floor=floor,
        ceiling=ceiling,
        ceiling_height=CEILING * one,
    )


def _faces(home: Home) -> list[Face]:
    """Everything that can be seen of a home but its floor and ceiling."""
    faces = home.faces
    passages = _passages(home)
    found: list[Face] = []
    for row in range(len(faces.ends)):
        ends, bottom, top = faces.ends[row], float(faces.bottom[row]), float(faces.top[row])
        surface = Surface(faces.surface[row])
        if surface is Surface.FURNITURE:
            material = decor.FIRST_FURNITURE + int(faces.kind[row])
            length = math.dist(ends[:2], ends[2:])
            found.append(Face(_point(ends[:2]), _point(ends[2:]), bottom, top, material, length / PANE, 1 / (top - bottom)))
        else:
            found += _wall(home, ends, bottom, top, surface, passages)
    return found


def _passages(home: Home) -> np.ndarray:
    """The ends of what hangs over passages, ``[P, 4]``: what has neither a wall nor a door below."""
    faces = home.faces
    standing = {tuple(ends) for ends, bottom in zip(faces.ends, faces.bottom, strict=True) if bottom == 0}
    hanging = faces.surface == Surface.LINTEL
    found = [ends for ends in faces.ends[hanging] if tuple(ends) not in standing]
    return np.array(found).reshape(-1, 4)


def _wall(home: Home, ends: np.ndarray, bottom: float, top: float, surface: Surface, passages: np.ndarray) -> list[Face]:
    """Both sides of a piece of wall, each painted after the rooms along it, and jambs where a passage begins."""
    length = math.dist(ends[:2], ends[2:])
    ahead = (ends[2:] - ends[:2]) / length
    left = np.array([-ahead[1], ahead[0]]) * (WALL / 2)
    shade = int(abs(ahead[0]) > abs(ahead[1]))
    cuts = [_is_cut(point, ahead, ends, passages) for point in (ends[:2], ends[2:])]
    # A wall reaches to the far side of those it meets; what hangs in a passage does not.
    hangs = bool((passages == ends).all(1).any())
    reach = [0.0 if cut or hangs else WALL / 2 - INSET for cut in cuts]
    sides = [_along(home.rooms, ends, 3 * side) for side in (left, -left)]
    seen = [side for side in range(2) if any(room != OUTSIDE for _, _, room in sides[side])]
    found = []
    for side in seen or [0]:
        for low, high, room in sides[side]:
            low, high = (low - reach[0] if low == 0 else low), (high + reach[1] if high == length else high)
            offset = left if side == 0 else -left
            start, end = (ends[:2] + distance * ahead + offset for distance in (low, high))
            found.append(_paint(start, end, bottom, top, surface, room, shade))
    for point, cut in zip((ends[:2], ends[2:]), cuts, strict=True):
        if cut and bottom == 0 and top == CEILING:
            found.append(_jamb(point - left, point + left))
    return found


def _along(rooms: np.ndarray, ends: np.ndarray, beside: np.ndarray) -> list[tuple[float, float, int]]:
    """Which room a side of a wall looks at, from where to where, in metres from its first end.

    Where another wall is met, and where nothing was drawn, the nearest room along the wall counts, if it is near.
    """
    length = math.dist(ends[:2], ends[2:])
    count = max(1, round(length / CELL))
    place = (np.arange(count) + 0.5) / count
    points = ends[:2] + place[:, None] * (ends[2:] - ends[:2]) + beside
    columns, rows = (np.clip((points[:, axis] / CELL).astype(int), 0, rooms.shape[1 - axis] - 1) for axis in (0, 1))
    seen = rooms[rows, columns].astype(int)
    known = np.flatnonzero(seen != OUTSIDE)
    if len(known):
        nearest = known[np.abs(np.arange(count)[:, None] - known).argmin(1)]
        seen = np.where(np.abs(np.arange(count) - nearest) * length / count <= NEAR, seen[nearest], seen)
    borders = [0, *(np.flatnonzero(np.diff(seen)) + 1).tolist(), count]
    return [
        (low * length / count if low else 0.0, length if high == count else high * length / count, int(seen[low]))
        for low, high in pairwise(borders)
    ]


def _is_cut(point: np.ndarray, ahead: np.ndarray, ends: np.ndarray, passages: np.ndarray) -> bool:
    """Whether a piece of wall ends here because a passage begins."""
    first, second = passages[:, :2], passages[:, 2:]
    touches = np.minimum(np.hypot(*(point - first).T), np.hypot(*(point - second).T)) < 1e-6
    others = passages[touches & (passages != ends).any(1)]
    along = others[:, 2:] - others[:, :2]
    along = along / np.hypot(*along.T)[:, None]
    return bool((np.abs(along[:, 0] * ahead[1] - along[:, 1] * ahead[0]) < 1e-6).any())


def _paint(start: np.ndarray, end: np.ndarray, bottom: float, top: float, surface: Surface, room: int, shade: int) -> Face:
    length = math.dist(start, end)
    if surface is Surface.WINDOW:
        look = (decor.WINDOW, float(max(1, round(length / PANE))), 1 / (top - bottom))
    elif surface is Surface.DOOR:
        look = (decor.DOOR, 1.0, 1 / (top - bottom))
    else:
        look = (decor.wall(room, shade), length / PERIOD, 1 / PERIOD)
    return Face(_point(start), _point(end), bottom, top, *look)


def _jamb(start: np.ndarray, end: np.ndarray) -> Face:
    return Face(_point(start), _point(end), 0.0, DOOR_TOP, decor.JAMB, WALL / PERIOD, 1 / PERIOD)


def _point(point: np.ndarray) -> tuple[float, float]:
    return float(point[0]), float(point[1])
