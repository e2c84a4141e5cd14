"""Measurements as lines of text."""

import math
from pathlib import Path

from mdpf.benchmarks.sheet import Row, load


def tell(part: str, title: str, rows: list[Row]) -> None:
    """Print a case as soon as it is done."""
    print(f"{part}: {title}: " + "; ".join(f"{figure(row)}" for row in rows), flush=True)


def show(path: Path) -> None:
    """Print the table of a file."""
    rows, origin = load(path)
    print(f"\n{path.name}: {origin.device}, revision {origin.revision}, {origin.seconds:.0f} s")
    for row in rows:
        choices = ", ".join(f"{name} {value}" for name, value in row.params.items())
        print(f"  {row.name:28} {choices:72} {figure(row)}")


def figure(row: Row) -> str:
    """A value with its quartiles and unit, or why there is none."""
    if math.isnan(row.value):
        return row.note
    spread = "" if len(row.spread) < 2 else f" ({row.spread[0]:.3g} to {row.spread[1]:.3g})"
    return f"{row.value:.4g}{spread} {row.unit}" + (f" [{row.note}]" if row.note else "")
