"""The checks of a filter's parts accept those of the library and reject parts that are subtly wrong, each for its own reason."""

import pytest
import torch
from torch import nn

from mdpf import kernels, noise
from mdpf.models import FixedBandwidth, LearnedBandwidth, ResidualDynamics, ScoreNetwork
from mdpf.spaces import StateSpace
from mdpf.tasks import bimodal, linear_gaussian
from mdpf.testing import check_bandwidth, check_dynamics, check_measurement
from mdpf.testing.linear_gaussian import dynamics_of, log_likelihood_of

POSE = StateSpace.of("x", "y", theta="angle")
LINE = StateSpace.of("x")


def drawn(*shape, dtype=torch.float32):
    return lambda batch, generator: torch.randn(*batch, *shape, generator=generator, dtype=dtype)


def residual(action_dim=0):
    torch.manual_seed(0)
    return ResidualDynamics(POSE, bound=(1.0,) * 4, hidden_dim=8, action_dim=action_dim)


def scores(num_heads=1):
    torch.manual_seed(1)
    return ScoreNetwork(POSE, feature_dim=2, particle_sizes=(8, 8), hidden_dim=8, num_heads=num_heads)


def test_dynamics_of_the_library_pass():
    check_dynamics(residual(), POSE)
    check_dynamics(residual(action_dim=3), POSE, make_action=drawn(3))
    check_dynamics(bimodal.BimodalModel().dynamics, LINE, make_action=drawn(1))
    model = linear_gaussian.example_model(dtype=torch.float64)
    action = drawn(model.control.shape[-1], dtype=torch.float64)
    check_dynamics(dynamics_of(model), StateSpace.of("x", "y"), make_action=action)


def test_measurements_of_the_library_pass():
    check_measurement(scores(), POSE, make_feature=drawn(2))
    check_measurement(scores(2), POSE, make_feature=drawn(2), num_heads=2)
    check_measurement(bimodal.BimodalModel().measurement, LINE, make_feature=drawn(1))
    model = linear_gaussian.example_model(dtype=torch.float64)
    feature = drawn(len(model.emission), dtype=torch.float64)
    check_measurement(log_likelihood_of(model), StateSpace.of("x", "y"), make_feature=feature)


def test_bandwidths_of_the_library_pass():
    check_bandwidth(LearnedBandwidth(POSE, (0.5, 0.5, 0.1), (0.1, 0.1, 0.01)), POSE)
    check_bandwidth(FixedBandwidth(kernels.Biweight(torch.tensor([0.5]))), LINE)


def test_bandwidth_that_looks_at_the_particles_passes():
    check_bandwidth(lambda particles: kernels.Gaussian(particles.std(-2)), LINE)


# --- Mutants ----------------------------------------------------------------------------------------------------------------------


def walk(points, action=None, *, generator=None):
    return points + noise.normal(points.shape, points, generator)


def pulled_together(points, action=None, *, generator=None):
    return walk(points, generator=generator) + 0.1 * points[..., :1, :]


def batch_mean_removed(points, action=None, *, generator=None):
    return walk(points - points.mean(tuple(range(points.ndim - 1)), keepdim=True), generator=generator)


def linear_in_the_angle(points, action=None, *, generator=None):
    return walk(1.5 * points, generator=generator)


def one_noise_for_all(points, action=None, *, generator=None):
    return points + noise.normal((*points.shape[:-2], 1, points.shape[-1]), points, generator)


def one_noise_for_the_batch(points, action=None, *, generator=None):
    return points + noise.normal(points.shape[-2:], points, generator)


def global_noise(points, action=None, *, generator=None):
    return points + torch.randn_like(points)


def moved_in_place(points, action=None, *, generator=None):
    points.detach().add_(0.1)
    return walk(points, generator=generator)


def without_a_particle_axis(points, action=None, *, generator=None):
    return walk(points, generator=generator).mean(-2)


def in_single_precision(points, action=None, *, generator=None):
    return walk(points, generator=generator).float()


def root_of_zero(points, action=None, *, generator=None):
    return walk(points, generator=generator) + (0 * points).square().sum(-1, keepdim=True).sqrt()


class Idle(nn.Module):
    """Has a parameter that nothing depends on."""

    def __init__(self, call, *, dtype=torch.float64):
        super().__init__()
        self.gain, self.idle = (nn.Parameter(torch.tensor(0.3, dtype=dtype)) for _ in range(2))
        self.call = call

    def forward(self, *args, **options):
        return self.call(self.gain, *args, **options)


DYNAMICS = [
    (pulled_together, "particles in another order"),
    (batch_mean_removed, "batch element|another order"),
    (linear_in_the_angle, "full turn"),
    (one_noise_for_all, "at one place part"),
    (one_noise_for_the_batch, "each batch element's own"),
    (global_noise, "global stream"),
    (moved_in_place, "handed in"),
    (without_a_particle_axis, "points of shape"),
    (in_single_precision, "points of type"),
    (root_of_zero, "finite gradient"),
    (Idle(lambda gain, points, action=None, *, generator=None: walk(points, generator=generator) + gain), "a gradient to idle"),
]


@pytest.mark.parametrize(("mutant", "reason"), DYNAMICS, ids=lambda value: getattr(value, "__name__", ""))
def test_check_rejects_mutant_dynamics(mutant, reason):
    with pytest.raises(AssertionError, match=reason):
        check_dynamics(mutant, POSE)


def near(particles, feature):
    """Scores by distance, the short way round."""
    return (particles[..., 2] - feature[..., None, 1]).cos() - (particles[..., 0] - feature[..., None, 0]).square()


MEASUREMENTS = [
    (lambda particles, feature: near(particles, feature).log_softmax(-1) * torch.arange(5.0), "another order"),
    (lambda particles, feature: near(particles, feature) - near(particles, feature).mean(), "batch element"),
    (lambda particles, feature: near(particles, feature) - particles[..., 2].square(), "full turn"),
    (lambda particles, feature: near(particles, feature) + torch.rand(()), "same scores|nothing random"),
    (lambda particles, feature: near(particles, feature).sqrt(), "numbers"),
    (lambda particles, feature: near(particles, feature).unsqueeze(-1), "scores of shape"),
    (lambda particles, feature: near(particles, feature).float(), "scores of type"),
    (lambda particles, feature: near(particles, feature.detach().mul_(0.5)), "same scores|handed in"),
    (lambda particles, feature: near(particles.detach(), feature), "a gradient"),
    (Idle(lambda gain, particles, feature: gain * near(particles, feature)), "a gradient to idle"),
]


@pytest.mark.parametrize(("mutant", "reason"), MEASUREMENTS, ids=[reason for _, reason in MEASUREMENTS])
def test_check_rejects_a_mutant_measurement(mutant, reason):
    check_measurement(near, POSE, make_feature=drawn(2, dtype=torch.float64))
    with pytest.raises(AssertionError, match=reason):
        check_measurement(mutant, POSE, make_feature=drawn(2, dtype=torch.float64))


def gaussian(width):
    return kernels.Gaussian(width.expand(1))


BANDWIDTHS = [
    (lambda particles: kernels.Gaussian(torch.ones(2, dtype=particles.dtype)), "over 1 coordinates"),
    (lambda particles: kernels.VonMises(torch.ones(1, dtype=particles.dtype)), "with the angles"),
    (lambda particles: kernels.Gaussian(particles.abs()), r"parameters \[d\]"),
    (lambda particles: kernels.Gaussian(torch.ones(1)), "of type torch.float64"),
    (lambda particles: kernels.Gaussian(torch.zeros(1, dtype=particles.dtype)), "positive"),
    (lambda particles: kernels.Gaussian(particles[..., 0, :].exp()), "another order"),
    (lambda particles: gaussian(particles.std()), "batch element"),
    (Idle(lambda gain, particles: gaussian(gain.exp())), "a gradient to idle"),
    (lambda particles: kernels.Gaussian((0 * particles).square().sum(-2).sqrt() + 1), "finite gradient"),
]


@pytest.mark.parametrize(("mutant", "reason"), BANDWIDTHS, ids=[reason for _, reason in BANDWIDTHS])
def test_check_rejects_a_mutant_bandwidth(mutant, reason):
    with pytest.raises(AssertionError, match=reason):
        check_bandwidth(mutant, LINE)
