"""Clocks and memory gauges: warm up, wait for the device, take the median and the quartiles."""

import math
import statistics
import time
from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple

import torch

WARM_UPS = 2


class Sample(NamedTuple):
    """Seconds of every repetition: by the clock on the wall, and of the processor, which others on the machine do not disturb."""

    wall: list[float]
    processor: list[float]


def synchronize(device: torch.device) -> None:
    """Wait until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def repeat(
    function: Callable[[], object],
    device: torch.device,
    *,
    most: int = 100,
    seconds: float = 2.0,
    least: int = 3,
    warm_ups: int = WARM_UPS,
) -> Sample:
    """Time a function, alone on the device each time.

    Args:
        function: What to time.
        device: Where it works.
        most: At most so many repetitions,
        seconds: as many as fit into that time,
        least: but at least so many.
        warm_ups: Calls before the first that counts.
    """
    for _ in range(warm_ups):
        function()
    synchronize(device)
    sample, end = Sample([], []), time.perf_counter() + seconds
    while len(sample.wall) < most and (len(sample.wall) < least or time.perf_counter() < end):
        wall, processor = time.perf_counter(), time.process_time()
        function()
        synchronize(device)
        sample.wall.append(time.perf_counter() - wall)
        sample.processor.append(time.process_time() - processor)
    return sample


def quartiles(values: list[float]) -> list[float]:
    """The first and the third quartile; the value itself where there is but one."""
    if len(values) < 2:
        return [*values, *values]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return [first, third]


def percentile(values: list[float], share: float) -> float:
    """The smallest value that at least a share of all does not exceed."""
    return sorted(values)[max(1, math.ceil(share * len(values))) - 1]


def peak_memory(function: Callable[[], object], device: torch.device) -> int:
    """The most bytes of tensors a function holds at once, beyond those there were before."""
    if device.type == "cuda":
        synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        function()
        synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        function()
    results: Any = profile.profiler.kineto_results if profile.profiler is not None else None
    changes = [(event.start_ns(), event.nbytes()) for event in results.events() if event.name() == "[memory]"]
    held = accumulate(change for _, change in sorted(changes))
    return max(held, default=0)
