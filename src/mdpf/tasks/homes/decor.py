"""How a home is decorated: which pattern in which colour on the walls and floors of each type of room, drawn for every home.

Two shades of every wall, by the direction it faces, take the place of light: without them no corner could be seen.
"""

import colorsys
import hashlib
from typing import NamedTuple

import numpy as np

from mdpf.tasks.homes.geometry import FURNITURE, ROOMS
from mdpf.tasks.homes.patterns import NAMES

SHADES = (1.0, 0.8)
"""Of walls that face along the x-axis, and along the y-axis."""

DRY_WALLS = ("plaster", "plaster", "stripes", "dots", "wood_panels")
WET_WALLS = ("small_tiles", "large_tiles", "plaster")
BARE_WALLS = ("plaster", "bricks", "concrete")
DRY_FLOORS = ("planks", "parquet", "mats", "carpet")
WET_FLOORS = ("small_tiles", "large_tiles", "checks")
BARE_FLOORS = ("concrete", "large_tiles")
DRY, WET, BARE = (DRY_WALLS, DRY_FLOORS), (WET_WALLS, WET_FLOORS), (BARE_WALLS, BARE_FLOORS)
STYLES = {
    "outside": BARE,
    "kitchen": (WET_WALLS, ("checks", "planks", "large_tiles")),
    "bathroom": WET,
    "restroom": WET,
    "washing_room": WET,
    "balcony": BARE,
    "stairs": BARE,
    "PS": BARE,
    "entrance": (DRY_WALLS, WET_FLOORS),
}
"""Patterns of walls and of floors to choose from; rooms that are not named here are dry."""


class Decor(NamedTuple):
    """What a home is painted with: a row for each material.

    Args:
        pattern: Its place among the patterns, ``[M]``.
        tint: What its colours are multiplied by, ``[M, 3]``.
    """

    pattern: np.ndarray
    tint: np.ndarray


def wall(room: int, shade: int) -> int:
    """The material of a type of room's walls (its place in ``ROOMS``) in one of ``SHADES``."""
    return room * len(SHADES) + shade


FIRST_FLOOR = len(ROOMS) * len(SHADES)
CEILING = FIRST_FLOOR + len(ROOMS)
JAMB = CEILING + 1
WINDOW = JAMB + 1
DOOR = WINDOW + 1
FIRST_FURNITURE = DOOR + 1
COUNT = FIRST_FURNITURE + len(FURNITURE)

THINGS = {
    "cooking_counter": "cupboards",
    "washing_basin": "porcelain",
    "toilet": "porcelain",
    "bathtub": "porcelain",
    "special": "cupboards",
}


def decorate(name: str, *, seed: int = 0) -> Decor:
    """Draw the decoration of a home from its name.

    Args:
        name: The home's.
        seed: Another number is another decoration of the same home.

    Example:
        >>> decorate("a home").tint.shape
        (51, 3)
    """
    random = np.random.default_rng(int.from_bytes(hashlib.sha256(f"decor/{seed}/{name}".encode()).digest()[:4], "little"))
    walls: list[tuple[str, np.ndarray]] = []
    floors: list[tuple[str, np.ndarray]] = []
    for room in ROOMS:
        papers, grounds = STYLES.get(room, DRY)
        paper, colour = random.choice(papers), _colour(random, (0.75, 1.0), 0.35)
        walls += [(paper, shade * colour) for shade in SHADES]
        floors.append((random.choice(grounds), _floor_colour(random)))
    white = np.ones(3)
    wood = _colour(random, (0.4, 0.9), 0.6, hue=(0.04, 0.12))
    rest = [("ceiling_panels", _colour(random, (0.9, 1.0), 0.06)), ("plaster", 0.8 * wood), ("window", white), ("door", wood)]
    things = [(THINGS[thing], _colour(random, (0.6, 1.0), 0.5)) for thing in FURNITURE]
    patterns, tints = zip(*walls, *floors, *rest, *things, strict=True)
    return Decor(np.array([NAMES.index(pattern) for pattern in patterns]), np.stack(tints).astype(np.float32))


def _colour(
    random: np.random.Generator, brightness: tuple[float, float], colourful: float, hue: tuple[float, float] = (0.0, 1.0)
) -> np.ndarray:
    """A colour: how bright, how colourful at most, and of which hue."""
    return np.array(colorsys.hsv_to_rgb(random.uniform(*hue), random.uniform(0, colourful), random.uniform(*brightness)))


def _floor_colour(random: np.random.Generator) -> np.ndarray:
    """Darker than walls, and most often brown."""
    hue = (0.04, 0.14) if random.random() < 0.7 else (0.0, 1.0)
    return _colour(random, (0.4, 0.85), 0.5, hue)
