"""Quadrature against closed forms and against a plain sum over a grid, in value and in gradient."""

import math

import pytest
import torch
from torch.testing import assert_close

from mdpf import Mixture
from mdpf.exact.expectation import expectation
from mdpf.kernels import Biweight, Epanechnikov, Gaussian, Product, VonMises
from mdpf.testing import gradients

LOCS = torch.tensor([[-1.0], [0.4], [2.5]], dtype=torch.float64)
LOGITS = torch.tensor([0.0, 1.0, -0.5], dtype=torch.float64)


def wave(x):
    return (x[..., 0] + 0.3).sin()


def scalar(kernel):
    return lambda locs, logits, width: expectation(Mixture(locs, logits.log_softmax(-1), kernel(width)), wave)


def damped(factor):
    return lambda locs, logits, width: (logits.softmax(-1) * wave(locs)).sum() * factor(width[0])


# The mean of sin(x) under a kernel is its value at the location, times the kernel's characteristic function at one.
FACTORS = {
    Gaussian: lambda s: (-s.square() / 2).exp(),
    VonMises: lambda k: torch.special.i1(k) / torch.special.i0(k),
    Epanechnikov: lambda h: 3 * (h.sin() - h * h.cos()) / h**3,
    Biweight: lambda h: 15 * ((3 - h**2) * h.sin() - 3 * h * h.cos()) / h**5,
}


@pytest.mark.parametrize("kernel", FACTORS)
@pytest.mark.parametrize("width", [0.8, 2.0])
def test_expectation_and_its_gradient_have_the_closed_form(kernel, width):
    inputs = {"locs": LOCS, "logits": LOGITS, "width": torch.tensor([width], dtype=torch.float64)}
    found, expected = scalar(kernel), damped(FACTORS[kernel])
    assert_close(found(**inputs), expected(**inputs), rtol=1e-10, atol=1e-12)
    for name, truth in gradients(expected, inputs).items():
        assert_close(gradients(found, inputs)[name], truth, rtol=1e-8, atol=1e-11)


def test_expectation_of_poses_is_the_sum_over_a_plain_grid():
    locs = torch.tensor([[0.3, -0.4, 3.0], [-0.5, 0.8, -2.0]], dtype=torch.float64)
    kernel = Product((Gaussian(torch.tensor([0.5, 0.7]).double()), VonMises(torch.tensor([3.0]).double())))
    mixture = Mixture(locs, torch.tensor([0.3, 0.7]).double().log(), kernel)

    def function(x):
        return x[..., 0].sin() + x[..., 0] * x[..., 1] * x[..., 2].cos()

    line, turn = torch.linspace(-7, 7, 71, dtype=torch.float64), torch.arange(32).double() / 32 * 2 * math.pi
    points = torch.cartesian_prod(line, line, turn)
    cell = float(line[1] - line[0]) ** 2 * float(turn[1])
    plain = (mixture.log_prob(points).exp() * function(points)).sum() * cell
    assert_close(expectation(mixture, function), plain, rtol=0, atol=1e-9)


@pytest.mark.parametrize("shape", [(2, 3, 1), (3, 4)])
def test_expectation_refuses_batches_and_many_coordinates(shape):
    mixture = Mixture(torch.zeros(shape), torch.full(shape[:-1], -math.log(3)), Gaussian(torch.ones(shape[-1])))
    with pytest.raises(ValueError, match="one mixture over up to three coordinates"):
        expectation(mixture, wave)
