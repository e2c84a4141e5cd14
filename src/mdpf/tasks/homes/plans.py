"""Floor plans as they were drawn: walls, the doors and windows on them, and labelled boxes for rooms and furniture.

A file of plans (``plans.jsonl``, or packed, ``plans.jsonl.xz``) holds one JSON object per line::

    {"id": ..., "split": "train" | "val" | "test", "m_per_unit": metres per unit of the drawing,
     "walls": [[x0, y0, x1, y1], ...], "doors": [[x0, y0, x1, y1, type], ...], "labels": [[name, x0, y0, x1, y1], ...]}

The package carries 705 plans of real apartments: the usable part of the annotations of Liu, Wu, Kohli and Furukawa (2017),
*Raster-to-Vector: revisiting floorplan transformation* (MIT License, see NOTICE).
"""

import json
import lzma
import math
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SPLITS = {"train": "train", "val": "validation", "validation": "validation", "test": "evaluation", "evaluation": "evaluation"}
MARGIN = 0.5  # Metres around the walls.
LARGEST = 40.0  # Metres; nothing that people live in is longer.
SWING_DOORS = (1, 2)
DOOR_WIDTHS = (0.4, 1.6)  # Metres, of the median swing door.
MAX_BYTES = 256 * 2**20


class Door(NamedTuple):
    """An opening on a wall: its ends, and how it opens (1 and 2 swing, 3 slides, ...)."""

    ends: tuple[float, float, float, float]
    type: int


class Label(NamedTuple):
    """A named box: anywhere inside a room, or around a piece of furniture. The corner with the smaller coordinates comes first."""

    name: str
    box: tuple[float, float, float, float]


class Plan(NamedTuple):
    """One home as it was drawn, in metres, with the walls ``MARGIN`` away from the axes.

    Args:
        id: Its name.
        split: ``"train"``, ``"validation"`` or ``"evaluation"``.
        walls: ``[K, 4]``: x and y of both ends. Doors and windows are not cut out.
        doors: Doors and windows.
        labels: Rooms and furniture.
        size: Width and height of the drawing, margin included.
    """

    id: str
    split: str
    walls: np.ndarray
    doors: tuple[Door, ...]
    labels: tuple[Label, ...]
    size: tuple[float, float]


def read(folder: str | Path | None = None, *, split: str | None = None) -> list[Plan]:
    """Read plans, those of one split or all.

    Args:
        folder: A folder with ``plans.jsonl.xz`` or ``plans.jsonl``, or such a file; by default the plans of the package.
        split: ``"train"``, ``"validation"`` or ``"evaluation"``; entries of other splits, ``"unused"`` too, are left out.

    Example:
        >>> [len(read(split=split)) for split in ("train", "validation", "evaluation")]
        [493, 71, 141]
    """
    wanted = None if split is None else SPLITS.get(split)
    if split is not None and wanted is None:
        raise ValueError(f"Reading plans needs a split of {sorted(set(SPLITS.values()))}, got {split!r}.")
    found = []
    for number, line in enumerate(_lines(folder), 1):
        entry = _parse(line, number)
        name = SPLITS.get(entry.get("split", "train"))
        if name is not None and wanted in (None, name):
            found.append(plan_of(entry, name))
    if not found:
        raise ValueError(
            f"Reading plans needs at least one home{f' of the split {split}' if split else ''}, got none in {str(folder)!r}. "
            'Give every plan a "split" of train, validation or evaluation.'
        )
    return found


def plan_of(entry: dict[str, Any], split: str = "train") -> Plan:
    """One entry of a file as a plan; an error names the home."""
    name = entry.get("id")
    if not isinstance(name, str) or not name:
        raise ValueError(f'A plan needs an "id", got {str(entry)[:80]}. Give every home a name of its own.')
    scale = _number(name, "m_per_unit", entry.get("m_per_unit"))
    walls = np.array([_row(name, "walls", row, 4) for row in _rows(name, "walls", entry)], float)
    if len(walls) < 3:
        raise ValueError(f"Home {name!r} needs at least three walls, got {len(walls)}. It has no closed room; draw its outline.")
    doors = [_row(name, "doors", row, 5) for row in _rows(name, "doors", entry)]
    labels = [_label(name, row) for row in _rows(name, "labels", entry)]
    low = walls.reshape(-1, 2).min(0)
    extent = (walls.reshape(-1, 2).max(0) - low) * scale
    if scale <= 0 or not extent.max() <= LARGEST:
        raise ValueError(
            f"Home {name!r} needs a map in metres of at most {LARGEST:.0f} m, got {extent[0]:.1f} m by {extent[1]:.1f} m at "
            f"m_per_unit={scale}. The scale is of another map; a swing door should come out some 0.7 m wide."
        )
    _check_doors(name, doors, scale)

    def placed(*numbers: float) -> tuple[float, ...]:
        return tuple(float((value - low[index % 2]) * scale + MARGIN) for index, value in enumerate(numbers))

    return Plan(
        id=name,
        split=split,
        walls=np.array([placed(*wall) for wall in walls]),
        doors=tuple(Door(placed(*door[:4]), int(door[4])) for door in doors),  # pyright: ignore[reportArgumentType]
        labels=tuple(Label(kind, _ordered(*placed(*box))) for kind, box in labels),
        size=(float(extent[0]) + 2 * MARGIN, float(extent[1]) + 2 * MARGIN),
    )


def _lines(folder: str | Path | None) -> Iterator[str]:
    if folder is None:
        content = resources.files("mdpf.tasks.homes").joinpath("plans.jsonl.xz").read_bytes()
        yield from lzma.decompress(content).decode().splitlines()
        return
    path = _file(Path(folder))
    try:
        with open(path, "rb") as file, lzma.open(file) if path.suffix == ".xz" else file as stream:
            content = stream.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ValueError(f"more than {MAX_BYTES // 2**20} MiB")
        lines = content.decode().splitlines()
    except (lzma.LZMAError, EOFError, ValueError) as error:
        raise ValueError(f"Reading plans needs an undamaged file, got {error} in {str(path)!r}. Copy or write it again.") from error
    yield from (line for line in lines if line.strip())


def _file(path: Path) -> Path:
    if path.is_file():
        return path
    for name in ("plans.jsonl.xz", "plans.jsonl"):
        if (path / name).is_file():
            return path / name
    raise FileNotFoundError(
        f"Reading plans needs a folder with plans.jsonl.xz or plans.jsonl, got {str(path)!r}. Name such a folder or file; "
        "without one the plans of the package are used."
    )


def _parse(line: str, number: int) -> dict[str, Any]:
    try:
        entry = json.loads(line)
        if not isinstance(entry, dict):
            raise ValueError("no object")
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"Reading plans needs a JSON object on every line, got {line[:60]!r} on line {number}: {error}."
        ) from error
    return entry


def _rows(name: str, key: str, entry: dict[str, Any]) -> Sequence[Any]:
    rows = entry.get(key)
    if not isinstance(rows, list):
        raise ValueError(f"Home {name!r} needs a list of {key}, got {str(rows)[:60]}. See the format of plans.")
    return rows


def _row(name: str, key: str, row: object, length: int) -> list[float]:
    if not isinstance(row, list) or len(row) != length:
        raise ValueError(f"Home {name!r} needs {key} of {length} numbers each, got {str(row)[:60]}. See the format of plans.")
    return [_number(name, key, value) for value in row]


def _label(name: str, row: object) -> tuple[str, list[float]]:
    if not isinstance(row, list) or len(row) != 5 or not isinstance(row[0], str):
        raise ValueError(f"Home {name!r} needs labels of a name and four numbers, got {str(row)[:60]}. See the format of plans.")
    return row[0], [_number(name, "labels", value) for value in row[1:]]


def _number(name: str, key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"Home {name!r} needs finite numbers in {key}, got {str(value)[:60]}. See the format of plans.")
    return float(value)


def _ordered(x0: float, y0: float, x1: float, y1: float) -> tuple[float, float, float, float]:
    return min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)


def _check_doors(name: str, doors: Sequence[Sequence[float]], scale: float) -> None:
    widths = [math.hypot(x1 - x0, y1 - y0) * scale for x0, y0, x1, y1, kind in doors if kind in SWING_DOORS]
    middle = float(np.median(widths)) if widths else sum(DOOR_WIDTHS) / 2
    if not DOOR_WIDTHS[0] <= middle <= DOOR_WIDTHS[1]:
        raise ValueError(
            f"Home {name!r} needs swing doors of {DOOR_WIDTHS[0]} to {DOOR_WIDTHS[1]} m, got a median of {middle:.2f} m at "
            f"m_per_unit={scale}. The map is of another scale; a swing door should come out some 0.7 m wide."
        )
