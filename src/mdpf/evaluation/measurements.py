"""Measurements of speed and memory as files: rows of figures, with where they come from. ``mdpf bench`` writes them."""

from pathlib import Path
from typing import Any, NamedTuple

from mdpf.evaluation.results import Provenance, read_json


class Row(NamedTuple):
    """One figure.

    Args:
        name: What was measured.
        device: ``"cpu"`` or ``"cuda"``; the file says which.
        params: The choices behind it.
        value: The median, the least (of a processor's time) or the only one; not a number where it could not be measured.
        unit: Of the value.
        spread: The quartiles.
        note: Why there is no value, or what belongs to it.
    """

    name: str
    device: str
    params: dict[str, Any]
    value: float
    unit: str
    spread: list[float]
    note: str = ""


class Measurements(NamedTuple):
    """The rows of one file, and where they come from."""

    rows: list[Row]
    provenance: Provenance

    def all(self, name: str, unit: str, **params: object) -> list[Row]:
        """The rows of a name and unit with these choices, whatever their others."""
        return [row for row in self.rows if (row.name, row.unit) == (name, unit) and params.items() <= row.params.items()]

    def value(self, name: str, unit: str, **params: object) -> float | None:
        """The one value there is, nothing where there is none, or none that could be measured."""
        found = [row.value for row in self.all(name, unit, **params) if row.value == row.value]
        return found[0] if found else None


def path_of(folder: Path, part: str, device: str) -> Path:
    """Where the measurements of one part on one kind of device are kept."""
    return folder / f"{part}@{device}.json"


def load(path: Path) -> Measurements:
    """Read a file of measurements."""
    content = read_json(path)
    try:
        return Measurements([Row(**row) for row in content["rows"]], Provenance(**content["provenance"]))
    except (TypeError, KeyError) as error:
        raise ValueError(f"Reading measurements needs a file that `mdpf bench` wrote, got {str(path)!r}: {error}.") from error
