"""Gaussian mixtures on the line against quadrature."""

import torch

from mdpf.exact import GaussianMixture1d
from mdpf.exact.grid import trapezoid_weights


def example() -> GaussianMixture1d:
    generator = torch.Generator().manual_seed(0)
    draw = torch.rand(3, 2, 4, dtype=torch.float64, generator=generator)
    return GaussianMixture1d(4 * draw[0] - 2, 0.2 + draw[1], draw[2].log_softmax(-1))


def test_gaussian_mixture_moments_equal_quadrature():
    mixture = example()
    grid = torch.linspace(-15, 15, 2001, dtype=torch.float64)
    mass = mixture.log_prob(grid.expand(2, -1)).exp() * trapezoid_weights(grid)
    mean = (mass * grid).sum(-1)
    torch.testing.assert_close(mass.sum(-1), torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close(mixture.mean(), mean, rtol=0, atol=1e-12)
    torch.testing.assert_close(mixture.variance(), (mass * grid.square()).sum(-1) - mean.square(), rtol=0, atol=1e-12)


def test_gaussian_mixture_far_tail_stays_finite_in_float32():
    single = GaussianMixture1d(torch.zeros(1), torch.ones(1), torch.zeros(1))
    far = torch.tensor([1e4], requires_grad=True)
    log_prob = single.log_prob(far)
    log_prob.sum().backward()
    torch.testing.assert_close(log_prob, torch.tensor([-0.5e8]))
    torch.testing.assert_close(far.grad, torch.tensor([-1e4]))
