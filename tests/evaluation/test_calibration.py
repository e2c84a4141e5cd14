"""Calibration against exact cases: closed forms, quadrature, and truths drawn from the belief itself."""

import math

import pytest
import torch
from scipy import stats

from mdpf.evaluation.calibration import Calibration, calibrate, coverage, credible_levels, summarise, transform
from mdpf.kernels import Epanechnikov, Gaussian, Product, VonMises
from mdpf.mixture import Mixture
from mdpf.testing import assert_mean


def single(kernel, batch=()):
    dim = kernel.state_dim
    return Mixture(torch.zeros(*batch, 1, dim, dtype=torch.float64), torch.zeros(*batch, 1, dtype=torch.float64), kernel)


def bimodal(batch=()):
    """Two clouds of a pose, one across the seam of the circle."""
    locs = torch.tensor([[-2.0, 0.0, 3.1], [-1.5, 0.5, -3.0], [3.0, 1.0, 0.2]], dtype=torch.float64)
    log_weights = torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64).log()
    kernel = Product((Gaussian(torch.tensor([0.7, 0.4], dtype=torch.float64)), VonMises(torch.tensor([8.0], dtype=torch.float64))))
    return Mixture(locs.expand(*batch, 3, 3), log_weights.expand(*batch, 3), kernel)


@pytest.mark.statistical
def test_level_of_a_gaussian_is_the_chi_square_distribution_of_the_distance(generator):
    scale = torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64)
    truth = torch.tensor([[0.0, 0.0, 0.0], [0.5, 2.0, 1.0], [1.0, 3.0, -1.0]], dtype=torch.float64)
    found = credible_levels(single(Gaussian(scale), (500, 3)), truth.expand(500, 3, 3), num_samples=100, generator=generator)
    exact = stats.chi2(3).cdf((truth / scale).square().sum(-1).numpy())
    assert_mean(found, torch.from_numpy(exact), max_se=0.003)


@pytest.mark.statistical
def test_level_of_separated_modes_is_the_mass_above_the_truth_by_quadrature(generator):
    locs = torch.tensor([[-3.0], [2.0]], dtype=torch.float64)
    belief = Mixture(locs, torch.tensor([0.3, 0.7], dtype=torch.float64).log(), Gaussian(torch.ones(1, dtype=torch.float64)))
    grid = torch.linspace(-12, 12, 200_001, dtype=torch.float64)
    density = belief.log_prob(grid[:, None]).exp()
    truth = torch.tensor([-3.0, 0.0, 2.5], dtype=torch.float64)
    heights = belief.log_prob(truth[:, None]).exp()
    exact = [float(torch.trapezoid(density.where(density > height, 0.0), grid)) for height in heights]
    repeated = Mixture(locs.expand(400, 3, 2, 1), belief.log_weights.expand(400, 3, 2), belief.kernel)
    found = credible_levels(repeated, truth[:, None].expand(400, 3, 1), num_samples=200, generator=generator)
    assert_mean(found, torch.tensor(exact, dtype=torch.float64), max_se=0.002)


def test_truth_that_no_kernel_covers_has_level_one(generator):
    belief = single(Epanechnikov(torch.ones(1, dtype=torch.float64)))
    assert credible_levels(belief, torch.tensor([1.5], dtype=torch.float64), generator=generator) == 1.0
    assert credible_levels(belief, torch.tensor([0.0], dtype=torch.float64), generator=generator) == 0.0


def test_transform_of_a_gaussian_is_the_normal_distribution_function():
    truth = torch.tensor([0.3, -4.0], dtype=torch.float64)
    found = transform(single(Gaussian(torch.tensor([0.5, 2.0], dtype=torch.float64))), truth)
    torch.testing.assert_close(found, torch.special.ndtr(truth / torch.tensor([0.5, 2.0])))


@pytest.mark.parametrize("turns", [-1, 0, 2])
def test_transform_of_an_angle_begins_opposite_to_the_mean_whatever_the_turn(turns):
    concentration = torch.tensor([3.0], dtype=torch.float64)
    belief = single(VonMises(concentration))._replace(locs=torch.full((1, 1), 3.0, dtype=torch.float64))
    truth = torch.tensor([3.5], dtype=torch.float64)
    exact = stats.vonmises(3.0).cdf(0.5)
    found = transform(belief, truth + 2 * math.pi * turns)
    torch.testing.assert_close(found, torch.tensor([exact], dtype=torch.float64), atol=1e-7, rtol=0)


@pytest.mark.statistical
def test_truths_drawn_from_the_belief_are_calibrated_and_those_of_another_are_not(generator):
    truth = bimodal().sample(4000, generator=generator)
    found = calibrate(bimodal((4000,)), truth, num_samples=100, generator=generator)
    grid = torch.tensor([0.1, 0.25, 0.5, 0.75, 0.9], dtype=torch.float64)
    values = torch.cat([found.levels[:, None], found.transforms], -1)
    below = (values.unsqueeze(-1) < grid).double()
    assert_mean(below[:, 1:], grid, max_se=0.01)
    # Levels are whole hundredths; one is at most g if a uniform number is below g and a half hundredth.
    assert_mean((found.levels[:, None] <= grid + 0.005).double(), grid + 0.005, max_se=0.01)
    numbers = summarise(found, ("x", "y", "theta"))
    assert max(numbers[name] for name in numbers if "error" in name) < 0.03

    # The same belief, twice as sure.
    sure = bimodal((4000,))
    kernel = Product(
        (Gaussian(torch.tensor([0.35, 0.2], dtype=torch.float64)), VonMises(torch.tensor([32.0], dtype=torch.float64)))
    )
    wrong = summarise(calibrate(sure._replace(kernel=kernel), truth, num_samples=100, generator=generator), ("x", "y", "theta"))
    assert wrong["coverage_0.9"] < 0.7
    assert wrong["coverage_error"] > 0.1


def test_coverage_counts_and_summary_names():
    levels = torch.tensor([[0.1, 0.5], [0.9, 1.0]])
    assert coverage(levels, torch.tensor([0.05, 0.5, 0.95, 1.0])).tolist() == [0.0, 0.5, 0.75, 1.0]
    found = summarise(Calibration(levels, torch.zeros(2, 2, 1)), ("x",))
    assert found["coverage_0.5"] == 0.5
    # All transforms at zero: the distribution function is one everywhere, half away from the uniform one on average.
    assert found["pit_error_x"] == pytest.approx(0.5)


def test_kernel_without_a_cdf_is_refused():
    class NoCdf:
        state_dim, space = 1, Gaussian(torch.ones(1)).space

    with pytest.raises(TypeError, match="credible_levels, which needs none"):
        transform(Mixture(torch.zeros(1, 1), torch.zeros(1), NoCdf()), torch.zeros(1))
