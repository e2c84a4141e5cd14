"""All measurements by name, and the loop that carries them out within a budget of time."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from mdpf.benchmarks import bounds, density, house, inference, mazes, resampling, timing, training, variants
from mdpf.benchmarks.sheet import Case, Sheet
from mdpf.evaluation.measurements import Row

PARTS: dict[str, Callable[[torch.device], Iterator[Case]]] = {
    "density": density.cases,
    "training": training.runs_cases,
    "latency": inference.cases,
    "resampling": resampling.cases,
    "cold-start": training.cold_cases,
    "bounds": bounds.cases,
    "methods": training.method_cases,
    "house": house.cases,
    "mazes": mazes.cases,
    "growth": timing.growth_cases,
    "timing": timing.cases,
    "variants": variants.cases,
}

Watch = Callable[[str, str, list[Row]], None]


def run(
    parts: Sequence[str],
    folder: Path,
    device: torch.device,
    *,
    budget: float = float("inf"),
    again: bool = False,
    watch: Watch | None = None,
) -> list[Path]:
    """Measure some parts, each into a file of its own; what the budget of seconds leaves out the next call takes up.

    Args:
        parts: Names in ``PARTS``.
        folder: Where the files go.
        device: Where is measured.
        budget: No case is begun after so many seconds.
        again: Measure also what an earlier call measured at this revision.
        watch: Is told the part, the case and its rows.
    """
    end, paths = time.monotonic() + budget, []
    for part in parts:
        sheet = Sheet(part, folder, device, again=again)
        paths.append(sheet.path)
        for case in PARTS[part](device):
            if case.title in sheet.done:
                continue
            if time.monotonic() > end:
                if watch is not None:
                    watch(part, f"{case.title} and what follows: no time left", [])
                return paths
            rows = sheet.measure(case)
            if watch is not None:
                watch(part, case.title, rows)
            if device.type == "cuda":
                torch.cuda.empty_cache()
    return paths
