"""Unbiased rules against the derivative of a quadrature: to weights, locations and bandwidth."""

import pytest
import torch
from torch.testing import assert_close

from mdpf import Mixture, resamplers
from mdpf.exact.expectation import expectation
from mdpf.kernels import Biweight, Epanechnikov, Gaussian, Product, VonMises
from mdpf.testing import assert_gradient, gradients

pytestmark = pytest.mark.statistical

SAMPLED = {"importance": resamplers.ImportanceWeighted(), "pathwise": resamplers.ComponentPathwise()}
ALL = {**SAMPLED, "implicit": resamplers.ImplicitlyReparameterized()}
NUM_PARTICLES = 8
# By what one replicate costs.
NUM_REPLICATES = {
    resamplers.ImportanceWeighted: 40_000,
    resamplers.ComponentPathwise: 10_000,
    resamplers.ImplicitlyReparameterized: 5000,
}


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


def smooth(x):
    """Nowhere linear; all coordinates coupled; whole turns of the last of three make no difference."""
    value = (x[..., 0] + 0.2).tanh() + 0.5 * x[..., 0].cos()
    return (
        value
        if x.shape[-1] == 1
        else value + (x[..., 1] - x[..., 0]).sin() + (1 + 0.5 * x[..., 1].tanh()) * (x[..., 2] - 0.4).cos()
    )


def periodic(x):
    return (x[..., 0] - 2.6).cos() + 0.5 * (2 * x[..., 0]).sin()


def inner(x):
    """Zero, with its slope, where the outermost edges lie: there alone the score of Epanechnikov has infinite variance."""
    height = (1 - (x[..., :2] / 1.2).square()).clamp_min(0).square().prod(-1)
    return height * (1 + x[..., 0]) * (1 if x.shape[-1] < 3 else 1 + (x[..., 2] - 0.4).cos())


def bump(x, middle, reach):
    """Zero, with its slope, at a distance ``reach`` from ``middle`` along each of the first two coordinates, and beyond."""
    plane = x[..., :2]
    return (1 - ((plane - tensor(*middle)[: plane.shape[-1]]) / reach).square()).clamp_min(0).square().prod(-1)


def inner_apart(x):
    """As ``inner``, for two clouds far apart; weight that passes from one to the other changes the mean."""
    height = bump(x, (-3.0, -2.0), 1.0) * (4 + x[..., 0]) + 3 * bump(x, (3.0, 2.0), 1.0)
    return height * (1 if x.shape[-1] < 3 else 1 + 0.5 * (x[..., 2] - 0.4).cos())


def line(kernel):
    return lambda width: kernel(width)


def pose(kernel):
    return lambda width: Product((kernel(width[..., :2]), VonMises(width[..., 2:])))


SQUARE = ([-0.4, -0.4, 2.9], [-0.4, 0.4, -2.5], [0.4, -0.4, 1.0], [0.4, 0.4, 0.0])
POSES = ([-0.8, 0.3, 2.9], [0.6, -0.5, -2.8], [0.2, 0.9, 1.0])
FAR_PLACES = ([-3.0, -2.0, 2.9], [-3.0, -2.0, -1.0], [3.0, 2.0, 0.5])
FAR_POSES = ([-3.0, -2.0, 2.9], [-2.8, -2.1, -3.0], [3.0, 2.0, 0.5])

# kernel of a width, locations, width, function, nodes of the quadrature
OVERLAPPING = {
    "line-gaussian": (line(Gaussian), ([-1.0], [0.2], [0.9]), (0.8,), smooth, 40),
    "line-biweight": (line(Biweight), ([-1.0], [0.2], [0.9]), (2.0,), smooth, 40),
    "line-epanechnikov": (line(Epanechnikov), ([-0.6], [0.0], [0.7]), (1.0,), inner, 400),
    "circle-von-mises": (line(VonMises), ([-2.0], [2.9], [0.4]), (1.5,), periodic, 40),
    "pose-gaussian": (pose(Gaussian), POSES, (0.8, 0.7, 3.0), smooth, 32),
    "pose-biweight": (pose(Biweight), POSES, (2.0, 2.2, 3.0), smooth, 32),
    "pose-epanechnikov": (pose(Epanechnikov), SQUARE, (1.0, 1.0, 3.0), inner, 64),
}
SEPARATED = {
    "line-gaussian": (line(Gaussian), ([-3.0], [-2.8], [3.0]), (0.4,), smooth, 40),
    "line-biweight": (line(Biweight), ([-3.0], [-2.8], [3.0]), (1.0,), smooth, 40),
    "line-epanechnikov": (line(Epanechnikov), ([-3.0], [3.0]), (1.0,), inner_apart, 400),
    "circle-von-mises": (line(VonMises), ([3.1], [-3.0], [0.0]), (30.0,), periodic, 80),
    "pose-gaussian": (pose(Gaussian), FAR_POSES, (0.4, 0.5, 20.0), smooth, 40),
    "pose-biweight": (pose(Biweight), FAR_POSES, (1.0, 1.2, 20.0), smooth, 40),
    "pose-epanechnikov": (pose(Epanechnikov), FAR_PLACES, (1.0, 1.0, 20.0), inner_apart, 64),
}
CASES = [
    *((name, f"overlapping-{case}", rule, setting) for case, setting in OVERLAPPING.items() for name, rule in ALL.items()),
    *((name, f"separated-{case}", rule, setting) for case, setting in SEPARATED.items() for name, rule in SAMPLED.items()),
]


def inputs_of(setting):
    _, locs, width, _, _ = setting
    return {"logits": torch.linspace(0.6, -0.6, len(locs), dtype=torch.float64), "locs": tensor(*locs), "width": tensor(*width)}


def truth_of(setting, num_nodes=None):
    kernel, _, _, function, nodes = setting

    def exact(logits, locs, width):
        return expectation(Mixture(locs, logits.log_softmax(-1), kernel(width)), function, num_nodes=num_nodes or nodes)

    return gradients(exact, inputs_of(setting))


def estimator(rule, setting, generator):
    kernel, _, _, function, _ = setting

    def estimate(logits, locs, width):
        draw = rule(Mixture(locs, logits.log_softmax(-1), kernel(width)), NUM_PARTICLES, generator=generator)
        return (draw.log_weights.exp() * function(draw.points)).sum(-1)

    return estimate


@pytest.mark.parametrize(("rule", "setting"), [case[2:] for case in CASES], ids=[f"{name}-{case}" for name, case, *_ in CASES])
def test_gradient_is_that_of_the_exact_expectation(rule, setting, generator):
    truth = truth_of(setting)
    # In parts of the gradient's norm: one that is cut or has the wrong sign is many times as far off.
    max_se = {name: 0.1 * float(gradient.norm()) for name, gradient in truth.items()}
    estimate = estimator(rule, setting, generator)
    assert_gradient(estimate, inputs_of(setting), truth, num_replicates=NUM_REPLICATES[type(rule)], max_se=max_se)


@pytest.mark.parametrize("setting", [*OVERLAPPING.values(), *SEPARATED.values()])
def test_truth_is_converged(setting):
    finer = truth_of(setting, setting[4] + 9)
    for name, gradient in truth_of(setting).items():
        assert_close(gradient, finer[name], rtol=0, atol=2e-4 * float(gradient.norm()))
