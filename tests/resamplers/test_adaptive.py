"""Resampling only where it is due: decided element by element, and right in both branches."""

import math

import pytest
import torch
from torch.testing import assert_close

from mdpf import Mixture, resamplers
from mdpf.kernels import Gaussian
from mdpf.resamplers import Adaptive
from mdpf.testing import assert_mean

INNER = {
    "discrete": resamplers.Discrete(),
    "soft": resamplers.Soft(),
    "stop-gradient": resamplers.StopGradient(),
    "concrete": resamplers.Concrete(),
    "transport": resamplers.OptimalTransport(),
    "diffusion": resamplers.Diffusion(),
    "truncated": resamplers.Truncated(),
    "importance": resamplers.ImportanceWeighted(),
    "pathwise": resamplers.ComponentPathwise(),
    "implicit": resamplers.ImplicitlyReparameterized(),
}


@pytest.fixture(params=INNER.values(), ids=INNER.keys())
def inner(request):
    return request.param


def mixture_of(*weights, dtype=torch.float64):
    """One batch element for each tuple of weights."""
    log_weights = torch.tensor(weights, dtype=dtype).log()
    locs = torch.arange(float(log_weights.numel()), dtype=dtype).reshape(*log_weights.shape, 1)
    return Mixture(locs, log_weights, Gaussian(torch.full((1,), 0.3, dtype=dtype)))


# Effective sample sizes of 1.0, 4.0, 2.0 and 2.0 (two of them dead) out of four.
EQUAL = (0.25, 0.25, 0.25, 0.25)
UNEQUAL = (0.999, 0.001 / 3, 0.001 / 3, 0.001 / 3)
HALF = (0.5, 0.5, 0.0, 0.0)


def seeded():
    return torch.Generator().manual_seed(0)


def test_elements_are_decided_one_by_one(inner):
    mixture = mixture_of(EQUAL, UNEQUAL, EQUAL)
    draw, always = Adaptive(inner)(mixture, 4, generator=seeded()), inner(mixture, 4, generator=seeded())
    for carried in (0, 2):
        assert torch.equal(draw.points[carried], mixture.locs[carried])
        assert torch.equal(draw.log_weights[carried], mixture.log_weights[carried])
    assert torch.equal(draw.points[1], always.points[1])
    assert torch.equal(draw.log_weights[1], always.log_weights[1])


@pytest.mark.parametrize(("threshold", "resampled"), [(0.49, False), (0.51, True)])
def test_threshold_is_a_share_of_the_particles(threshold, resampled):
    mixture = mixture_of(HALF)
    draw = Adaptive(resamplers.Truncated(), threshold)(mixture, 4, generator=seeded())
    assert torch.equal(draw.points, mixture.locs) is not resampled


def test_another_number_of_particles_is_always_drawn(inner):
    draw = Adaptive(inner)(mixture_of(EQUAL), 7, generator=seeded())
    assert draw.points.shape == (1, 7, 1)


def test_carried_particles_keep_their_whole_gradient(inner):
    logits = torch.zeros(1, 4, dtype=torch.float64, requires_grad=True)
    locs = torch.arange(4.0, dtype=torch.float64)[:, None].unsqueeze(0).requires_grad_()
    mixture = Mixture(locs, logits.log_softmax(-1), Gaussian(torch.ones(1, dtype=torch.float64)))
    draw = Adaptive(inner)(mixture, 4, generator=seeded())
    (draw.log_weights.exp() * draw.points[..., 0].square()).sum().backward()
    weights, values = torch.full((1, 4), 0.25, dtype=torch.float64), locs.detach()[..., 0] ** 2
    assert_close(locs.grad[..., 0], 2 * weights * locs.detach()[..., 0])
    assert_close(logits.grad, weights * (values - values.mean()))


def test_one_element_does_not_reach_the_gradient_of_another(inner):
    """Both branches are computed everywhere; what was not chosen leaves no trace, not even where weights vanish."""
    mixture = mixture_of(EQUAL, (1.0, 0.0, 0.0, 0.0))
    locs = mixture.locs.clone().requires_grad_()
    draw = Adaptive(inner)(mixture._replace(locs=locs), 4, generator=seeded())
    (draw.log_weights[0].exp() @ draw.points[0]).sum().backward()
    assert_close(locs.grad[0], torch.full((4, 1), 0.25, dtype=torch.float64))
    assert not locs.grad[1].any()


@pytest.mark.statistical
def test_mean_is_right_over_a_mixed_batch(generator):
    """Mass and mean hold in elements that were resampled and in those that were not."""
    mixture = mixture_of(EQUAL, UNEQUAL, (0.4, 0.1, 0.3, 0.2))
    repeated = Mixture(mixture.locs.expand(5000, 3, 4, 1), mixture.log_weights.expand(5000, 3, 4), mixture.kernel)
    draw = Adaptive(resamplers.ImportanceWeighted(), 0.9)(repeated, 4, generator=generator)
    weights = draw.log_weights.exp()
    assert_close(weights.sum(-1), torch.ones(5000, 3, dtype=torch.float64))
    assert_mean((weights.unsqueeze(-1) * draw.points).sum(-2), mixture.mean(), max_se=0.02)


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.01, math.nan])
def test_adaptive_refuses_a_threshold_that_is_no_share(threshold):
    with pytest.raises(ValueError, match="Adaptive needs a threshold above 0 and up to 1"):
        Adaptive(resamplers.Truncated(), threshold)
