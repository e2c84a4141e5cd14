"""What bounds a step on this very machine: calls of the host, bytes to and from memory, exponentials.

A step can be no faster than as many smallest operators as it has, or than its bytes or exponentials take. The page about speed puts
these bounds beside what is measured.
"""

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from mdpf.benchmarks.inference import Online
from mdpf.benchmarks.measure import repeat, synchronize
from mdpf.benchmarks.resampling import RADII, make_step
from mdpf.benchmarks.sheet import Case
from mdpf.benchmarks.training import prepare
from mdpf.evaluation.measurements import Row
from mdpf.recipes import bearings
from mdpf.recording import capture, own_stream
from mdpf.training.threads import threads

CALLS = 1000
COPIED = {"cpu": 2**24, "cuda": 2**28}  # Numbers, far beyond any cache.
EXPONENTIALS = 2**14  # Numbers, within a cache.
BUSIEST = 25
RUNS = {"cpu": (1, 11), "cuda": (1, 11, 55)}
# Another look at the same memory, or memory alone: next to nothing beside what computes.
LOOKS = (
    "alias, as_strided, detach, diagonal, empty, empty_strided, expand, narrow, permute, select, slice, split_with_sizes, squeeze, "
    "t, transpose, unbind, unsqueeze, "
    "view, _unsafe_view, _reshape_alias, result_type, resize_, lift_fresh, resolve_conj, resolve_neg"
)
NOT_COUNTED = frozenset(f"aten::{name}" for name in LOOKS.split(", "))


class Work(NamedTuple):
    """What a function had done.

    Args:
        count: By how many operators, or programs of a device.
        busy: The seconds these were busy.
        shares: Of a device's programs, the count and the seconds of each by its name.
    """

    count: int
    busy: float
    shares: dict[str, tuple[int, float]]


def cases(device: torch.device) -> Iterator[Case]:
    """The machine, then the steps."""
    yield Case("machine", lambda: _machine(device))
    for runs in RUNS[device.type]:
        yield Case(f"training step, R {runs}", _training_step(runs, device))
    yield Case("one step of one sequence", lambda: _latency_step(device))
    yield Case("resampling step", lambda: _resampling_step(device))


def _machine(device: torch.device) -> list[Row]:
    def row(name: str, value: float, unit: str, **params: object) -> Row:
        return Row(name, device.type, params, value, unit, [])

    with threads(1), own_stream(device):
        number = torch.zeros(1, device=device)
        numbers = torch.zeros(COPIED[device.type], device=device)
        other = torch.empty_like(numbers)
        rows = [
            row("smallest operator", 1e6 * _seconds(_calls(number), device) / CALLS, "us", execution="eager"),
            row("copy", 2 * numbers.numel() * 4 / _seconds(lambda: other.copy_(numbers), device) / 1e9, "GB/s"),
        ]
        if device.type == "cuda":
            replay = capture(_calls(number), torch.Generator(device))
            return [*rows, row("smallest operator", 1e6 * _seconds(replay, device) / CALLS, "us", execution="recorded")]
        few = torch.linspace(-20, 0, EXPONENTIALS)
        out = torch.empty_like(few)
        seconds = _seconds(lambda: [torch.exp2(few, out=out) for _ in range(CALLS)], device)
        return [*rows, row("exponentials", CALLS * EXPONENTIALS / seconds / 1e9, "G/s")]


def _calls(number: torch.Tensor) -> Callable[[], None]:
    def call() -> None:
        for _ in range(CALLS):
            number.add_(1)

    return call


def _seconds(function: Callable[[], object], device: torch.device) -> float:
    """The least that was met: whoever else is on the machine only adds to it."""
    sample = repeat(function, device, most=20, seconds=1.0)
    return min(sample.processor if device.type == "cpu" else sample.wall)


def _training_step(runs: int, device: torch.device) -> Callable[[], list[Row]]:
    def measure() -> list[Row]:
        rows = []
        with threads(1), own_stream(device):
            for execution in ("eager", "compiled") if device.type == "cuda" else ("eager",):
                torch._dynamo.reset()
                update = prepare(bearings.Config("MDPF", runs), device, execution).update
                rows += _work_rows("training step", {"runs": runs, "execution": execution}, update, device)
        return rows

    return measure


def _latency_step(device: torch.device) -> list[Row]:
    with threads(1), own_stream(device):
        return _work_rows("latency", {"particles": 25, "execution": "eager"}, Online("MDPF", 25, (), device), device)


def _resampling_step(device: torch.device) -> list[Row]:
    with threads(1), own_stream(device):
        return _work_rows("resampling", {"particles": 25}, make_step(25, RADII["narrow"], device), device)


def _work_rows(name: str, params: dict[str, Any], function: Callable[[], object], device: torch.device) -> list[Row]:
    for _ in range(2):
        function()
    done = work(function, device)
    busiest = sorted(done.shares.items(), key=lambda share: -share[1][1])[:BUSIEST]
    return [
        Row(f"{name}, operators", device.type, params, done.count, "operators", []),
        Row(f"{name}, busy", device.type, params, 1e3 * done.busy, "ms", []),
        *(
            Row(f"{name}, program", device.type, {**params, "program": program[:80]}, 1e3 * seconds, "ms", [], f"{count} times")
            for program, (count, seconds) in busiest
        ),
    ]


def work(function: Callable[[], object], device: torch.device) -> Work:
    """Count the programs of a device, or the innermost computing operators of a processor, that a function runs."""
    kind = torch.profiler.ProfilerActivity.CUDA if device.type == "cuda" else torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[kind]) as profile:
        began = time.process_time()
        function()
        synchronize(device)
        spent = time.process_time() - began
    results: Any = profile.profiler.kineto_results if profile.profiler is not None else None
    events = [event for event in results.events() if not event.is_user_annotation()]
    if device.type == "cuda":
        programs = [event for event in events if event.device_type().name == "CUDA"]
        shares: dict[str, tuple[int, float]] = {}
        for event in programs:
            count, seconds = shares.get(event.name(), (0, 0.0))
            shares[event.name()] = (count + 1, seconds + event.duration_ns() / 1e9)
        return Work(len(programs), sum(seconds for _, seconds in shares.values()), shares)
    operators = [event for event in events if event.name().startswith("aten::") and event.name() not in NOT_COUNTED]
    spans = sorted((event.start_ns(), event.end_ns()) for event in operators)
    starts = [start for start, _ in spans[1:]] + [math.inf]
    return Work(sum(end <= following for (_, end), following in zip(spans, starts, strict=True)), spent, {})
