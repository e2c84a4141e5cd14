"""The von Mises kernel against arithmetic of thirty digits, from nearly uniform to a thousandth of a radian wide."""

import functools
import math

import mpmath as mp
import pytest
import torch
from numpy.polynomial.legendre import leggauss

from mdpf import noise
from mdpf.kernels import VonMises, von_mises_cdf
from mdpf.kernels.bessel import log_i0e, mean_versine
from mdpf.kernels.von_mises import ROUNDS, _propose
from mdpf.testing import assert_mean

CONCENTRATIONS = [1e-6, 1e-3, 0.5, 5.0, 19.0, 21.0, 50.0, 1e3, 1e6]
DEVIATIONS = [1e-3, 0.5, 0.95, 1.05, 2.0, 4.0, 5.5]
RELATIVE = {torch.float64: 2e-12, torch.float32: 2e-5}
each_concentration = pytest.mark.parametrize("concentration", CONCENTRATIONS)
mp.mp.dps = 30


def rounded(value, dtype):
    """The value as the precision under test has it: rounding of inputs is no error of ours."""
    return torch.tensor(value, dtype=dtype).item()


def deviations(concentration, dtype):
    """Deviations in standard deviations, but on the circle; the last one before pi is three."""
    return sorted({rounded(min(3.0, unit / math.sqrt(concentration)), dtype) for unit in DEVIATIONS})


@functools.cache
def bessel(concentration):
    """log I0(k) - k and 1 - I1(k) / I0(k)."""
    k = mp.mpf(concentration)
    zero = mp.besseli(0, k)
    return mp.log(zero) - k, 1 - mp.besseli(1, k) / zero


def log_density(delta, concentration):
    return -2 * mp.mpf(concentration) * mp.sin(mp.mpf(delta) / 2) ** 2 - bessel(concentration)[0] - mp.log(2 * mp.pi)


def integral(function, lower, concentration, upper=mp.pi):
    width = 1 / mp.sqrt(concentration)
    stops = [lower + width * step for step in (1, 2, 4, 8, 16) if lower + width * step < upper]
    return mp.quad(function, [lower, *stops, upper])


@functools.cache
def beyond(delta, concentration):
    """The mass between a positive deviation and pi, and its derivative to the concentration."""
    mean = bessel(concentration)[1]
    mass = integral(lambda t: mp.exp(log_density(t, concentration)), mp.mpf(delta), concentration)
    slope = integral(
        lambda t: (mean - 2 * mp.sin(t / 2) ** 2) * mp.exp(log_density(t, concentration)), mp.mpf(delta), concentration
    )
    return mass, slope


def column(values, dtype, requires_grad=False):
    return torch.tensor(values, dtype=dtype)[:, None].requires_grad_(requires_grad)


@each_concentration
def test_log_bessel_and_its_derivatives_match_mpmath(concentration, dtype):
    k = torch.tensor(concentration, dtype=dtype, requires_grad=True)
    value, mean = bessel(k.item())
    assert log_i0e(k).item() == pytest.approx(float(value), rel=1e-14 if dtype == torch.float64 else 1e-6, abs=5e-7)
    (slope,) = torch.autograd.grad(log_i0e(k), k, create_graph=True)
    accuracy = 2e-14 if dtype == torch.float64 else 2e-6
    assert slope.item() == pytest.approx(-float(mean), rel=accuracy)
    assert mean_versine(k).item() == pytest.approx(float(mean), rel=accuracy)
    (curvature,) = torch.autograd.grad(slope, k)
    ratio = 1 - mean
    exact = 1 - ratio / k.item() - ratio**2
    assert curvature.item() == pytest.approx(float(exact), rel=1e-12 if dtype == torch.float64 else 1e-5)


@each_concentration
def test_log_density_matches_mpmath(concentration, dtype):
    x = deviations(concentration, dtype)
    k = rounded(concentration, dtype)
    ours = VonMises(torch.tensor([k], dtype=dtype)).log_prob(column(x, dtype), torch.zeros(1, dtype=dtype))
    exact = torch.tensor([float(log_density(delta, k)) for delta in x], dtype=torch.float64)
    accuracy = 1e-13 if dtype == torch.float64 else 1e-6
    assert torch.allclose(ours.double(), exact, rtol=accuracy, atol=accuracy)


@each_concentration
def test_gradient_to_the_concentration_matches_mpmath(concentration, dtype):
    x = deviations(concentration, dtype)
    k = torch.full((len(x), 1), concentration, dtype=dtype, requires_grad=True)
    (ours,) = torch.autograd.grad(VonMises(k).log_prob(column(x, dtype), torch.zeros(1, dtype=dtype)).sum(), k)
    mean = bessel(rounded(concentration, dtype))[1]
    versines = [2 * mp.sin(mp.mpf(delta) / 2) ** 2 for delta in x]
    exact = torch.tensor([float(mean - versine) for versine in versines], dtype=torch.float64)
    # Relative to the two terms of the difference: where they cancel, no float can do better.
    size = torch.tensor([float(mean + versine) for versine in versines], dtype=torch.float64)
    assert ((ours[:, 0].double() - exact).abs() <= (1e-14 if dtype == torch.float64 else 2e-6) * size).all()


@each_concentration
def test_gradient_at_the_location_is_accurate_relative_to_itself(concentration, dtype):
    k = torch.tensor([concentration], dtype=dtype, requires_grad=True)
    zero = torch.zeros(1, dtype=dtype)
    (ours,) = torch.autograd.grad(VonMises(k).log_prob(zero, zero), k)
    assert ours.item() == pytest.approx(float(bessel(k.item())[1]), rel=1e-13 if dtype == torch.float64 else 2e-6)


@each_concentration
def test_distribution_function_matches_mpmath(concentration, dtype):
    x, k = deviations(concentration, dtype), rounded(concentration, dtype)
    kernel, zero = VonMises(torch.tensor([k], dtype=dtype)), torch.zeros(1, dtype=dtype)
    exact = torch.tensor([float(beyond(delta, k)[0]) for delta in x], dtype=torch.float64)
    accuracy = 1e-13 if dtype == torch.float64 else 1e-6
    assert torch.allclose(kernel.cdf(column(x, dtype), zero)[:, 0].double(), 1 - exact, rtol=0, atol=accuracy)
    lower_tail = kernel.cdf(-column(x, dtype), zero)[:, 0].double()
    assert torch.allclose(lower_tail, exact, rtol=RELATIVE[dtype], atol=0)


@each_concentration
def test_derivatives_of_the_distribution_function_match_mpmath(concentration, dtype):
    values = deviations(concentration, dtype)
    k = rounded(concentration, dtype)
    for sign in (1, -1):
        x = column([sign * delta for delta in values], dtype, requires_grad=True)
        ks = torch.full_like(x, k).requires_grad_()
        to_x, to_k = torch.autograd.grad(VonMises(ks).cdf(x, torch.zeros(1, dtype=dtype)).sum(), (x, ks))
        density = torch.tensor([float(mp.exp(log_density(delta, k))) for delta in values], dtype=torch.float64)
        slope = torch.tensor([float(-sign * beyond(delta, k)[1]) for delta in values], dtype=torch.float64)
        assert torch.allclose(to_x[:, 0].double(), density, rtol=RELATIVE[dtype], atol=0)
        assert torch.allclose(to_k[:, 0].double(), slope, rtol=RELATIVE[dtype], atol=0)


@each_concentration
def test_variance_matches_mpmath(concentration, dtype):
    k = rounded(concentration, dtype)
    exact = 2 * integral(lambda t: t**2 * mp.exp(log_density(t, k)), mp.mpf(0), k)
    ours = VonMises(torch.tensor([k], dtype=dtype)).variance().item()
    assert ours == pytest.approx(float(exact), rel=1e-13 if dtype == torch.float64 else 2e-6)


@each_concentration
def test_density_integrates_to_one(concentration):
    """Equally spaced points integrate smooth periodic functions to rounding, if a standard deviation holds a few of them."""
    points = (torch.arange(20_000, dtype=torch.float64) / 20_000 - 0.5) * 2 * math.pi
    kernel = VonMises(torch.tensor([concentration], dtype=torch.float64))
    mass = kernel.log_prob(points[:, None], torch.zeros(1, dtype=torch.float64)).exp().mean() * 2 * math.pi
    assert mass.item() == pytest.approx(1, abs=1e-12)


def test_everything_repeats_after_a_full_turn():
    kernel = VonMises(torch.tensor([0.5, 30.0], dtype=torch.float64))
    x = torch.linspace(-3, 3, 13, dtype=torch.float64)[:, None].expand(-1, 2)
    loc = torch.tensor([0.3, -0.2], dtype=torch.float64)
    for turns in (-3, -1, 1, 2):
        moved = x + 2 * math.pi * turns
        assert torch.allclose(kernel.log_prob(moved, loc), kernel.log_prob(x, loc), rtol=0, atol=1e-12)
        assert torch.allclose(kernel.cdf(moved, loc), kernel.cdf(x, loc) + turns, rtol=0, atol=1e-13)
        assert torch.allclose(kernel.cdf(x, loc + 2 * math.pi * turns), kernel.cdf(x, loc) - turns, rtol=0, atol=1e-13)


def test_distribution_function_is_continuous_and_increasing_across_the_seam():
    kernel = VonMises(torch.tensor([2.0], dtype=torch.float64))
    x = torch.linspace(-3 * math.pi, 3 * math.pi, 3001, dtype=torch.float64)[:, None]
    levels = kernel.cdf(x, torch.zeros(1, dtype=torch.float64))[:, 0]
    steps = levels.diff()
    assert (steps > 0).all()
    assert steps.max() < 0.01
    assert levels[0].item() == pytest.approx(-1, abs=1e-13)
    assert levels[-1].item() == pytest.approx(2, abs=1e-13)


def test_distribution_function_can_be_differentiated_twice():
    x = torch.tensor([[-2.5, 0.3], [0.9, 0.01]], dtype=torch.float64, requires_grad=True)
    loc = torch.tensor([0.1, -0.1], dtype=torch.float64, requires_grad=True)
    k = torch.tensor([0.7, 40.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *inputs: VonMises(inputs[2]).cdf(*inputs[:2]), (x, loc, k))
    assert torch.autograd.gradgradcheck(lambda *inputs: VonMises(inputs[2]).cdf(*inputs[:2]), (x, loc, k))
    assert torch.autograd.gradgradcheck(lambda *inputs: VonMises(inputs[2]).log_prob(*inputs[:2]), (x, loc, k))


@pytest.mark.parametrize("concentration", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_single_precision_is_finite_at_every_legal_concentration(concentration, generator):
    k = torch.full((500, 1), concentration, requires_grad=True)
    loc = (7 * torch.randn(500, 1, generator=generator)).requires_grad_()
    kernel = VonMises(k)
    x = kernel.sample(loc, generator=generator)
    total = kernel.log_prob(x.detach(), loc).sum() + kernel.cdf(x.detach(), loc).sum() + x.sum() + kernel.variance().sum()
    gradients = torch.autograd.grad(total, (loc, k))
    assert total.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients)
    far = kernel.log_prob(loc + math.pi, loc)
    assert far.isfinite().all()


def quantile(level, concentration):
    """Invert the distribution function by halving."""
    lower, upper = torch.full_like(level, -math.pi), torch.full_like(level, math.pi)
    for _ in range(60):
        middle = (lower + upper) / 2
        below = von_mises_cdf.cdf(middle, concentration) < level
        lower, upper = torch.where(below, middle, lower), torch.where(below, upper, middle)
    return (lower + upper) / 2


@pytest.mark.parametrize("concentration", [1e-3, 0.5, 5.0, 50.0, 1e4])
def test_pathwise_derivative_of_a_draw_is_that_of_its_quantile(concentration, generator):
    k = torch.full((40, 1), concentration, dtype=torch.float64, requires_grad=True)
    zero = torch.zeros_like(k)
    draw = VonMises(k).sample(zero, generator=generator)
    (ours,) = torch.autograd.grad(draw.sum(), k)
    level, step = von_mises_cdf.cdf(draw, k).detach(), 1e-4 * concentration
    with torch.no_grad():
        numeric = (quantile(level, k + step) - quantile(level, k - step)) / (2 * step)
    assert torch.allclose(ours, numeric, rtol=1e-5, atol=1e-7 * (1 + 1 / concentration) * draw.std().item())


def test_derivative_of_a_draw_can_be_differentiated_again(generator):
    k = torch.tensor([4.0], dtype=torch.float64, requires_grad=True)
    recorder = noise.Recorder(generator)
    draw = VonMises(k).sample(torch.zeros(1, dtype=torch.float64), generator=recorder)
    (first,) = torch.autograd.grad(draw, k, create_graph=True)
    (second,) = torch.autograd.grad(first, k)
    level, step = von_mises_cdf.cdf(draw, k).detach(), 1e-3
    with torch.no_grad():
        low, middle, high = (quantile(level, k + move) for move in (-step, 0, step))
    assert second.item() == pytest.approx(((high - 2 * middle + low) / step**2).item(), rel=1e-4)


@pytest.mark.statistical
@pytest.mark.parametrize("concentration", [0.3, 3.0, 300.0])
def test_pathwise_gradient_to_the_concentration_is_unbiased(concentration, generator):
    """E[1 - cos] has the derivative -A'(k), and E[sin(d + 0.4)] the derivative sin(0.4) A'(k)."""
    k = torch.full((50_000, 1), concentration, dtype=torch.float64, requires_grad=True)
    loc = torch.full_like(k, 0.4)
    draw = VonMises(k).sample(loc, generator=generator)
    ratio = 1 - bessel(concentration)[1]
    slope = float(1 - ratio / concentration - ratio**2)
    versine = torch.autograd.grad((2 * ((draw - loc) / 2).sin().square()).sum(), k, retain_graph=True)[0][:, 0]
    sine = torch.autograd.grad(draw.sin().sum(), k)[0][:, 0]
    assert_mean(versine, -slope, max_se=0.02 * slope)
    # The part of the sine that is odd in the deviation averages to nothing but adds to the spread.
    assert_mean(sine, math.sin(0.4) * slope, max_se=0.1 * slope + 1e-4 / concentration)


@pytest.mark.statistical
@each_concentration
def test_levels_of_draws_are_uniform(concentration, dtype, generator):
    """Kolmogorov and Smirnov's statistic with Massart's bound, which holds for every number of draws."""
    num_draws = 20_000
    kernel, loc = VonMises(torch.tensor([concentration], dtype=dtype)), torch.zeros(num_draws, 1, dtype=dtype)
    levels = kernel.cdf(kernel.sample(loc, generator=generator), loc)[:, 0].double().sort().values
    steps = torch.arange(num_draws + 1, dtype=torch.float64) / num_draws
    distance = torch.maximum((levels - steps[:-1]).abs().max(), (levels - steps[1:]).abs().max()).item()
    assert distance <= math.sqrt(math.log(2 / 1e-7) / (2 * num_draws))


@pytest.mark.statistical
@each_concentration
def test_moments_of_draws_match_the_bessel_ratio(concentration, generator):
    kernel, loc = VonMises(torch.tensor([concentration], dtype=torch.float64)), torch.full((50_000, 1), 2.0, dtype=torch.float64)
    deviation = kernel.sample(loc, generator=generator) - loc
    mean = float(bessel(concentration)[1])
    assert_mean(2 * (deviation / 2).sin().square(), mean, max_se=0.01 * mean)
    assert_mean(deviation.sin(), 0.0, max_se=0.01 * math.sqrt(mean))


@pytest.mark.parametrize("concentration", [*CONCENTRATIONS, 1.38, 3.4, 1e9])
def test_an_accepted_proposal_has_exactly_the_law_of_the_kernel(concentration):
    """By quadrature over the uniform number: the first two moments of 1 - cos, and the share of rounds that accept."""
    places, weights = (torch.from_numpy(each) for each in leggauss(1000))
    deviation, acceptance = _propose(places / 2, torch.tensor(concentration, dtype=torch.float64))
    assert (acceptance <= 1 + 1e-12).all()
    share = weights * acceptance / 2
    assert (1 - share.sum().item()) ** ROUNDS < 1.9e-7
    mean = bessel(concentration)[1]
    ratio = 1 - mean
    second = mean**2 + 1 - ratio / concentration - ratio**2
    for power, moment in ((1, mean), (2, second)):
        found = (2 * (deviation / 2).sin() ** 2) ** power * share / share.sum()
        assert found.sum().item() == pytest.approx(float(moment), rel=1e-9)


@pytest.mark.parametrize("concentration", CONCENTRATIONS)
def test_proposals_are_finite_angles_in_single_precision(concentration):
    """From every tenth number that a generator of single precision can give near an end, zero among them."""
    place = torch.cat([torch.arange(0, 1000, 10), 2**24 - 1 - torch.arange(0, 1000, 10)]) / 2**24
    draws = noise.Noise((torch.stack([place, torch.full_like(place, 0.5)], -1)[:, None, :, None].expand(-1, -1, -1, ROUNDS),))
    deviation = VonMises(torch.tensor([concentration])).sample(torch.zeros(len(place), 1), generator=draws)
    assert (deviation.abs() <= math.pi).all()


def test_no_accepted_proposal_still_gives_an_angle():
    """Levels just below one reject every proposal but the best; the first one then stands."""
    place = torch.full((1, 1, ROUNDS), 0.9, dtype=torch.float64)
    level = torch.full((1, 1, ROUNDS), 1 - 1e-16, dtype=torch.float64)
    draws = noise.Noise((torch.stack([place, level], -2),))
    draw = VonMises(torch.tensor([1e4], dtype=torch.float64)).sample(torch.zeros(1, 1, dtype=torch.float64), generator=draws)
    assert 0 < draw.item() < 0.1


def test_vmap_and_functional_gradients_agree_with_batching(generator):
    k = 1 + torch.rand(3, 2, dtype=torch.float64, generator=generator)
    x, loc = torch.randn(2, 3, 5, 2, dtype=torch.float64, generator=generator)
    apart = torch.vmap(lambda k, x, loc: VonMises(k).cdf(x, loc))(k, x, loc)
    assert torch.allclose(apart, VonMises(k).cdf(x, loc), rtol=1e-12)
    functional = torch.func.grad(lambda k: VonMises(k).cdf(x, loc).square().sum())(k)
    leaf = k.clone().requires_grad_()
    (plain,) = torch.autograd.grad(VonMises(leaf).cdf(x, loc).square().sum(), leaf)
    assert torch.allclose(functional, plain, rtol=1e-12)
