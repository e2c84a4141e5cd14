"""From a drawn plan to a home that can be walked and looked at.

A door or window cuts its interval out of the walls it lies on. Where there is home on both sides it is a passage: open up to a
lintel. Otherwise it leads outside: a swing door is shut, anything else is a window between a sill and a lintel. Furniture stands
where its box is drawn; it is seen and walked around, and is not on the map.
"""

import math
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mdpf.tasks.homes import grids
from mdpf.tasks.homes.plans import SWING_DOORS, Door, Plan, plan_of, read

CELL = 0.05  # Metres, of the grids of rooms and of free space.
PIXEL = 0.02  # Metres, of the map.
WALL = 0.1  # Metres, the thickness of a wall.
CEILING = 2.4
DOOR_TOP = 2.0
SILL = 0.9
BESIDE = 0.25  # Metres to either side of an opening, where one looks whether it is inside.
ON_WALL = 0.06  # Metres; an opening this close to the line of a wall lies on it.
SHORTEST = 0.02  # Metres; shorter pieces of wall are dropped.
ROBOT = 0.2  # Metres, the radius of whoever walks.
CLOSET = 0.3  # Square metres; a smaller closed part is no room.

FURNITURE = {
    "cooking_counter": 0.85,
    "washing_basin": 0.8,
    "toilet": 0.45,
    "bathtub": 0.55,
    "special": 1.0,
}
LARGEST_FURNITURE = 2.5  # Metres; a longer box marks a place, not a thing.

ROOMS = (
    "outside",
    "bedroom",
    "living_room",
    "kitchen",
    "bathroom",
    "restroom",
    "washing_room",
    "corridor",
    "entrance",
    "closet",
    "balcony",
    "stairs",
    "PS",
    "unnamed",
)
"""The types of rooms; two names in one room, the first in this list wins."""


class Surface(IntEnum):
    """What a vertical surface is."""

    WALL = 0
    LINTEL = 1
    WINDOW = 2
    DOOR = 3
    FURNITURE = 4


class Opening(NamedTuple):
    """A door or window after looking at its sides.

    Args:
        ends: x and y of both ends.
        passable: Whether there is home on both sides.
        shut: Whether it is a door that leads outside; if neither, a window.
    """

    ends: tuple[float, float, float, float]
    passable: bool
    shut: bool


class Faces(NamedTuple):
    """Vertical surfaces, one row for each.

    Args:
        ends: ``[K, 4]``: x and y of both ends, in metres.
        bottom: ``[K]``, where it begins above the floor.
        top: ``[K]``, where it ends.
        surface: ``[K]``, a ``Surface``.
        kind: ``[K]``; of furniture its place in ``FURNITURE``, else 0.
        left: ``[K]``, the type of room (its place in ``ROOMS``) to the left of someone who looks from the first end to the second
            with x to the right and y up.
        right: ``[K]``, the type on the other side.
    """

    ends: np.ndarray
    bottom: np.ndarray
    top: np.ndarray
    surface: np.ndarray
    kind: np.ndarray
    left: np.ndarray
    right: np.ndarray


class Home(NamedTuple):
    """An apartment.

    Args:
        id: Its name.
        split: ``"train"``, ``"validation"`` or ``"evaluation"``.
        size: Width and height in metres; every coordinate lies between zero and these.
        faces: What stands in it.
        solid: ``[K, 4]``: the walls with the passages cut out, to be drawn with a square pen as wide as a wall, as the map shows
            them.
        openings: Doors and windows.
        rooms: ``[h, w]``: the type of room of each cell (its place in ``ROOMS``).
        parts: ``[h, w]``: which closed room each cell belongs to, from 1; zero in walls and outside.
        free: ``[h, w]``: where the middle of whoever walks can be, all of it connected.
    """

    id: str
    split: str
    size: tuple[float, float]
    faces: Faces
    solid: np.ndarray
    openings: tuple[Opening, ...]
    rooms: np.ndarray
    parts: np.ndarray
    free: np.ndarray

    def wall_map(self) -> np.ndarray:
        """The map at ``PIXEL`` metres: true where there is a wall, ``[rows, columns]``, y along the rows."""
        shape = tuple(math.ceil(side / PIXEL) for side in reversed(self.size))
        return grids.draw((shape[0], shape[1]), PIXEL, self.solid, WALL)

    def is_free(self, x: float, y: float) -> bool:
        """Whether one can stand at a place, in metres."""
        row, column = math.floor(y / CELL), math.floor(x / CELL)
        return 0 <= row < self.free.shape[0] and 0 <= column < self.free.shape[1] and bool(self.free[row, column])

    def check_start(self, x: float, y: float) -> None:
        """Refuse a place where nobody can stand."""
        if not self.is_free(x, y):
            raise ValueError(
                f"A start in home {self.id!r} needs to lie in its free space, got ({x:.2f}, {y:.2f}) m, "
                f"{self._place(x, y)}. Keep {ROBOT} m away from walls and furniture."
            )

    def _place(self, x: float, y: float) -> str:
        row, column = math.floor(y / CELL), math.floor(x / CELL)
        if not (0 <= row < self.parts.shape[0] and 0 <= column < self.parts.shape[1]):
            return f"outside its plan of {self.size[0]:.2f} m by {self.size[1]:.2f} m"
        return "in no room" if self.parts[row, column] == 0 else f"too close to something in the {self.room_at(x, y)}"

    def room_at(self, x: float, y: float) -> str:
        """The type of room at a place, in metres."""
        return ROOMS[self.rooms[math.floor(y / CELL), math.floor(x / CELL)]]


def build(plan: Plan) -> Home:
    """Make a home of a plan; an error names it."""
    shape = (math.ceil(plan.size[1] / CELL), math.ceil(plan.size[0] / CELL))
    closed = grids.draw(shape, CELL, plan.walls, WALL)
    parts = _closed_rooms(plan, closed)
    rooms = _room_types(plan, parts)
    openings = tuple(_opening(door, rooms) for door in plan.doors if _length(door.ends) > SHORTEST and _hosts(plan, door))
    passages = [opening for opening in openings if opening.passable]
    faces, solid = _faces(plan, openings, rooms)
    free = _free_space(plan, shape, solid, parts, passages)
    return Home(plan.id, plan.split, plan.size, faces, solid, openings, rooms, parts, free)


def homes(split: str | None = None, *, folder: str | None = None, count: int | None = None) -> list[Home]:
    """The homes of a split, of the package or of a folder; the first ``count`` of them.

    Example:
        >>> home, = homes("train", count=1)
        >>> home.free.any()
        np.True_
    """
    return [build(plan) for plan in read(folder, split=split)[:count]]


def _closed_rooms(plan: Plan, walls: np.ndarray) -> np.ndarray:
    """Number the parts that walls enclose when every opening is shut; those that touch the border are outside."""
    parts = grids.components(~walls)
    border = np.concatenate([parts[0], parts[-1], parts[:, 0], parts[:, -1]])
    areas = np.bincount(parts.reshape(-1)) * CELL**2
    keep = areas >= CLOSET
    keep[border] = False
    keep[0] = False
    if not keep.any():
        raise ValueError(
            f"Home {plan.id!r} needs a closed room, got walls that enclose none of {CLOSET} square metres. "
            "Close the outline: the ends of walls have to meet."
        )
    return np.where(keep, np.cumsum(keep), 0)[parts]


def _room_types(plan: Plan, parts: np.ndarray) -> np.ndarray:
    """The type of each cell, after the labels whose middle lies in its part."""
    types = np.full(parts.max() + 1, ROOMS.index("unnamed"))
    types[0] = ROOMS.index("outside")
    for label in plan.labels:
        if label.name in ROOMS:
            part = parts[_cell(parts.shape, (label.box[0] + label.box[2]) / 2, (label.box[1] + label.box[3]) / 2)]
            types[part] = min(types[part], ROOMS.index(label.name)) if part > 0 else types[part]
    return types[parts]


def _opening(door: Door, rooms: np.ndarray) -> Opening:
    left, right = _sides(door.ends, rooms)
    passable = left > 0 and right > 0
    return Opening(door.ends, passable, not passable and door.type in SWING_DOORS)


def _sides(ends: tuple[float, ...] | np.ndarray, rooms: np.ndarray) -> tuple[int, int]:
    """The types of rooms to the left and right of the middle of a segment."""
    x0, y0, x1, y1 = ends
    length = math.hypot(x1 - x0, y1 - y0)
    right_x, right_y = (y1 - y0) / length * BESIDE, -(x1 - x0) / length * BESIDE
    middle_x, middle_y = (x0 + x1) / 2, (y0 + y1) / 2
    left = rooms[_cell(rooms.shape, middle_x - right_x, middle_y - right_y)]
    return int(left), int(rooms[_cell(rooms.shape, middle_x + right_x, middle_y + right_y)])


def _hosts(plan: Plan, door: Door) -> bool:
    """Whether an opening lies on a wall at all."""
    return any(_overlap(wall, door.ends) is not None for wall in plan.walls)


def _overlap(wall: np.ndarray, ends: tuple[float, ...]) -> tuple[float, float] | None:
    """The interval of a wall, in metres from its first end, that an opening covers; None if it lies elsewhere."""
    start, end, length = wall[:2], wall[2:], _length(wall)
    if length < SHORTEST:
        return None
    ahead = (end - start) / length
    along, across = [], []
    for point in (np.array(ends[:2]), np.array(ends[2:])):
        offset = point - start
        along.append(float(offset @ ahead))
        across.append(abs(float(offset[1] * ahead[0] - offset[0] * ahead[1])))
    low, high = max(0.0, min(along)), min(length, max(along))
    return (low, high) if max(across) <= ON_WALL and high - low > SHORTEST else None


def _faces(plan: Plan, openings: tuple[Opening, ...], rooms: np.ndarray) -> tuple[Faces, np.ndarray]:
    """What is to be seen, and the walls as the map shows them."""
    rows: list[tuple] = []
    solid: list[np.ndarray] = []
    for wall in plan.walls:
        if _length(wall) < SHORTEST:
            continue
        cuts = [(cut, opening) for opening in openings if (cut := _overlap(wall, opening.ends)) is not None]
        pieces = _pieces(_length(wall), cuts)
        for low, high, opening in pieces:
            piece = _part(wall, low, high)
            if opening is None or not opening.passable:
                solid.append(_drawn(wall, low, high, pieces))
            sides = _sides(piece, rooms)
            rows += [(*piece, *layer, 0, *sides) for layer in _layers(opening)]
    for label in plan.labels:
        if _is_furniture(label.name, label.box):
            x0, y0, x1, y1 = label.box
            kind, room = list(FURNITURE).index(label.name), rooms[_cell(rooms.shape, (x0 + x1) / 2, (y0 + y1) / 2)]
            corners = [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]
            for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1], strict=True):
                rows.append((ax, ay, bx, by, 0.0, FURNITURE[label.name], Surface.FURNITURE, kind, room, room))
    table = np.array(rows, float)
    whole = table[:, 6:].astype(int).T
    return Faces(table[:, :4], table[:, 4], table[:, 5], whole[0], whole[1], whole[2], whole[3]), np.array(solid).reshape(-1, 4)


def _drawn(wall: np.ndarray, low: float, high: float, pieces: list[tuple[float, float, Opening | None]]) -> np.ndarray:
    """A piece of wall to be drawn with a pen as wide as a wall, which must not reach into the passages beside it."""
    ends = {end for start, stop, opening in pieces if opening is not None and opening.passable for end in (start, stop)}
    short = [WALL / 2 if end in ends else 0.0 for end in (low, high)]
    if high - low <= sum(short):  # Narrower than the pen.
        return _part(wall, (low + high) / 2, (low + high) / 2 + 1e-6)
    return _part(wall, low + short[0], high - short[1])


def _layers(opening: Opening | None) -> list[tuple[float, float, Surface]]:
    """Bottom, top and surface of what stands in a piece of wall, one above the other."""
    if opening is None:
        return [(0.0, CEILING, Surface.WALL)]
    lintel = (DOOR_TOP, CEILING, Surface.LINTEL)
    if opening.passable:
        return [lintel]
    if opening.shut:
        return [(0.0, DOOR_TOP, Surface.DOOR), lintel]
    return [(0.0, SILL, Surface.WALL), (SILL, DOOR_TOP, Surface.WINDOW), lintel]


def _pieces(length: float, cuts: list[tuple[tuple[float, float], Opening]]) -> list[tuple[float, float, Opening | None]]:
    """Cut a wall into pieces, with the opening of each; where openings overlap, one that can be passed wins."""
    ends = sorted({0.0, length, *(end for cut, _ in cuts for end in cut)})
    pieces: list[tuple[float, float, Opening | None]] = []
    for low, high in pairwise(ends):
        middle = (low + high) / 2
        here = [opening for (start, stop), opening in cuts if start < middle < stop]
        opening = max(here, key=lambda opening: (opening.passable, opening.shut), default=None)
        if pieces and pieces[-1][2] is opening:
            pieces[-1] = (pieces[-1][0], high, opening)
        else:
            pieces.append((low, high, opening))
    return [piece for piece in pieces if piece[1] - piece[0] > SHORTEST]


def _free_space(plan: Plan, shape: tuple[int, int], solid: np.ndarray, parts: np.ndarray, passages: list[Opening]) -> np.ndarray:
    """The largest connected place to walk in."""
    walls = grids.draw(shape, CELL, solid, WALL)
    things = np.array([label.box for label in plan.labels if _is_furniture(label.name, label.box)]).reshape(-1, 4)
    blocked = grids.widen(walls, (ROBOT - WALL / 2) / CELL) | grids.widen(grids.fill(shape, CELL, things), ROBOT / 2 / CELL)
    # A passage is as wide as it is drawn; one that is narrower than whoever walks can still be walked in its middle.
    ways = grids.draw(shape, CELL, np.array([_across(opening.ends) for opening in passages]).reshape(-1, 4), 2 * CELL)
    through = grids.draw(shape, CELL, np.array([opening.ends for opening in passages]).reshape(-1, 4), WALL)
    inside = (parts > 0) | through
    found = grids.components(inside & (~blocked | (ways & ~walls)))
    areas = np.bincount(found.reshape(-1))
    areas[0] = 0
    if areas.max() * CELL**2 < CLOSET:
        raise ValueError(
            f"Home {plan.id!r} needs free space to walk in, got {areas.max() * CELL**2:.2f} square metres. "
            f"Rooms have to leave {ROBOT} m to their walls and to furniture."
        )
    return found == areas.argmax()


def _across(ends: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    """The way through the middle of an opening."""
    x0, y0, x1, y1 = ends
    length = _length(ends)
    step_x, step_y = (y1 - y0) / length * BESIDE, -(x1 - x0) / length * BESIDE
    middle_x, middle_y = (x0 + x1) / 2, (y0 + y1) / 2
    return middle_x - step_x, middle_y - step_y, middle_x + step_x, middle_y + step_y


def _is_furniture(name: str, box: tuple[float, float, float, float]) -> bool:
    sides = box[2] - box[0], box[3] - box[1]
    return name in FURNITURE and min(sides) > SHORTEST and max(sides) <= LARGEST_FURNITURE


def _part(wall: np.ndarray, low: float, high: float) -> np.ndarray:
    """The part of a wall between two distances from its first end."""
    start, ahead = wall[:2], (wall[2:] - wall[:2]) / _length(wall)
    return np.concatenate([start + low * ahead, start + high * ahead])


def _length(ends: tuple[float, ...] | np.ndarray) -> float:
    return math.hypot(ends[2] - ends[0], ends[3] - ends[1])


def _cell(shape: tuple[int, ...], x: float, y: float) -> tuple[int, int]:
    """The cell of a place; the nearest one of a place outside."""
    return min(max(math.floor(y / CELL), 0), shape[0] - 1), min(max(math.floor(x / CELL), 0), shape[1] - 1)


__all__ = ["Faces", "Home", "Opening", "Surface", "build", "homes", "plan_of"]
