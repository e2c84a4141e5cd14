"""The paper's figure of time against the number of particles, for every method at a batch of 24; and how cost grows far beyond it.

A training step is an update on 17 frames with gradients cut every four steps; an inference step is one frame. On a CUDA device both
are recorded as they are, without compiling, so that the figure shows the work of the device and not the launching of it.
"""

from collections.abc import Callable, Iterator

import torch

from mdpf.benchmarks.inference import Online
from mdpf.benchmarks.measure import peak_memory, repeat
from mdpf.benchmarks.sheet import Case, memory_row, time_rows
from mdpf.benchmarks.training import prepare
from mdpf.evaluation.measurements import Row
from mdpf.recipes import bearings
from mdpf.recipes.methods import METHODS
from mdpf.recording import capture, own_stream

BATCH = 24
COUNTS = {"cuda": (25, 100, 400, 1600), "cpu": (25, 50, 100, 200)}
INFERENCE_GROWTH = (1_000, 3_000, 10_000, 30_000, 100_000)
TRAINING_GROWTH = {"cuda": (1_000, 4_000, 16_000), "cpu": (100, 200, 400, 800)}


def cases(device: torch.device) -> Iterator[Case]:
    """Every method at every number of particles."""
    for count in COUNTS[device.type]:
        for method in METHODS:
            yield Case(f"{method}, N {count}, inference", inference(method, count, device))
            yield Case(f"{method}, N {count}, training", training(method, count, device))


def growth_cases(device: torch.device) -> Iterator[Case]:
    """MDPF with very many particles."""
    for count in INFERENCE_GROWTH:
        yield Case(f"N {count}, inference", inference("MDPF", count, device))
    for count in TRAINING_GROWTH[device.type]:
        yield Case(f"N {count}, training", training("MDPF", count, device))


def inference(method: str, count: int, device: torch.device) -> Callable[[], list[Row]]:
    """Time and memory of a step without gradient."""

    def measure() -> list[Row]:
        with own_stream(device):
            step = Online(method, count, (BATCH,), device)
            return _measure("inference step", method, count, step, step.generator, device)

    return measure


def training(method: str, count: int, device: torch.device) -> Callable[[], list[Row]]:
    """Time and memory of an update."""

    def measure() -> list[Row]:
        with own_stream(device):
            config = bearings.Config(method, particles=count)
            update, generator = prepare(config, device, "eager", BATCH)
            return _measure("training step", method, count, update, generator, device)

    return measure


def _measure(
    name: str, method: str, count: int, function: Callable[[], object], generator: torch.Generator, device: torch.device
) -> list[Row]:
    params = {"method": method, "particles": count, "batch": BATCH, "execution": "eager"}
    function()
    memory = memory_row(name, device, params, peak_memory(function, device))
    rows = [*time_rows(name, device, params, repeat(function, device, most=20, seconds=0.5, warm_ups=0)), memory]
    if device.type != "cuda":
        return rows
    params = {**params, "execution": "recorded"}

    def call() -> None:
        function()

    try:
        replay = capture(call, generator)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0][:200]
        return [*rows, Row(name, device.type, params, float("nan"), "ms", [], f"cannot be recorded: {reason}")]
    return [*rows, *time_rows(name, device, params, repeat(replay, device, most=50, seconds=0.5))]
