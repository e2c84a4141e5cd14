"""What happens to samples when a mixture changes: implicit reparameterisation moves them, importance weighting reweights them.

Two examples, as in the paper: two Epanechnikov bumps that do not overlap, on a line, and two Gaussians in the plane. Some weight
passes from one component to the other. The implicit rule keeps every sample's place in the cumulative distribution, so samples
have to cross the gap; importance weights change smoothly and leave the samples where they are.
"""

import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from mdpf.evaluation.results import Result, provenance, save
from mdpf.kernels import Epanechnikov, Gaussian
from mdpf.mixture import Mixture

NUM_SAMPLES = 25
BISECTIONS = 60
LOWEST_SHOWN = -8.0  # Log-density below which a point of the grid is left out.


def line_mixture(weight: Tensor) -> Mixture:
    """Two bumps of half-width one at -2 and 2; the first has the given weight."""
    return _pair(weight, torch.tensor([[-2.0], [2.0]], dtype=weight.dtype), Epanechnikov(torch.ones(1, dtype=weight.dtype)))


def plane_mixture(weight: Tensor) -> Mixture:
    """Two Gaussians of scale 0.5 at (-1.5, -1) and (1.5, 1); the first has the given weight."""
    locs = torch.tensor([[-1.5, -1.0], [1.5, 1.0]], dtype=weight.dtype)
    return _pair(weight, locs, Gaussian(torch.full((2,), 0.5, dtype=weight.dtype)))


def _pair(weight: Tensor, locs: Tensor, kernel: Epanechnikov | Gaussian) -> Mixture:
    return Mixture(locs, torch.stack([weight, 1 - weight]).log(), kernel)


def carry(before: Mixture, after: Mixture, points: Tensor) -> Tensor:
    """Move points so that each keeps its place in the distributional transform, found by bisection, one coordinate at a time."""
    place = before.distributional_transform(points)
    moved = points.clone()
    for dim in range(points.shape[-1]):
        low, high = torch.full_like(points[..., dim], -20.0), torch.full_like(points[..., dim], 20.0)
        for _ in range(BISECTIONS):
            moved[..., dim] = (low + high) / 2
            below = after.distributional_transform(moved)[..., dim] < place[..., dim]
            low, high = torch.where(below, moved[..., dim], low), torch.where(below, high, moved[..., dim])
    return moved


def reweigh(before: Mixture, after: Mixture, points: Tensor) -> Tensor:
    """The importance weights that make samples of ``before`` stand for ``after``."""
    return (after.log_prob(points) - before.log_prob(points)).exp()


def example(make: Callable[[Tensor], Mixture], weights: tuple[float, float], grid: Tensor, *, seed: int) -> dict[str, list]:
    """Shift the weight of one mixture and follow samples and a grid of points."""
    before, after = (make(torch.tensor(weight, dtype=torch.float64)) for weight in weights)
    points = before.sample(NUM_SAMPLES, generator=torch.Generator().manual_seed(seed))
    grid = grid[before.log_prob(grid) > LOWEST_SHOWN]
    outline = torch.stack([before.log_prob(grid), after.log_prob(grid)], -1).exp()
    parts = {
        "points": points,
        "moved": carry(before, after, points),
        "weights": reweigh(before, after, points),
        "grid": grid,
        "grid_density": outline,
        "grid_moved": carry(before, after, grid),
        "grid_weights": reweigh(before, after, grid),
    }
    return {name: part.tolist() for name, part in parts.items()}


def run(folder: Path, *, seed: int = 0) -> list[Path]:
    """Compute both examples under both rules and write one result file for each rule."""
    start = time.monotonic()
    axis = torch.linspace(-3.0, 3.0, 601, dtype=torch.float64)
    plane = torch.cartesian_prod(
        torch.linspace(-3.0, 3.0, 19, dtype=torch.float64), torch.linspace(-2.5, 2.5, 16, dtype=torch.float64)
    )
    change = (0.5, 0.35)
    examples = {
        "line": example(line_mixture, change, axis[:, None], seed=seed),
        "plane": example(plane_mixture, change, plane, seed=seed),
    }
    config = {"num_samples": NUM_SAMPLES, "weight_before": change[0], "weight_after": change[1]}
    paths = []
    for method, keys in (
        ("IRG", ("points", "moved", "grid", "grid_density", "grid_moved")),
        ("IWSG", ("points", "weights", "grid", "grid_density", "grid_weights")),
    ):
        shown = {name: {key: parts[key] for key in keys} for name, parts in examples.items()}
        run_entry = {"seed": seed, "metrics": _metrics(method, examples), "examples": shown}
        paths.append(save(Result("shifting", method, [run_entry], config, provenance(time.monotonic() - start)), folder))
    return paths


def _metrics(method: str, examples: dict[str, dict[str, list]]) -> dict[str, float]:
    metrics = {}
    for name, parts in examples.items():
        if method == "IRG":
            start, end = (torch.tensor(parts[key], dtype=torch.float64) for key in ("points", "moved"))
            shift = (end - start).norm(dim=-1)
            metrics |= {
                f"{name}_largest_shift": shift.max().item(),
                f"{name}_share_moved_by_more_than_1": (shift > 1).double().mean().item(),
            }
        else:
            weights = torch.tensor(parts["weights"], dtype=torch.float64)
            metrics |= {f"{name}_smallest_weight": weights.min().item(), f"{name}_largest_weight": weights.max().item()}
    return metrics
