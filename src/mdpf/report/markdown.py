"""The few pieces that every table in Markdown is made of."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

from mdpf.evaluation.results import Result, load


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, rule, *rows))


def missing(what: str, command: str) -> str:
    """What stands in place of numbers that nobody has computed."""
    return f"*Not computed yet: {what}. `{command}` computes it.*"


def origin(results: Sequence[Result]) -> str:
    """Where numbers come from, in one line."""
    revisions = sorted({result.provenance.revision for result in results})
    devices = sorted({result.provenance.device for result in results})
    commands = sorted({_essence(result.provenance.command) for result in results})
    seconds = sum(result.provenance.seconds for result in results)
    made_by = ", ".join(f"`{command}`" for command in commands)
    return f"*Made by {made_by} at revision {', '.join(revisions)} in {_duration(seconds)} ({'; '.join(devices)}).*"


def _essence(command: str) -> str:
    """A command without what changes no number: how far one call went, of which methods, and what it took along."""
    return re.sub(r" --(?:minutes|jobs|methods|pack|unpack|work|out)[ =]\S+", "", command)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 90 else f"{seconds / 60:.0f} minutes"


def load_if_there(path: Path) -> Result | None:
    """The result in a file, nothing where there is no such file."""
    return load(path) if path.exists() else None


def short(value: float) -> str:
    """Two digits, without an exponent."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "not a number"
    exponent = int(f"{value:.1e}".split("e")[1])
    return f"{round(value, 1 - exponent):,.{max(0, 1 - exponent)}f}"
