"""Measurements as lines of text."""

import math
from pathlib import Path

from mdpf.evaluation.measurements import Row, load


def of(path: Path) -> str:
    """The table of a file."""
    rows, origin = load(path)
    lines = [[row.name, ", ".join(f"{name} {value}" for name, value in row.params.items()), figure(row)] for row in rows]
    widths = [max((len(line[column]) for line in lines), default=0) for column in (0, 1)]
    head = f"\n{path.name}: {origin.device}, revision {origin.revision}, {origin.seconds:.0f} s"
    return "\n".join([head, *(f"  {name:{widths[0]}}  {choices:{widths[1]}}  {value}" for name, choices, value in lines)])


def figure(row: Row) -> str:
    """A value with its quartiles and unit, or why there is none."""
    if math.isnan(row.value):
        return row.note
    spread = f" ({row.spread[0]:.3g} to {row.spread[1]:.3g})" if row.spread else ""
    return f"{row.value:.4g}{spread} {row.unit}" + (f" [{row.note}]" if row.note else "")
