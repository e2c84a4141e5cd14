"""Losses against closed forms."""

import math

import pytest
import torch

from mdpf import losses
from mdpf.kernels import Epanechnikov, Gaussian, Product, VonMises
from mdpf.mixture import Mixture


def pose_mixture(generator, batch=(2, 4), n=5, dtype=torch.float64):
    locs = torch.randn(*batch, n, 3, generator=generator, dtype=torch.float64).to(dtype)
    log_weights = torch.randn(*batch, n, generator=generator, dtype=torch.float64).log_softmax(-1).to(dtype)
    kernel = Product((Gaussian(torch.tensor([0.5, 0.7], dtype=dtype)), VonMises(torch.tensor([3.0], dtype=dtype))))
    return Mixture(locs, log_weights, kernel)


def test_nll_is_minus_the_log_of_the_written_out_density(generator, dtype):
    posterior = pose_mixture(generator, dtype=dtype)
    target = torch.randn(2, 4, 3, generator=generator, dtype=torch.float64).to(dtype)
    delta = target.unsqueeze(-2) - posterior.locs
    scale = torch.tensor([0.5, 0.7], dtype=dtype)
    normal = torch.exp(-0.5 * (delta[..., :2] / scale) ** 2) / (scale * math.sqrt(2 * math.pi))
    angular = torch.exp(3 * delta[..., 2].cos()) / (2 * math.pi * torch.special.i0(torch.tensor(3.0, dtype=dtype)))
    density = (posterior.log_weights.exp() * normal.prod(-1) * angular).sum(-1)
    found = losses.negative_log_likelihood(posterior, target)
    assert found.shape == (2, 4)
    torch.testing.assert_close(found, -density.log())
    torch.testing.assert_close(losses.negative_log_likelihood(posterior, target, background=0.1), -(density + 0.1).log())


def test_background_bounds_the_loss_of_compact_kernels():
    locs = torch.tensor([[0.0], [1.0]]).requires_grad_()
    posterior = Mixture(locs, torch.tensor([0.5, 0.5]).log(), Epanechnikov(torch.tensor([0.5])))
    assert losses.negative_log_likelihood(posterior, torch.tensor([9.0])) == math.inf
    for target in (9.0, 0.1):
        bounded = losses.negative_log_likelihood(posterior, torch.tensor([target]), background=1e-4)
        assert bounded <= -math.log(1e-4) + 1e-6
        (gradient,) = torch.autograd.grad(bounded, locs)
        assert gradient.isfinite().all()
        assert bool(gradient.any()) == (target == 0.1)


def test_background_must_be_a_density(generator):
    posterior = pose_mixture(generator)
    for background in (-1e-3, math.inf, math.nan):
        with pytest.raises(ValueError, match="It is a density."):
            losses.negative_log_likelihood(posterior, torch.zeros(2, 4, 3, dtype=torch.float64), background=background)


def test_squared_error_adds_coordinates_and_goes_the_short_way_round():
    kernel = Product((Gaussian(torch.ones(2)), VonMises(torch.ones(1))))
    locs = torch.tensor([[1.0, 2.0, 3.0], [3.0, 4.0, -3.0]])
    posterior = Mixture(locs, torch.tensor([0.5, 0.5]).log(), kernel)
    # The mean of the angles 3 and -3 is pi, up to sign; that is pi - 3 away from either of them, across the seam from one.
    expected = (2.0 - 1.0) ** 2 + (3.0 - 5.0) ** 2 + (math.pi - 3) ** 2
    for angle in (-3.0, 3.0):
        found = losses.squared_error(posterior, torch.tensor([1.0, 5.0, angle]))
        torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-5, atol=1e-6)


def test_squared_error_has_the_gradient_of_the_mean(generator):
    def loss(locs, logits):
        kernel = pose_mixture(generator).kernel
        return losses.squared_error(Mixture(locs, logits.log_softmax(-1), kernel), torch.full((2, 3), 0.3, dtype=torch.float64))

    locs = torch.randn(2, 4, 3, generator=generator, dtype=torch.float64).requires_grad_()
    logits = torch.randn(2, 4, generator=generator, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(loss, (locs, logits))


@pytest.mark.parametrize("loss", [losses.negative_log_likelihood, losses.squared_error])
def test_losses_say_what_does_not_fit(loss, generator):
    posterior = pose_mixture(generator)
    cases = [
        (torch.zeros(2, 4, 2, dtype=torch.float64), ValueError, "One true state for each posterior."),
        (torch.zeros(2, 5, 3, dtype=torch.float64), ValueError, r"each frame after the initial one: states\[:, 1:\]"),
        (torch.zeros(2, 4, 1, 3, dtype=torch.float64), ValueError, "average over several yourself"),
        (torch.zeros(2, 4, 3), TypeError, "Convert one of them"),
        ([0.0], TypeError, "got list. One true state"),
    ]
    for target, error, words in cases:
        with pytest.raises(error, match=words):
            loss(posterior, target)
