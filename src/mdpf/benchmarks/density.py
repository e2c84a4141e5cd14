"""The pairwise density, forward and backward: time, memory, and agreement with double precision."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from mdpf.benchmarks.measure import peak_memory, repeat
from mdpf.benchmarks.sheet import Case, memory_row, time_rows
from mdpf.evaluation.measurements import Row
from mdpf.kernels import Biweight, Epanechnikov, Gaussian, Kernel, Product, VonMises
from mdpf.ops import mixture_log_prob

Family = Callable[[Tensor], Kernel]

LINEAR: dict[str, tuple[Family, float]] = {
    # With the parameter in units of the Gaussian's scale: every kernel reaches about as far.
    "gaussian": (Gaussian, 1.0),
    "epanechnikov": (Epanechnikov, 5**0.5),
    "biweight": (Biweight, 7**0.5),
}
SCALE, CONCENTRATION = 0.4, 20.0

SIZES = {
    "cuda": [(16, 10_000, "gaussian"), (1, 100_000, "gaussian"), (16, 10_000, "epanechnikov"), (16, 10_000, "biweight")],
    "cpu": [(16, 1_000, "gaussian"), (1, 5_000, "gaussian"), (16, 1_000, "epanechnikov"), (16, 1_000, "biweight")],
}
LARGE = {"cuda": (1, 1_000_000, "gaussian")}
# Where a cloud's centre is, and its radius, in bandwidths.
CLOUDS = {"near": (0.0, 10.0), "far": (1e4, 10.0), "wide": (0.0, 1e4)}
COMPARED = {"cuda": 10_000, "cpu": 2_000}
QUERIES_AT_A_TIME = 500


class Problem(NamedTuple):
    """Queries and a mixture over (x, y, theta); gradients go to all but the queries.

    Args:
        x: ``[b, m, 3]``.
        leaves: Locations ``[b, n, 3]``, logits ``[b, n]``, the parameter of x and y ``[2]`` and the concentration ``[1]``.
        family: The kernel of x and y.
        cotangent: ``[b, m]``.
    """

    x: Tensor
    leaves: tuple[Tensor, ...]
    family: Family
    cotangent: Tensor

    @staticmethod
    def make(batch: int, count: int, kernel: str, device: torch.device, *, origin: float = 0.0, radius: float = 10.0) -> "Problem":
        """As many queries as components, each near one of them; ``origin`` and ``radius`` are in bandwidths."""
        family, size = LINEAR[kernel]
        generator = torch.Generator(device).manual_seed(0)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, device=device)

        spread = torch.tensor([SCALE * radius, SCALE * radius, 1.0], device=device)
        shift = torch.tensor([SCALE * origin, SCALE * origin, 0.0], device=device)
        locs = shift + spread * normal(batch, count, 3)
        nearest = torch.randint(count, (batch, count, 1), generator=generator, device=device)
        step = torch.tensor([SCALE, SCALE, CONCENTRATION**-0.5], device=device)
        x = locs.gather(1, nearest.expand(-1, -1, 3)) + step * normal(batch, count, 3)
        leaves = (
            locs,
            normal(batch, count),
            torch.full((2,), SCALE * size, device=device),
            torch.full((1,), CONCENTRATION, device=device),
        )
        return Problem(x, tuple(leaf.requires_grad_() for leaf in leaves), family, normal(batch, count))

    def step(self) -> list[Tensor]:
        """The log-density, and its gradient to the leaves."""
        locs, logits, linear, concentration = self.leaves
        kernel = Product((self.family(linear), VonMises(concentration)))
        outcome = mixture_log_prob(self.x, locs, logits.log_softmax(-1), kernel)
        return [outcome.detach(), *torch.autograd.grad(outcome, self.leaves, self.cotangent)]

    def exact(self) -> list[Tensor]:
        """The same by the reference in double precision, some queries at a time."""
        leaves = tuple(leaf.detach().double().requires_grad_() for leaf in self.leaves)
        outcomes, totals = [], [torch.zeros_like(leaf) for leaf in leaves]
        for x, cotangent in zip(self.x.split(QUERIES_AT_A_TIME, 1), self.cotangent.split(QUERIES_AT_A_TIME, 1), strict=True):
            locs, logits, linear, concentration = leaves
            kernel = Product((self.family(linear), VonMises(concentration)))
            outcome = mixture_log_prob(x.double(), locs, logits.log_softmax(-1), kernel, implementation="reference")
            outcomes.append(outcome.detach())
            for total, gradient in zip(totals, torch.autograd.grad(outcome, leaves, cotangent.double()), strict=True):
                total += gradient
        return [torch.cat(outcomes, 1), *totals]


def cases(device: torch.device) -> Iterator[Case]:
    """What is measured, the most important first."""

    def timed(batch: int, count: int, kernel: str, least: int = 3) -> Callable[[], list[Row]]:
        def measure() -> list[Row]:
            problem = Problem.make(batch, count, kernel, device)
            params = {"batch": batch, "particles": count, "kernel": kernel}
            sample = repeat(problem.step, device, least=least, warm_ups=1 if least == 1 else 2)
            return [
                *time_rows("density", device, params, sample),
                memory_row("density", device, params, peak_memory(problem.step, device)),
            ]

        return measure

    def compared(cloud: str, count: int) -> Callable[[], list[Row]]:
        def measure() -> list[Row]:
            origin, radius = CLOUDS[cloud]
            problem = Problem.make(1, count, "gaussian", device, origin=origin, radius=radius)
            names = ("log-density", "gradient to locations", "to log-weights", "to scales", "to concentration")
            params = {"particles": count, "cloud": cloud}
            pairs = zip(names, problem.step(), problem.exact(), strict=True)
            return [
                Row("density error", device.type, {**params, "of": name}, relative_error(found, exact), "relative", [])
                for name, found, exact in pairs
            ]

        return measure

    for batch, count, kernel in SIZES[device.type]:
        yield Case(f"B {batch}, N {count}, {kernel}", timed(batch, count, kernel))
    for cloud in CLOUDS:
        yield Case(f"error, {cloud}", compared(cloud, COMPARED[device.type]))
    if device.type in LARGE:
        batch, count, kernel = LARGE[device.type]
        yield Case(f"B {batch}, N {count}, {kernel}", timed(batch, count, kernel, least=1))


def relative_error(found: Tensor, exact: Tensor) -> float:
    """The norm of the error, relative to that of the exact values."""
    return ((found.double() - exact).norm() / exact.norm()).item()
