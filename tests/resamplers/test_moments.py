"""A bimodal weighted set after resampling by every rule: counts, mean, variance and Wasserstein-1, and mutants that miss them."""

import math
from dataclasses import dataclass

import numpy
import pytest
import torch

from mdpf import Mixture, resamplers, selection
from mdpf.kernels import Gaussian
from mdpf.resamplers import Draw
from mdpf.testing import assert_mean

NUM_PARTICLES, NUM_REPLICATES = 100, 400
SCALE = 0.3
COPYING = {
    **{
        f"discrete-{name}": resamplers.Discrete(getattr(selection, name))
        for name in ("multinomial", "stratified", "systematic", "residual")
    },
    "soft": resamplers.Soft(),
    "stop-gradient": resamplers.StopGradient(),
}
SMOOTHING = {
    "truncated": resamplers.Truncated(),
    "truncated-systematic": resamplers.Truncated(selection.systematic),
    "importance": resamplers.ImportanceWeighted(),
    "pathwise": resamplers.ComponentPathwise(),
    "implicit": resamplers.ImplicitlyReparameterized(),
}
pytestmark = pytest.mark.statistical


@pytest.fixture
def bimodal():
    """A hundred particles in two modes 13 widths apart, the left one heavier; many copies of the set."""
    generator = torch.Generator().manual_seed(7)
    left = torch.arange(NUM_PARTICLES) % 2 == 0
    locs = torch.randn(NUM_PARTICLES, 1, generator=generator, dtype=torch.float64) * SCALE
    locs = locs + torch.where(left, -2.0, 2.0)[:, None]
    weights = (torch.randn(NUM_PARTICLES, generator=generator, dtype=torch.float64) + left).log_softmax(-1)
    kernel = Gaussian(torch.tensor([SCALE], dtype=torch.float64))
    return Mixture(locs.expand(NUM_REPLICATES, -1, -1), weights.expand(NUM_REPLICATES, -1), kernel)


def wasserstein(points, weights, target, target_weights):
    """Exact in one dimension: the area between the distribution functions of two weighted sets of values."""
    values, order = torch.cat([points, target.expand(len(points), -1)], -1).sort(-1)
    mass = torch.cat([weights, -target_weights.expand(len(points), -1)], -1).gather(-1, order).cumsum(-1)
    return (mass[:, :-1].abs() * values.diff(dim=-1)).sum(-1)


def target_of(mixture, smoothed):
    """What the draw stands for, as weighted values: the particles, or each of them spread over quantiles of its kernel."""
    locs, weights = mixture.locs[0, :, 0], mixture.log_weights[0].exp()
    if not smoothed:
        return locs, weights
    levels = (torch.arange(50, dtype=torch.float64) + 0.5) / 50
    return (locs[:, None] + SCALE * torch.special.ndtri(levels)).flatten(), (weights[:, None] / 50).expand(-1, 50).flatten()


def check_moments(resampler, mixture, generator, *, smoothed):
    """Mean and variance by z-test, of the set and of its modes laid on top of each other; Wasserstein-1 by its bound."""
    values, weights = target_of(mixture, smoothed)
    draw = resampler(mixture, NUM_PARTICLES, generator=generator)
    points, share = draw.points[..., 0], draw.log_weights.exp()
    # The quantiles of a kernel leave out a little of its tails.
    tails = SCALE**2 - (values[:50] - values[:50].mean()).square().mean() if smoothed else 0.0
    for what, found, wanted in (("set", points, values), ("modes", points.abs(), values.abs())):
        mean = weights @ wanted
        variance = weights @ (wanted - mean).square() + tails
        deviation = (found - mean) / variance.sqrt()
        assert_mean((share * deviation).sum(-1), 0.0, max_se=0.01, what=f"mean of the {what}, in standard deviations")
        assert_mean((share * deviation.square()).sum(-1), 1.0, max_se=0.01, what=f"variance ratio of the {what}")
    # The mean distance between two distribution functions of independent draws is at most their standard deviation.
    ordered, order = values.sort()
    below = weights[order].cumsum(0)[:-1].clamp(0, 1)
    bound = (below * (1 - below) / NUM_PARTICLES).sqrt() @ ordered.diff()
    distance = wasserstein(points, share, values, weights) / bound
    assert float(distance.mean() + 5 * distance.std() / math.sqrt(NUM_REPLICATES)) < 1.1, "Wasserstein-1 of independent draws"


@pytest.mark.parametrize("resampler", COPYING.values(), ids=COPYING)
def test_copies_have_the_moments_of_the_weighted_set(bimodal, resampler, generator):
    check_moments(resampler, bimodal, generator, smoothed=False)


@pytest.mark.parametrize("resampler", SMOOTHING.values(), ids=SMOOTHING)
def test_draws_have_the_moments_of_the_mixture(bimodal, resampler, generator):
    check_moments(resampler, bimodal, generator, smoothed=True)


@pytest.mark.parametrize("resampler", COPYING.values(), ids=COPYING)
def test_every_particle_is_copied_by_its_weight(bimodal, resampler, generator):
    """Each copy counts with its importance weight, so the count of a particle is its weight on average."""
    draw = resampler(bimodal, NUM_PARTICLES, generator=generator)
    is_copy = draw.points[:, :, None, 0] == bimodal.locs[:, None, :, 0]
    counts = (draw.log_weights.exp()[..., None] * is_copy).sum(-2)
    assert_mean(counts, bimodal.log_weights[0].exp(), max_se=0.003, what="count")


def relaxed_choices(locs, weights, temperature):
    """Averages with weights of the relaxed categorical distribution, by numpy and from the definition."""
    gumbel = numpy.random.default_rng(0).gumbel(size=(NUM_REPLICATES, NUM_PARTICLES, NUM_PARTICLES))
    scores = (weights.log().numpy() + gumbel) / temperature
    shares = numpy.exp(scores - scores.max(-1, keepdims=True))
    return torch.from_numpy((shares @ locs.numpy()) / shares.sum(-1))


def test_relaxed_choices_shrink_the_cloud_as_their_definition_does(bimodal, generator):
    """Averaging pulls points between the modes: every moment is that of the definition, and far from that of the set."""
    locs, weights = target_of(bimodal, smoothed=False)
    points = resamplers.Concrete()(bimodal, NUM_PARTICLES, generator=generator).points[..., 0]
    defined = relaxed_choices(locs, weights, 0.5)
    mean, pooled = weights @ locs, defined.flatten()
    variance = weights @ (locs - mean).square()
    share, pooled_share = torch.full_like(points, 1 / NUM_PARTICLES), torch.full_like(pooled, 1 / pooled.numel())
    assert_mean((points.mean(-1) - defined.mean(-1)) / variance.sqrt(), 0.0, max_se=0.01, what="mean, in standard deviations")
    ratio, expected = ((cloud - mean).square().mean(-1) / variance for cloud in (points, defined))
    assert_mean(ratio - expected, 0.0, max_se=0.01, what="variance ratio")
    assert float(expected.mean()) < 0.6
    distance, usual = (wasserstein(cloud, share, pooled, pooled_share) for cloud in (points, defined))
    assert_mean((distance - usual) / usual.mean(), 0.0, max_se=0.05, what="Wasserstein-1")


def transported(locs, weights, regularization):
    """The averages of the regularised plan, by plain scaling of rows and columns until nothing changes."""
    plan = (-(locs[:, None] - locs).square() / (2 * locs.var(correction=0)) / regularization).exp()
    for _ in range(20_000):
        plan = plan / plan.sum(-1, keepdim=True) / len(locs)
        plan = plan * (weights / plan.sum(0))
    return len(locs) * plan @ locs


# The default number of iterations leaves a residual that grows as the regularisation falls.
@pytest.mark.parametrize(("regularization", "rounding"), [(0.5, 1e-9), (0.1, 1e-4), (0.01, 5e-3)])
def test_transport_shrinks_the_cloud_as_its_problem_does(bimodal, regularization, rounding):
    locs, weights = target_of(bimodal, smoothed=False)
    uniform = torch.full((1, NUM_PARTICLES), 1 / NUM_PARTICLES, dtype=torch.float64)
    defined = transported(locs, weights, regularization)
    single = Mixture(bimodal.locs[0], bimodal.log_weights[0], bimodal.kernel)
    points = resamplers.OptimalTransport(regularization)(single, NUM_PARTICLES).points[:, 0]
    mean = weights @ locs
    deviation = (weights @ (locs - mean).square()).sqrt()
    ratio, expected = (((cloud - mean) / deviation).square().mean() for cloud in (points, defined))
    assert float(points.mean() - mean) == pytest.approx(0, abs=1e-12)
    assert float(ratio) == pytest.approx(float(expected), abs=rounding)
    assert float(wasserstein(points[None], uniform, defined, uniform[0]) / deviation) < rounding


@dataclass(frozen=True)
class Bent:
    """A draw with a defect."""

    bend: object
    inner: object = resamplers.Discrete()

    def __call__(self, mixture, num_particles, *, generator=None):
        return self.bend(mixture, self.inner(mixture, num_particles, generator=generator))


MUTANTS = {
    "weights ignored": Bent(lambda mixture, draw: Draw(mixture.locs, draw.log_weights)),
    "weights of other particles": Bent(
        lambda mixture, draw: draw._replace(log_weights=draw.log_weights.roll(1, -1)), resamplers.Soft(0.9)
    ),
    "shrunk to the mean": Bent(
        lambda mixture, draw: draw._replace(points=0.95 * draw.points + 0.05 * mixture.mean().unsqueeze(-2))
    ),
    "smoothed though it copies": Bent(lambda mixture, draw: draw, resamplers.Truncated()),
    "one particle for all": Bent(lambda mixture, draw: draw._replace(points=draw.points[:, :1].expand_as(draw.points))),
}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_mutants_have_other_moments(bimodal, mutant, generator):
    with pytest.raises(AssertionError, match="standard deviations|variance ratio|Wasserstein"):
        check_moments(mutant, bimodal, generator, smoothed=False)
