"""Diffusion resampling: moments, modes and derivative, against the weighted particles it stands for."""

import math

import pytest
import torch
from torch.testing import assert_close

from mdpf.kernels import Gaussian, Product, VonMises
from mdpf.mixture import Mixture
from mdpf.noise import Recorder
from mdpf.resamplers import Diffusion
from mdpf.testing.assertions import assert_gradient, assert_mean
from mdpf.testing.resamplers import check_resampler

VARIANTS = [Diffusion(), Diffusion(stochastic=False), Diffusion(smoothing=0.0), Diffusion(smoothing=0.0, stochastic=False)]
variants = pytest.mark.parametrize("resampler", VARIANTS, ids=str)


def line_mixture(locs, log_weights):
    return Mixture(locs, log_weights, Gaussian(torch.ones(locs.shape[-1], dtype=locs.dtype)))


def pose_mixture(locs, log_weights):
    """A mixture over a line and a circle; the kernel plays no part in diffusion."""
    one = torch.ones(1, dtype=locs.dtype)
    return Mixture(locs, log_weights, Product((Gaussian(one), VonMises(one))))


@pytest.fixture
def bimodal():
    """Fifty particles in two modes 13 widths apart, the left one heavier."""
    generator = torch.Generator().manual_seed(7)
    locs = 0.3 * torch.randn(50, 1, generator=generator, dtype=torch.float64)
    left = torch.arange(50) % 2 == 0
    locs = locs + torch.where(left, -2.0, 2.0).unsqueeze(-1)
    logits = torch.randn(50, generator=generator, dtype=torch.float64) + left
    return line_mixture(locs, logits.log_softmax(-1))


def repeat(mixture, num_replicates):
    return mixture._replace(
        locs=mixture.locs.expand(num_replicates, -1, -1), log_weights=mixture.log_weights.expand(num_replicates, -1)
    )


def quantiles(values, weights, levels):
    ordered, order = values.sort(-1)
    place = torch.searchsorted(weights[order].cumsum(-1), levels).clamp_max(len(values) - 1)
    return ordered[place]


@pytest.mark.statistical
@variants
def test_mean_variance_and_mass_of_modes_are_kept(bimodal, resampler, generator):
    points = resampler(repeat(bimodal, 1000), 50, generator=generator).points[..., 0]
    locs, weights = bimodal.locs[:, 0], bimodal.log_weights.exp()
    mean = (weights * locs).sum()
    variance = (weights * (locs - mean).square()).sum()
    # Three percent allow for the bias of sixteen steps, which is one.
    assert_mean(points.mean(-1) / variance.sqrt(), mean / variance.sqrt(), max_se=0.01, sigmas=5 + 0.03 / 0.01)
    assert abs(float((points - mean).square().mean() / variance) - 1) < 0.03
    assert abs(float((points < 0).double().mean() - weights[locs < 0].sum())) < 0.02


@pytest.mark.statistical
@pytest.mark.parametrize("stochastic", [True, False])
def test_wasserstein_distance_falls_to_nothing_with_the_steps(bimodal, stochastic, generator):
    locs, weights = bimodal.locs[:, 0], bimodal.log_weights.exp()
    levels = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000
    truth = quantiles(locs, weights, levels)
    distances = []
    for num_steps in (2, 8, 32):
        draw = Diffusion(num_steps, smoothing=0.0, stochastic=stochastic)(bimodal, 20_000, generator=generator)
        distances.append(float((draw.points[:, 0].sort().values - truth).abs().mean()))
    assert distances[2] < distances[0]
    # Mass p on one side is estimated within 5 sqrt(p (1 - p) / n) <= 0.018 and travels four; a tenth of a width comes on top.
    assert distances[2] < 4 * 0.018 + 0.03


@pytest.mark.statistical
@pytest.mark.parametrize("smoothing", [0.2, 0.5])
def test_smoothed_points_follow_the_shrunk_and_blurred_particles(bimodal, smoothing, generator):
    locs, weights = bimodal.locs[:, 0], bimodal.log_weights.exp()
    mean = (weights * locs).sum()
    deviation = (weights * (locs - mean).square()).sum().sqrt()
    centres = mean + math.sqrt(1 - smoothing**2) * (locs - mean)
    points = Diffusion(32, smoothing=smoothing)(repeat(bimodal, 40), 500, generator=generator).points
    for place in (-3.0, -2.0, -1.0, 0.0, 1.0, 2.0):
        truth = (weights * torch.special.ndtr((place - centres) / (smoothing * deviation))).sum()
        assert_mean((points < place).double().mean((-2, -1)), truth, max_se=0.006, sigmas=7)


@pytest.mark.statistical
@pytest.mark.parametrize("num_steps", [1, 2, 16])
def test_gaussian_cloud_is_kept_by_any_number_of_steps(num_steps, generator):
    correlated = torch.tensor([[1.0, 0.0], [0.9, 0.2]], dtype=torch.float64)
    locs = torch.randn(300, 2, generator=generator, dtype=torch.float64) @ correlated.mT * 10 + 100
    weights = torch.full((300,), 1 / 300, dtype=torch.float64)
    for stochastic in (True, False):
        resampler = Diffusion(num_steps, smoothing=0.3, stochastic=stochastic)
        points = resampler(line_mixture(locs, weights.log()), 5000, generator=generator).points
        assert_close(points.mean(0), locs.mean(0), rtol=0, atol=0.7)
        # Five standard errors of a variance from 5000 points are ten percent of it.
        assert_close(points.mT.cov(), locs.mT.cov(), rtol=0.1, atol=2.0)


@pytest.mark.statistical
def test_weights_count_over_all_pairs(generator):
    """Two heavy particles among many light ones: pairing each point with one particle would miss them."""
    locs = torch.linspace(-1, 1, 100, dtype=torch.float64).unsqueeze(-1)
    log_weights = torch.full((100,), -20.0, dtype=torch.float64)
    log_weights[[10, 80]] = torch.tensor([0.7, 0.3], dtype=torch.float64).log()
    points = Diffusion(smoothing=0.0)(line_mixture(locs, log_weights.log_softmax(-1)), 5000, generator=generator).points
    near = torch.stack([(points - locs[index]).abs() < 0.05 for index in (10, 80)]).double().mean((1, 2))
    assert_close(near, torch.tensor([0.7, 0.3], dtype=torch.float64), rtol=0, atol=0.04)


@pytest.mark.statistical
def test_angles_diffuse_across_the_seam(generator):
    locs = torch.stack([torch.zeros(40), torch.linspace(-0.4, 0.4, 40) + math.pi], -1).double()
    mixture = pose_mixture(locs, torch.zeros(40, dtype=torch.float64).log_softmax(-1))
    mixture = mixture._replace(locs=mixture.space.wrap(locs))
    points = Diffusion()(mixture, 2000, generator=generator).points
    around = mixture.space.difference(points, torch.tensor([0.0, math.pi], dtype=torch.float64).expand_as(points))
    assert float(around[:, 1].abs().max()) < 1.5
    assert_close(around[:, 1].std(), locs[:, 1].std(), rtol=0.1, atol=0)
    assert bool((points[:, 1].abs() <= math.pi).all())


@variants
@pytest.mark.parametrize("num_particles", [12, 7])
def test_gradient_equals_finite_differences(resampler, num_particles, generator):
    poses = torch.randn(2, 12, 2, generator=generator, dtype=torch.float64)
    logits = torch.randn(2, 12, generator=generator, dtype=torch.float64)
    recorder = Recorder(generator)
    resampler(pose_mixture(poses, logits), num_particles, generator=recorder)

    def loss(locs, log_weights):
        points = resampler(pose_mixture(locs, log_weights), num_particles, generator=recorder.noise).points
        return (points.sin() * torch.linspace(-1, 2, points.numel(), dtype=points.dtype).view_as(points)).sum()

    leaves = [value.clone().requires_grad_() for value in (poses, logits)]
    gradient = torch.autograd.grad(loss(*leaves), leaves)
    for _ in range(5):
        direction = [torch.randn(value.shape, generator=generator, dtype=value.dtype) for value in leaves]
        ahead, behind = (
            loss(*(value + step * way for value, way in zip((poses, logits), direction, strict=True))) for step in (1e-6, -1e-6)
        )
        slope = sum((value * way).sum() for value, way in zip(gradient, direction, strict=True))
        assert_close(slope, (ahead - behind) / 2e-6, rtol=1e-4, atol=1e-5)


@pytest.mark.statistical
@pytest.mark.parametrize("stochastic", [True, False])
def test_gradient_of_the_mean_is_right_where_points_are_smoothed(stochastic, generator):
    locs = torch.linspace(-2, 2, 8, dtype=torch.float64).unsqueeze(-1)
    weights = torch.linspace(0.5, 2, 8, dtype=torch.float64)
    weights = weights / weights.sum()
    resampler = Diffusion(32, smoothing=0.5, stochastic=stochastic)

    def mean(logits, shift):
        mixture = line_mixture(locs + shift.unsqueeze(-1), logits.log_softmax(-1))
        return resampler(mixture, 8, generator=generator).points.mean((-2, -1))

    centred = weights * (locs[:, 0] - (weights * locs[:, 0]).sum())
    assert_gradient(
        mean,
        {"logits": weights.log(), "shift": torch.zeros(8, dtype=torch.float64)},
        {"logits": centred, "shift": weights},
        num_replicates=4000,
        max_se=0.01,
    )


def test_one_place_stays_where_it_is(dtype, generator):
    locs = torch.full((5, 2), 0.7, dtype=dtype)
    points = Diffusion()(pose_mixture(locs, torch.zeros(5, dtype=dtype).log_softmax(-1)), 9, generator=generator).points
    assert_close(points, torch.full_like(points, 0.7), rtol=0, atol=1e-4)


def test_single_precision_agrees_with_double(generator):
    locs = torch.randn(2, 12, 2, generator=generator, dtype=torch.float64)
    logits = torch.randn(2, 12, generator=generator, dtype=torch.float64)
    recorder = Recorder(generator)
    found = []
    Diffusion()(pose_mixture(locs, logits), 12, generator=recorder)
    for dtype in (torch.float32, torch.float64):
        leaves = [value.to(dtype).requires_grad_() for value in (locs, logits)]
        points = Diffusion()(pose_mixture(*leaves), 12, generator=recorder.noise).points
        found.append((points, *torch.autograd.grad(points.sin().sum(), leaves)))
    for single, double in zip(*found, strict=True):
        assert_close(single.double(), double, rtol=1e-2, atol=1e-3)


def test_unknown_choices_are_refused():
    for wrong in ({"num_steps": 0}, {"smoothing": 1.0}, {"smoothing": -0.1}):
        with pytest.raises(ValueError, match="Diffusion needs"):
            Diffusion(**wrong)


@pytest.mark.statistical
@variants
def test_diffusion_keeps_the_promises_of_resamplers(resampler):
    check_resampler(
        resampler, smoothed=False, unbiased=False, unbiased_gradient=(), no_gradient=("bandwidth",), num_replicates=200, max_se=0.1
    )
