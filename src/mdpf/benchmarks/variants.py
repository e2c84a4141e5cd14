"""Other ways to lay the fused density out over a GPU, to choose the constants of ``mdpf.ops.fused`` by."""

from collections.abc import Callable, Iterator

import torch

from mdpf.benchmarks.density import Problem
from mdpf.benchmarks.measure import repeat
from mdpf.benchmarks.sheet import Case, time_rows
from mdpf.evaluation.measurements import Row
from mdpf.ops import fused
from mdpf.ops.fused import Tile

PROBLEMS = [(16, 10_000, "gaussian"), (1, 100_000, "gaussian"), (16, 10_000, "epanechnikov"), (704, 25, "gaussian")]
CHOSEN = {"FORWARD": fused.FORWARD, "BACKWARD": fused.BACKWARD, "PROGRAMS_PER_PROCESSOR": fused.PROGRAMS_PER_PROCESSOR}
VARIANTS: list[dict[str, Tile | int]] = [
    {},
    *({"FORWARD": tile} for tile in (Tile(256, 2, 16), Tile(512, 4, 8), Tile(256, 4, 16), Tile(128, 4, 16))),
    *({"BACKWARD": tile} for tile in (Tile(512, 4, 16), Tile(512, 4, 8), Tile(256, 4, 4), Tile(128, 2, 16), Tile(256, 2, 8))),
    *({"PROGRAMS_PER_PROCESSOR": count} for count in (4, 12, 16)),
]


def cases(device: torch.device) -> Iterator[Case]:
    """Every variant on every problem; nothing on a processor, where the fused form does not run."""
    for batch, count, kernel in PROBLEMS if device.type == "cuda" else []:
        for variant in VARIANTS:
            changed = ", ".join(f"{name} {value}" for name, value in variant.items()) or "as it is"
            yield Case(f"B {batch}, N {count}, {kernel}: {changed}", _timed(batch, count, kernel, variant, device))


def _timed(batch: int, count: int, kernel: str, variant: dict[str, Tile | int], device: torch.device) -> Callable[[], list[Row]]:
    def measure() -> list[Row]:
        params = {"batch": batch, "particles": count, "kernel": kernel, **{name: str(value) for name, value in variant.items()}}
        try:
            for name, value in variant.items():
                setattr(fused, name, value)
            return time_rows("density", device, params, repeat(Problem.make(batch, count, kernel, device).step, device))
        finally:
            for name, value in CHOSEN.items():
                setattr(fused, name, value)

    return measure
