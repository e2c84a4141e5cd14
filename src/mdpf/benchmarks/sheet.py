"""Rows of measurements in a file, written after every case: whatever stops a measurement, the next call goes on from there."""

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch

from mdpf.benchmarks.measure import Sample, quartiles
from mdpf.evaluation.measurements import Row, path_of
from mdpf.evaluation.results import Provenance, provenance, read_json, write_json

MISSING = float("nan")


class Case(NamedTuple):
    """What is measured in one go; its title is its name within the part."""

    title: str
    measure: Callable[[], Iterable[Row]]


class Sheet:
    """The rows of one part on one device.

    Args:
        part: Its name.
        folder: Where the file goes.
        device: Where is measured.
        again: Forget what an earlier call measured. Without it the rows of the same revision on the same device are kept.
    """

    def __init__(self, part: str, folder: Path, device: torch.device, *, again: bool = False):
        self.part, self.device = part, device
        self.path = path_of(folder, part, device.type)
        self.rows: list[Row] = []
        self.done: list[str] = []
        self._began, self._before = time.monotonic(), 0.0
        if self.path.exists() and not again:
            self._go_on(read_json(self.path))

    def _go_on(self, content: dict[str, Any]) -> None:
        now, then = provenance(0.0, device=self.device), Provenance(**content["provenance"])
        known = not now.revision.endswith("+changes")
        if known and (now.revision, now.device, now.versions) == (then.revision, then.device, then.versions):
            self.rows = [Row(**row) for row in content["rows"]]
            self.done = content["done"]
            self._before = then.seconds

    def measure(self, case: Case) -> list[Row]:
        """Measure a case and write the file; what cannot be measured leaves a row that says why."""
        try:
            rows = list(case.measure())
        except (RuntimeError, NotImplementedError) as error:
            # Also what a compiler cannot do and what does not fit into the memory.
            reason = f"{type(error).__name__}: {(str(error) or 'no reason given').strip().splitlines()[0][:200]}"
            rows = [Row(case.title, self.device.type, {}, MISSING, "", [], reason)]
        self.rows += rows
        self.done.append(case.title)
        self.save()
        return rows

    def save(self) -> None:
        seconds = self._before + time.monotonic() - self._began
        write_json(
            self.path,
            {
                "rows": [row._asdict() for row in self.rows],
                "done": self.done,
                "provenance": asdict(provenance(seconds, device=self.device)),
            },
        )


def time_rows(name: str, device: torch.device, params: dict[str, Any], sample: Sample, note: str = "") -> list[Row]:
    """The time of something in milliseconds, the median; on a processor also the least it took of that.

    Whoever else is on the machine only adds to it: a processor's time is less disturbed than the clock, and its least value least.
    """
    wall, processor = (sorted(1e3 * seconds for seconds in values) for values in sample)
    middle = len(wall) // 2
    median = (wall[middle] + wall[-1 - middle]) / 2
    rows = [Row(name, device.type, params, median, "ms", quartiles(wall), note)]
    if device.type == "cpu":
        rows.append(Row(name, device.type, params, processor[0], "ms of processor", quartiles(processor), note))
    return rows


def memory_row(name: str, device: torch.device, params: dict[str, Any], size: int) -> Row:
    """A peak of memory in megabytes."""
    return Row(name, device.type, params, size / 1e6, "MB", [])
