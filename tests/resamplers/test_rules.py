"""What sets one rule apart from another: shared values, limits, known biases, refusals."""

import math

import pytest
import torch
from torch.testing import assert_close

from mdpf import Mixture, resamplers
from mdpf.kernels import Biweight, Epanechnikov, Gaussian, Product, VonMises
from mdpf.testing import assert_mean, gradients

# Grouped by what they draw: the same random numbers give the same values.
SAME_VALUES = {
    "copies": (resamplers.Discrete(), resamplers.StopGradient(), resamplers.StopGradient(detach_locations=True)),
    "draws": (
        resamplers.Truncated(),
        resamplers.ImportanceWeighted(),
        resamplers.ComponentPathwise(),
        resamplers.ImplicitlyReparameterized(),
    ),
}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def poses(num_components=6, dtype=torch.float64):
    generator = seeded(1)
    locs = torch.randn(2, num_components, 3, generator=generator, dtype=dtype)
    weights = torch.randn(2, num_components, generator=generator, dtype=dtype).log_softmax(-1)
    kernel = Product((Gaussian(torch.tensor([0.5, 0.7], dtype=dtype)), VonMises(torch.tensor([4.0], dtype=dtype))))
    return Mixture(locs, weights, kernel)


@pytest.mark.parametrize("rules", SAME_VALUES.values(), ids=SAME_VALUES.keys())
def test_rules_differ_in_their_gradient_alone(rules, dtype):
    first, *others = (rule(poses(dtype=dtype), 9, generator=seeded()) for rule in rules)
    for other in others:
        assert torch.equal(other.points, first.points)
        assert_close(other.log_weights, first.log_weights)


@pytest.mark.parametrize(
    "rule", [resamplers.Discrete(), resamplers.StopGradient(), resamplers.Soft()], ids=lambda r: type(r).__name__
)
def test_copies_are_among_the_particles(rule):
    mixture = poses()
    points = rule(mixture, 9, generator=seeded()).points
    assert bool((points.unsqueeze(-2) == mixture.locs.unsqueeze(-3)).all(-1).any(-1).all())


def test_soft_weights_are_the_ratio_of_weight_and_proposal():
    mixture = Mixture(torch.arange(4.0).reshape(4, 1).double(), torch.tensor([0.1, 0.2, 0.3, 0.4]).double().log(), None)
    mixture = mixture._replace(kernel=Gaussian(torch.ones(1).double()))
    draw = resamplers.Soft(mix=0.4)(mixture, 50, generator=seeded())
    weights = mixture.log_weights.exp()[draw.points[:, 0].long()]
    assert_close(draw.log_weights.exp(), weights / (50 * (0.6 * weights + 0.4 / 4)))


@pytest.mark.statistical
def test_soft_gradient_to_the_weights_has_its_known_bias(generator):
    r"""The mean of the estimator is :math:`\sum_i v_i(\theta_0) f_i\, w_i(\theta) / v_i(\theta)`: its derivative is known."""
    values, mix = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64), 0.3
    logits = torch.tensor([0.5, 0.0, -1.0], dtype=torch.float64)

    def mean(logits):
        proposal = (1 - mix) * logits.softmax(-1) + mix / 3
        return (proposal.detach() * values * logits.softmax(-1) / proposal).sum()

    def estimate(logits):
        mixture = Mixture(values[:, None].expand(*logits.shape, 1), logits.log_softmax(-1), Gaussian(torch.ones(1).double()))
        draw = resamplers.Soft(mix=mix)(mixture, 5, generator=generator)
        return (draw.log_weights.exp() * draw.points[..., 0]).sum(-1)

    found = gradients(estimate, {"logits": logits.expand(20_000, 3)})["logits"]
    assert_mean(found, gradients(mean, {"logits": logits})["logits"], max_se=0.005)
    unbiased = gradients(lambda logits: logits.softmax(-1) @ values, {"logits": logits})["logits"]
    with pytest.raises(AssertionError, match="z = "):
        assert_mean(found, unbiased, max_se=0.005)


@pytest.mark.statistical
def test_concrete_becomes_a_choice_as_the_temperature_falls(generator):
    """The bias of a squared mean, the sign of averaging between modes, vanishes in the limit."""
    locs = torch.tensor([[-2.0], [2.0]], dtype=torch.float64).expand(10_000, 2, 1)
    log_weights = torch.tensor([0.3, 0.7], dtype=torch.float64).log().expand(10_000, 2)
    mixture = Mixture(locs, log_weights, Gaussian(torch.ones(1, dtype=torch.float64)))
    cold = resamplers.Concrete(temperature=1e-12)(mixture, 5, generator=generator).points
    moments = torch.cat([cold, cold.square()], -1).mean(-2)
    assert_mean(moments, torch.tensor([0.8, 4.0]), max_se=0.02)
    warm = resamplers.Concrete(temperature=0.5)(mixture, 5, generator=generator).points
    assert float(warm.square().mean()) < 3.5


def test_concrete_averages_angles_the_short_way_round():
    locs = torch.tensor([[math.pi - 0.1], [-math.pi + 0.1]], dtype=torch.float64)
    mixture = Mixture(locs, torch.tensor([0.5, 0.5]).double().log(), VonMises(torch.ones(1).double()))
    points = resamplers.Concrete(temperature=5.0)(mixture, 100, generator=seeded()).points
    assert float(points.abs().min()) > math.pi - 0.1001


@pytest.mark.parametrize("kernel", [Epanechnikov, Biweight])
@pytest.mark.parametrize("rule", SAME_VALUES["draws"], ids=lambda rule: type(rule).__name__)
def test_compact_kernels_far_from_the_origin_stay_finite(rule, kernel, dtype):
    """Rounding must not push a draw out of the support, where its density is zero."""
    inputs = {
        "locs": 1e3 + torch.randn(300, 5, 1, generator=seeded(), dtype=dtype),
        "width": torch.full((300, 1), 0.05, dtype=dtype),
    }

    def estimate(locs, width):
        mixture = Mixture(locs, locs.new_full(locs.shape[:-1], -math.log(5)), kernel(width))
        draw = rule(mixture, 20, generator=seeded())
        assert draw.log_weights.isfinite().all()
        return (draw.log_weights.exp() * (draw.points[..., 0] - 1e3)).sum(-1)

    assert all(gradient.isfinite().all() for gradient in gradients(estimate, inputs).values())


class DensityOnly:
    """A kernel that meets the protocol and offers no more."""

    def __init__(self, kernel):
        self._kernel = kernel

    space = property(lambda self: self._kernel.space)
    state_dim = property(lambda self: self._kernel.state_dim)

    def log_prob(self, x, loc):
        return self._kernel.log_prob(x, loc)

    def sample(self, loc, *, generator=None):
        return self._kernel.sample(loc, generator=generator)


def test_implicit_refuses_a_kernel_without_cdf():
    mixture = Mixture(torch.zeros(2, 1), torch.tensor([0.5, 0.5]).log(), DensityOnly(Gaussian(torch.ones(1))))
    with pytest.raises(TypeError, match="`scores` and `cdf`, got DensityOnly. Use resamplers.Importance"):
        resamplers.ImplicitlyReparameterized()(mixture, 3)
    assert resamplers.ImportanceWeighted()(mixture, 3, generator=seeded()).points.shape == (3, 1)


IMPLICIT_KERNELS = {
    "gaussian": lambda width: Gaussian(width),
    "biweight": lambda width: Biweight(2 * width),
    "von mises": lambda width: VonMises(4 / width),
    "pose": lambda width: Product((Gaussian(width[..., :2]), VonMises(4 / width[..., 2:]))),
    "heading first": lambda width: Product((VonMises(4 / width[..., :1]), Epanechnikov(2 * width[..., 1:]))),
}


@pytest.mark.parametrize("spread", [1.0, 4.0], ids=["overlapping", "separated"])
@pytest.mark.parametrize("kernel", IMPLICIT_KERNELS.values(), ids=IMPLICIT_KERNELS)
def test_implicit_points_keep_their_place_in_the_distribution(kernel, spread, generator):
    """To first order, whatever parameter moves: what it does to the transform, and does by way of the point, cancel."""
    inputs = [
        spread * torch.randn(4, 5, 3, generator=generator, dtype=torch.float64),
        torch.randn(4, 5, generator=generator, dtype=torch.float64),
        0.4 + torch.rand(4, 3, generator=generator, dtype=torch.float64),
    ]
    locs, logits, width = (each.requires_grad_() for each in inputs)
    mixture = Mixture(locs, logits.log_softmax(-1), kernel(width))
    points = resamplers.ImplicitlyReparameterized()(mixture, 6, generator=generator).points
    cotangent = torch.randn(points.shape, generator=generator, dtype=torch.float64)
    partly = torch.autograd.grad(mixture.distributional_transform(points.detach()), inputs, cotangent, retain_graph=True)
    wholly = torch.autograd.grad(mixture.distributional_transform(points), inputs, cotangent)
    for whole, part in zip(wholly, partly, strict=True):
        assert part.abs().max() > 1e-3
        assert_close(whole, torch.zeros_like(whole), rtol=0, atol=1e-8)


EVERY = (
    *SAME_VALUES["copies"],
    *SAME_VALUES["draws"],
    resamplers.Soft(),
    resamplers.Concrete(),
    resamplers.Adaptive(resamplers.Truncated()),
)


@pytest.mark.parametrize("rule", EVERY, ids=lambda rule: type(rule).__name__)
def test_rules_refuse_what_does_not_fit(rule):
    mixture = poses()
    with pytest.raises(ValueError, match="one log-weight for each component"):
        rule(mixture._replace(log_weights=mixture.log_weights[:, :3]), 5)
    for count in (0, 2.5):
        with pytest.raises(ValueError, match="integer of at least 1"):
            rule(mixture, count)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: resamplers.Soft(mix=0.0), "Soft needs mix between 0 and 1"),
        (lambda: resamplers.Soft(mix=1.0), "Soft needs mix between 0 and 1"),
        (lambda: resamplers.Concrete(temperature=0.0), "Concrete needs a positive temperature"),
        (lambda: resamplers.Concrete(temperature=math.nan), "Concrete needs a positive temperature"),
    ],
)
def test_choices_without_sense_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
