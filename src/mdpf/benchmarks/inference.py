"""One step of a trained filter, as on a robot: how long it takes for one sequence, and how often longer."""

import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from mdpf.benchmarks.measure import percentile, repeat, synchronize
from mdpf.benchmarks.sheet import Case, time_rows
from mdpf.evaluation.measurements import Row
from mdpf.filters.belief import Belief
from mdpf.filters.prepared import Execution, prepare
from mdpf.recipes import bearings
from mdpf.recipes.methods import METHODS

COUNTS = (25, 250, 2_500, 25_000)
EXECUTIONS: dict[str, tuple[Execution, ...]] = {"cpu": ("compiled",), "cuda": ("recorded", "both")}
SECONDS = 4.0


class Online:
    """A filter of a method in the middle of a sequence: calling it makes one step from the same belief.

    Args:
        method: Which method.
        count: How many particles.
        batch: The batch axes; none for one sequence.
        device: Where.
    """

    def __init__(self, method: str, count: int, batch: tuple[int, ...], device: torch.device):
        torch.manual_seed(0)
        self.filter: nn.Module = METHODS[method].build(bearings.networks(bearings.Config(method))).to(device).eval()
        generator = torch.Generator(device).manual_seed(0)
        particles = torch.randn(*batch, count, 3, generator=generator, device=device)
        self.generator = generator
        with torch.no_grad():
            self.feature: Tensor = self.filter.encoder(torch.randn(*batch, 2, generator=generator, device=device))  # type: ignore[operator]
            self.belief: Belief = self.filter.init(particles)  # type: ignore[operator]
            # The first step after the start does not resample; those that are timed do.
            self.belief, _ = self()

    @torch.no_grad()
    def __call__(self) -> tuple[Belief, object]:
        return self.filter.step(self.belief, self.feature, generator=self.generator)  # type: ignore[operator]

    def prepared(self, execution: Execution) -> Callable[[], object]:
        """The same after ``prepare``."""
        step = prepare(self.filter, self.belief, self.feature, execution=execution, generator=self.generator)  # type: ignore[arg-type]
        return lambda: step(self.belief, self.feature)


def cases(device: torch.device) -> Iterator[Case]:
    """The latency of one sequence, with one thread on a processor."""

    def eager(count: int) -> Callable[[], list[Row]]:
        def measure() -> list[Row]:
            return latency_rows(Online("MDPF", count, (), device), count, "eager", device)

        return measure

    def ready(count: int, execution: Execution) -> Callable[[], list[Row]]:
        def measure() -> list[Row]:
            began = time.perf_counter()
            step = Online("MDPF", count, (), device).prepared(execution)
            synchronize(device)
            params = {"particles": count, "execution": execution}
            seconds = Row("seconds to prepare", device.type, params, time.perf_counter() - began, "s", [])
            return [seconds, *latency_rows(step, count, execution, device)]

        return measure

    for count in COUNTS:
        yield Case(f"N {count}, eager", eager(count))
    for execution in EXECUTIONS[device.type]:
        for count in COUNTS:
            yield Case(f"N {count}, {execution}", ready(count, execution))


def latency_rows(step: Callable[[], object], count: int, execution: str, device: torch.device) -> list[Row]:
    """Median and 99th percentile of a step."""
    sample = repeat(step, device, most=1000, seconds=SECONDS, warm_ups=20)
    params = {"particles": count, "execution": execution, "steps": len(sample.wall)}
    late = Row("latency, 99th percentile", device.type, params, 1e3 * percentile(sample.wall, 0.99), "ms", [])
    return [*time_rows("latency", device, params, sample), late]
