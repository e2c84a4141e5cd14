r"""How right and how noisy the gradient of every estimator is, in one step, against exact quadrature.

The gradient of :math:`E_m[f]` to the mixture's weights (as logits), locations and bandwidth is estimated from one set of particles,
over and over. What is reported is in parts of the exact gradient's norm, so that a standard deviation of 1 means: as much noise as
signal.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from mdpf import trees
from mdpf.exact.expectation import expectation
from mdpf.kernels import Biweight, Epanechnikov, Gaussian, Product, VonMises
from mdpf.kernels.protocol import Kernel
from mdpf.mixture import Mixture
from mdpf.resamplers import ComponentPathwise, ImplicitlyReparameterized, ImportanceWeighted, Resampler, StopGradient

NUM_COMPONENTS = NUM_PARTICLES = 25
INPUTS = ("weights", "locs", "bandwidth")
# Replicates of one pass: what fits into the memory of a small machine.
CHUNK = 500

ESTIMATORS: dict[str, Resampler] = {
    "ImportanceWeighted": ImportanceWeighted(),
    "ComponentPathwise": ComponentPathwise(),
    "ImplicitlyReparameterized": ImplicitlyReparameterized(),
    "StopGradient": StopGradient(),
}
# These stand for the weighted particles, without the kernel: another truth.
DISCRETE = ("StopGradient",)


class Case(NamedTuple):
    """A mixture, taken apart: logits ``[n]``, locations ``[n, d]``, a kernel made from one width per coordinate ``[d]``."""

    weights: Tensor
    locs: Tensor
    bandwidth: Tensor
    kernel: Callable[[Tensor], Kernel]

    @property
    def inputs(self) -> dict[str, Tensor]:
        return dict(zip(INPUTS, self[:3], strict=True))

    def mixture(self, weights: Tensor, locs: Tensor, bandwidth: Tensor) -> Mixture:
        return Mixture(locs, weights.log_softmax(-1), self.kernel(bandwidth))


def observe(x: Tensor) -> Tensor:
    """The function whose mean is differentiated: linear nowhere, different in every mode, periodic in the third coordinate."""
    value = (x[..., 0] + 0.2).tanh() + 0.5 * x[..., 0].cos()
    if x.shape[-1] == 1:
        return value
    return value + 0.5 * (x[..., 1] - x[..., 0]).sin() + (1 + 0.5 * x[..., 1].tanh()) * (x[..., 2] - 0.4).cos()


def pose_kernel(bandwidth: Tensor) -> Kernel:
    """Gaussian for the first two coordinates, von Mises for the third."""
    return Product((Gaussian(bandwidth[..., :2]), VonMises(bandwidth[..., 2:])))


def make_cases(seed: int = 0) -> dict[str, Case]:
    """The cases of the table: lines and poses; one cloud, two clouds with some density left between them, two clouds with none.

    In the last kind ("far" and the compact kernels) an estimator that moves points across the gap never meets one there: its noise
    does not show, and the weights' gradient is missing instead. The kernels of "separated" have one standard deviation.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    side = torch.where(torch.arange(NUM_COMPONENTS) % 5 < 3, 1.0, -1.0).double()[:, None]
    far = torch.tensor([3.0, 2.0, 1.5], dtype=torch.float64)
    weights, cloud = 0.5 * normal(NUM_COMPONENTS), normal(NUM_COMPONENTS, 3)
    apart = side * far + 0.3 * cloud
    line = torch.ones(1, dtype=torch.float64)
    tight = torch.tensor([0.7, 0.7, 5.0], dtype=torch.float64)
    wide = torch.tensor([1.0, 1.0, 2.0], dtype=torch.float64)
    return {
        "1d-overlapping": Case(weights, cloud[:, :1], line, Gaussian),
        "1d-separated": Case(weights, apart[:, :1], 0.7 * line, Gaussian),
        "1d-separated-epanechnikov": Case(weights, apart[:, :1], 0.7 * math.sqrt(5) * line, Epanechnikov),
        "1d-separated-biweight": Case(weights, apart[:, :1], 0.7 * math.sqrt(7) * line, Biweight),
        "1d-far": Case(weights, apart[:, :1], 0.35 * line, Gaussian),
        "3d-overlapping": Case(weights, cloud, wide, pose_kernel),
        "3d-separated": Case(weights, apart, tight, pose_kernel),
    }


def exact_gradient(case: Case, *, discrete: bool = False) -> dict[str, Tensor]:
    """The gradient itself: of the quadrature over the mixture, or of the sum over its particles."""

    def mean(weights: Tensor, locs: Tensor, bandwidth: Tensor) -> Tensor:
        if discrete:
            return weights.softmax(-1) @ observe(locs)
        return expectation(case.mixture(weights, locs, bandwidth), observe)

    return _gradients(mean, case.inputs)


def sampled_gradients(case: Case, resampler: Resampler, num_replicates: int, generator: Generator) -> dict[str, Tensor]:
    """Independent estimates ``[replicate, ...]``, each from ``NUM_PARTICLES`` particles; one backward pass for a chunk of them."""

    def estimate(**inputs: Tensor) -> Tensor:
        draw = resampler(case.mixture(**inputs), NUM_PARTICLES, generator=generator)
        return (draw.log_weights.exp() * observe(draw.points)).sum(-1)

    chunks = []
    for size in _chunk_sizes(num_replicates):
        chunks.append(_gradients(estimate, {name: value.expand(size, *value.shape) for name, value in case.inputs.items()}))
    return {name: torch.cat([chunk[name] for chunk in chunks]) for name in INPUTS}


def compare(sampled: Tensor, exact: Tensor) -> dict[str, float]:
    """Bias and noise of one input's gradient.

    Returns:
        ``bias_z``: the largest z-score among the entries; and in parts of the exact gradient's norm ``relative_bias``: the norm of
        the mean error, ``relative_std``: that of the entries' standard deviations, ``relative_peak``: the largest single norm.
    """
    size = exact.norm()
    error, spread = sampled.mean(0) - exact, sampled.std(0)
    z = error.abs() / (spread / math.sqrt(len(sampled))).clamp_min(torch.finfo(spread.dtype).tiny)
    return {
        "bias_z": float(z.max()),
        "relative_bias": float(error.norm() / size),
        "relative_std": float(spread.norm() / size),
        "relative_peak": float(sampled.flatten(1).norm(dim=-1).max() / size),
    }


def variance_growth(
    kernel: Callable[[Tensor], Kernel], sizes: tuple[int, ...], *, num_groups: int = 21, seed: int = 0
) -> dict[int, float]:
    r"""The sample variance of a gradient to the location, by the number of draws it is taken from.

    One component at zero, whose edges nothing else covers, and :math:`f(x) = x`: the exact gradient is one. The median over
    ``num_groups`` independent groups is taken, because single draws dominate a sample variance that has no limit.

    Args:
        kernel: Makes the kernel from its width; the width is chosen for unit standard deviation.
        sizes: Numbers of draws.
        num_groups: Independent sample variances for each size.
        seed: Seed of the draws.
    """
    generator = torch.Generator().manual_seed(seed)
    one = torch.ones(1, dtype=torch.float64)
    width = 1 / kernel(one).variance().sqrt()
    return {size: _median_variance(kernel(width), size, num_groups, generator) for size in sizes}


def _median_variance(kernel: Kernel, size: int, num_groups: int, generator: Generator) -> float:
    variances = []
    for _ in range(num_groups):
        locs = torch.zeros(size, 1, 1, dtype=torch.float64, requires_grad=True)
        draw = ImportanceWeighted()(Mixture(locs, locs.new_zeros(size, 1), kernel), 1, generator=generator)
        (gradient,) = torch.autograd.grad((draw.log_weights.exp() * draw.points[..., 0]).sum(), locs)
        variances.append(float(gradient.var()))
    return float(torch.tensor(variances, dtype=torch.float64).median())


def variance_table(
    *,
    num_replicates: int = 10_000,
    growth_sizes: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000),
    seed: int = 0,
    progress: Callable[[str], None] = lambda row: None,
) -> dict[str, Any]:
    """Measure every estimator on every case, as a result to be written; its provenance is for the writer to add.

    Args:
        num_replicates: Independent gradients for each row.
        growth_sizes: Numbers of draws for the growth of the sample variance.
        seed: Seed of the mixtures and of all draws.
        progress: Told the name of every row when it is done.

    Returns:
        One run whose metrics are named ``case/estimator/input/quantity`` (quantities: see ``compare``) and
        ``growth/kernel/draws``.
    """
    metrics: dict[str, float] = {}
    for row, values in _rows(num_replicates, seed):
        metrics.update({f"{row}/{quantity}": value for quantity, value in values.items()})
        progress(row)
    for kernel in (Epanechnikov, Biweight, Gaussian):
        growth = variance_growth(kernel, growth_sizes, seed=seed)
        metrics.update({f"growth/{kernel.__name__}/{size}": value for size, value in growth.items()})
        progress(f"growth/{kernel.__name__}")
    config = {"components": NUM_COMPONENTS, "particles": NUM_PARTICLES, "replicates": num_replicates, "dtype": "float64"}
    return {
        "experiment": "variance",
        "method": "estimators",
        "setting": "default",
        "runs": [{"seed": seed, "metrics": metrics}],
        "config": config,
    }


def _rows(num_replicates: int, seed: int) -> Iterator[tuple[str, dict[str, float]]]:
    for name, case in make_cases(seed).items():
        for estimator, resampler in ESTIMATORS.items():
            discrete = estimator in DISCRETE
            exact = exact_gradient(case, discrete=discrete)
            sampled = sampled_gradients(case, resampler, num_replicates, torch.Generator().manual_seed(seed))
            for key in INPUTS:
                # The weighted particles do not know the kernel.
                if not (discrete and key == "bandwidth"):
                    yield f"{name}/{estimator}/{key}", compare(sampled[key], exact[key])


def _chunk_sizes(total: int) -> list[int]:
    return [min(CHUNK, total - start) for start in range(0, total, CHUNK)]


def _gradients(function: Callable[..., Tensor], inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    leaves = trees.tree_map(lambda tensor: tensor.detach().clone().requires_grad_(), tuple(inputs.values()))
    output = function(**dict(zip(inputs, leaves, strict=True))).sum()
    found = torch.autograd.grad(output, leaves, materialize_grads=True)
    return dict(zip(inputs, found, strict=True))
