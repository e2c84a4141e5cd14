r"""Whether a belief is as sure as it should be.

If the truth is distributed as the belief says, then the mass of the smallest region of highest density that reaches the truth is
uniform between 0 and 1, and so is the distribution function of every coordinate at the truth. Small levels throughout mean a belief
that is not sure enough, large ones a belief that is too sure.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from mdpf import noise
from mdpf.checks import check_count
from mdpf.kernels import has_cdf
from mdpf.losses import check_target
from mdpf.mixture import Mixture
from mdpf.noise import Source
from mdpf.spaces import wrap

NOMINAL = (0.5, 0.8, 0.9, 0.95, 0.99)
AT_ONCE = 20_000_000  # Pairs of draws and components whose densities are computed together.


class Calibration(NamedTuple):
    """Where the truth lies in beliefs.

    Args:
        levels: The mass of the smallest region of highest density that reaches the truth, ``[*batch]``.
        transforms: The distribution function of every coordinate at the truth, ``[*batch, d]``.
    """

    levels: Tensor
    transforms: Tensor


@torch.no_grad()
def calibrate(posterior: Mixture, truth: Tensor, *, num_samples: int = 200, generator: Source = None) -> Calibration:
    """Find out where the truth lies in beliefs.

    Args:
        posterior: The beliefs, ``[*batch]``.
        truth: The true states, ``[*batch, d]``.
        num_samples: Draws from every belief that measure a region's mass.
        generator: The source of random numbers.

    Example:
        >>> from mdpf.kernels import Gaussian
        >>> belief = Mixture(torch.zeros(1, 1), torch.zeros(1), Gaussian(torch.ones(1)))
        >>> found = calibrate(belief, torch.tensor([1.0]), num_samples=10_000, generator=torch.Generator().manual_seed(0))
        >>> round(float(found.levels), 1), round(float(found.transforms), 2)
        (0.7, 0.84)
    """
    levels = credible_levels(posterior, truth, num_samples=num_samples, generator=generator)
    return Calibration(levels, transform(posterior, truth))


@torch.no_grad()
def credible_levels(posterior: Mixture, truth: Tensor, *, num_samples: int = 200, generator: Source = None) -> Tensor:
    r"""Estimate the mass of the smallest region of highest density that reaches the truth, without bias.

    .. math:: \ell(x) = P_{z \sim m}\big(m(z) > m(x)\big)

    A truth that no kernel covers has level 1.

    Shapes:
        ``truth``: ``[*batch, d]``; returns ``[*batch]``.
    """
    check_target("credible_levels", posterior, truth)
    check_count("credible_levels", num_samples, "num_samples")
    generator = noise.source(generator)
    height = posterior.log_prob(truth.unsqueeze(-2))
    beliefs, above = posterior.log_weights[..., 0].numel(), torch.zeros_like(height[..., 0])
    portion = max(1, AT_ONCE // max(1, beliefs * posterior.num_components))
    for size in torch.arange(num_samples).split(portion):
        draws = posterior.sample(len(size), generator=generator)
        above += (posterior.log_prob(draws) > height).to(height.dtype).sum(-1)
    return above / num_samples


@torch.no_grad()
def transform(posterior: Mixture, truth: Tensor) -> Tensor:
    r"""The probability integral transform of every coordinate: its distribution function at the truth.

    .. math:: F_k(x) = \sum_i w_i F(x_k \mid \mu_{ik})

    The circle has no beginning; an angle's distribution function begins opposite to the belief's mean.

    Shapes:
        ``truth``: ``[*batch, d]``; returns ``[*batch, d]``.
    """
    check_target("transform", posterior, truth)
    kernel, space = posterior.kernel, posterior.space
    if not has_cdf(kernel):
        raise TypeError(
            f"transform needs a kernel with a `cdf`, got {type(kernel).__name__}. Use credible_levels, which needs none."
        )
    mean = posterior.mean()
    turned = [truth[..., dim] for dim in range(space.dim)]
    start = [torch.zeros_like(column) for column in turned]
    for dim in space.angular:
        turned[dim] = mean[..., dim] + wrap(truth[..., dim] - mean[..., dim])
        start[dim] = mean[..., dim] - torch.pi
    weights = posterior.log_weights.exp().unsqueeze(-1)

    def mass_below(columns: list[Tensor]) -> Tensor:
        return (weights * kernel.cdf(torch.stack(columns, -1).unsqueeze(-2), posterior.locs)).sum(-2)

    reached, before = mass_below(turned), mass_below(start)
    angular = torch.tensor([coordinate.angle for coordinate in space.coordinates], device=truth.device)
    return torch.where(angular, reached - before, reached).clamp(0, 1)


def coverage(levels: Tensor, nominal: Tensor) -> Tensor:
    """Which share of the truths lies in the credible regions of given mass; of a calibrated belief that mass itself.

    Shapes:
        ``levels``: any; ``nominal``: ``[k]``; returns ``[k]``.
    """
    return (levels.flatten() <= nominal.unsqueeze(-1)).to(nominal.dtype).mean(-1)


def summarise(found: Calibration, names: tuple[str, ...]) -> Mapping[str, float]:
    """The numbers of a calibration: coverage at the nominal values, and how far it and the transforms are off on average.

    ``coverage_error`` is the mean distance between coverage and nominal value over all nominal values, ``pit_error_...`` the same
    for the distribution of a coordinate's transforms: zero if calibrated, at most one half.
    """
    nominal = torch.tensor(NOMINAL, dtype=torch.float64)
    at = coverage(found.levels, nominal)
    numbers = {f"coverage_{value:g}": share for value, share in zip(NOMINAL, at.tolist(), strict=True)}
    numbers["coverage_error"] = _distance(found.levels)
    return numbers | {f"pit_error_{name}": _distance(found.transforms[..., dim]) for dim, name in enumerate(names)}


def _distance(values: Tensor) -> float:
    """The mean distance between the distribution function of some values and that of the uniform distribution."""
    grid = (torch.arange(200, dtype=torch.float64) + 0.5) / 200
    return float((coverage(values.double(), grid) - grid).abs().mean())
