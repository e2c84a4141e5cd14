"""Gaussian, Epanechnikov and biweight: closed forms, and care at the edge of the support."""

import math

import pytest
import torch
from scipy import integrate, stats

from mdpf import noise
from mdpf.kernels import Biweight, Epanechnikov, Gaussian
from mdpf.testing import assert_mean

COMPACT = {"epanechnikov": (Epanechnikov, 2), "biweight": (Biweight, 3)}
each_compact = pytest.mark.parametrize("family", [Epanechnikov, Biweight], ids=["epanechnikov", "biweight"])


def oracle(family, width):
    """The law of scipy: (1 + u) / 2 of a compact kernel has a symmetric beta law."""
    if family is Gaussian:
        return stats.norm(scale=width)
    shape = {Epanechnikov: 2, Biweight: 3}[family]
    return stats.beta(shape, shape, loc=-width, scale=2 * width)


each_linear = pytest.mark.parametrize("family", [Gaussian, Epanechnikov, Biweight], ids=["gaussian", "epanechnikov", "biweight"])


@each_linear
@pytest.mark.parametrize("width", [1e-3, 0.5, 1e3])
def test_density_distribution_and_variance_match_scipy(family, width):
    law, kernel = oracle(family, width), family(torch.tensor([width], dtype=torch.float64))
    x = width * torch.linspace(-1.3, 1.3, 201, dtype=torch.float64)[:, None]
    zero = torch.zeros(1, dtype=torch.float64)
    assert torch.allclose(kernel.log_prob(x, zero), torch.from_numpy(law.logpdf(x[:, 0].numpy())), rtol=1e-12, atol=1e-12)
    assert torch.allclose(kernel.cdf(x, zero)[:, 0], torch.from_numpy(law.cdf(x[:, 0].numpy())), rtol=1e-12, atol=1e-14)
    assert kernel.variance().item() == pytest.approx(law.var(), rel=1e-12)


@each_linear
def test_density_integrates_to_one(family):
    kernel, zero = family(torch.tensor([0.7], dtype=torch.float64)), torch.zeros(1, dtype=torch.float64)
    reach = 0.7 * (1 if family is not Gaussian else 10)

    def density(x):
        return kernel.log_prob(torch.tensor([x], dtype=torch.float64), zero).exp().item()

    mass, _ = integrate.quad(density, -reach, reach, epsabs=1e-13, limit=200)
    assert mass == pytest.approx(1, abs=1e-12)


def test_lower_tail_of_every_distribution_keeps_its_relative_accuracy():
    for family, depth in ((Gaussian, 30.0), (Epanechnikov, 1 - 1e-6), (Biweight, 1 - 1e-6)):
        x = torch.tensor([[-depth]], dtype=torch.float64)
        ours = family(torch.ones(1, dtype=torch.float64)).cdf(x, torch.zeros(1, dtype=torch.float64)).item()
        assert ours == pytest.approx(oracle(family, 1.0).cdf(-depth), rel=1e-9)


@each_compact
def test_outside_the_support_the_log_density_is_minus_infinity_and_gradients_are_zero(family, dtype):
    x = torch.tensor([-1e30, -3.0, -2.0, 2.0, 3.0, math.inf], dtype=dtype)[:, None].requires_grad_()
    loc, halfwidth = torch.zeros(1, dtype=dtype, requires_grad=True), torch.tensor([2.0], dtype=dtype, requires_grad=True)
    log_prob = family(halfwidth).log_prob(x, loc)
    assert log_prob.isneginf().all()
    for gradient in torch.autograd.grad(log_prob.sum(), (x, loc, halfwidth)):
        assert torch.equal(gradient, torch.zeros_like(gradient))


@each_compact
def test_no_gradient_is_nan_where_some_components_cover_a_point_and_others_do_not(family, dtype):
    locs = torch.tensor([0.0, 0.5, 5.0], dtype=dtype)[:, None].requires_grad_()
    halfwidth = torch.tensor([1.0], dtype=dtype, requires_grad=True)
    x = torch.tensor([0.2, 1.0, 1.5, -1.0], dtype=dtype)[:, None, None]
    covered = family(halfwidth).log_prob(x, locs).logsumexp(-1)
    assert covered.isfinite().tolist() == [True, True, False, False]
    for gradient in torch.autograd.grad(covered[:2].sum(), (locs, halfwidth)):
        assert gradient.isfinite().all()


@each_compact
def test_just_inside_the_edge_density_and_gradient_are_finite(family, dtype):
    edge = torch.nextafter(torch.ones(1, dtype=dtype), torch.zeros(1, dtype=dtype)).requires_grad_()
    log_prob = family(torch.ones(1, dtype=dtype)).log_prob(edge, torch.zeros(1, dtype=dtype))
    (gradient,) = torch.autograd.grad(log_prob, edge)
    assert log_prob.isfinite()
    assert gradient.isfinite()
    assert gradient < 0


@each_compact
def test_distribution_function_is_flat_outside_the_support(family, dtype):
    x = torch.tensor([-9.0, -2.0, 2.0, 9.0], dtype=dtype)[:, None].requires_grad_()
    halfwidth = torch.tensor([2.0], dtype=dtype, requires_grad=True)
    levels = family(halfwidth).cdf(x, torch.zeros(1, dtype=dtype))
    assert levels[:, 0].tolist() == [0, 0, 1, 1]
    for gradient in torch.autograd.grad(levels.sum(), (x, halfwidth)):
        assert torch.equal(gradient, torch.zeros_like(gradient))


@each_compact
@pytest.mark.parametrize("loc", [0.0, 1.0, -1e3, 1e6, 1e9])
def test_draws_lie_inside_the_support_even_after_rounding(family, loc, generator):
    locs = torch.full((200_000, 1), loc)
    kernel = family(torch.tensor([0.5]))
    assert kernel.log_prob(kernel.sample(locs, generator=generator), locs).isfinite().all()


def test_extreme_uniform_numbers_give_draws_inside_the_support(dtype):
    last = 1 - torch.finfo(dtype).eps / 2
    levels = torch.tensor([0.0, last], dtype=dtype)[:, None]
    ends = Epanechnikov(torch.ones(1, dtype=dtype))
    draw = ends.sample(torch.zeros(2, 1, dtype=dtype), generator=noise.Noise((levels,)))
    assert ends.log_prob(draw, torch.zeros(1, dtype=dtype)).isfinite().all()
    pairs = torch.cartesian_prod(*[torch.tensor([0.0, 0.5, last], dtype=dtype)] * 2)
    soft = Biweight(torch.ones(1, dtype=dtype))
    draw = soft.sample(torch.zeros(9, 1, dtype=dtype), generator=noise.Noise((pairs[:, None],)))
    assert soft.log_prob(draw, torch.zeros(1, dtype=dtype)).isfinite().all()


def test_epanechnikov_draw_inverts_its_distribution_function(generator):
    kernel, loc = Epanechnikov(torch.tensor([0.5], dtype=torch.float64)), torch.zeros(1000, 1, dtype=torch.float64)
    recorder = noise.Recorder(generator)
    draw = kernel.sample(loc, generator=recorder)
    assert torch.allclose(kernel.cdf(draw, loc), recorder.noise.draws[0], rtol=0, atol=1e-14)


@each_linear
def test_a_draw_moves_with_its_location_and_in_proportion_to_the_width(family, generator):
    loc = torch.zeros(100, 1, dtype=torch.float64)
    width = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
    recorder = noise.Recorder(generator)
    draw = family(width).sample(loc, generator=recorder)
    (gradient,) = torch.autograd.grad(draw.square().sum(), width)
    assert gradient.item() == pytest.approx((2 * draw * draw / width).sum().item(), rel=1e-12)
    twice = family(2 * width).sample(loc + 1, generator=recorder.noise)
    assert torch.allclose(twice, 1 + 2 * draw, rtol=1e-12)


@pytest.mark.statistical
@each_linear
def test_pathwise_gradient_to_the_width_is_unbiased(family, generator):
    width = torch.full((100_000, 1), 0.8, dtype=torch.float64, requires_grad=True)
    draw = family(width).sample(torch.full((100_000, 1), 0.3, dtype=torch.float64), generator=generator)
    (gradient,) = torch.autograd.grad((draw**4).sum(), width)
    fourth = {Gaussian: 3.0, Epanechnikov: 3 / 35, Biweight: 1 / 21}[family]
    second = oracle(family, 1.0).var()
    expected = 4 * fourth * 0.8**3 + 6 * 0.3**2 * 2 * second * 0.8
    assert_mean(gradient[:, 0], expected, max_se=0.02 * expected)


def test_score_near_the_edge_has_infinite_variance_for_epanechnikov_and_finite_for_biweight():
    """The mean square score up to a distance from the edge grows by 1.5 log 10 with every decade of the distance, or not at all."""
    distance = torch.logspace(0, -12, 12_001, dtype=torch.float64)
    for family, growth in ((Epanechnikov, 1.5 * math.log(10)), (Biweight, 0.0)):
        x = (1 - distance)[:, None].requires_grad_()
        log_prob = family(torch.ones(1, dtype=torch.float64)).log_prob(x, torch.zeros(1, dtype=torch.float64))
        (score,) = torch.autograd.grad(log_prob.sum(), x)
        integrand = score[:, 0].square() * log_prob.detach().exp() * distance
        decades = integrand[1:].unflatten(0, (12, 1000)).sum(-1) * math.log(10) / 1000
        assert decades[8:].tolist() == pytest.approx([growth] * 4, rel=0.01, abs=1e-6)
