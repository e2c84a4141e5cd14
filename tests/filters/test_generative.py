"""The bootstrap and the regularized filter: plain filters with given dynamics and likelihood."""

import pytest
import torch

import mdpf
from mdpf import kernels, resamplers
from mdpf.filters import bootstrap, regularized
from mdpf.models import FixedBandwidth
from mdpf.tasks.linear_gaussian import example_model
from mdpf.testing import check_filter
from mdpf.testing.linear_gaussian import dynamics_of, log_likelihood_of


@pytest.mark.statistical
def test_bootstrap_and_regularized_agree_with_kalman():
    check_filter(lambda dynamics, measurement, bandwidth: bootstrap(dynamics, measurement, bandwidth), smooths=False)
    check_filter(lambda dynamics, measurement, bandwidth: regularized(dynamics, measurement, bandwidth), smooths=True)


@pytest.mark.parametrize("make", [bootstrap, regularized])
def test_generative_filters_take_a_kernel_or_a_module(make, generator):
    model = example_model(dtype=torch.float64)
    kernel = kernels.Gaussian(torch.tensor([0.2, 0.3], dtype=torch.float64))
    particles = torch.randn(4, 10, 2, generator=generator, dtype=torch.float64)
    found = []
    for bandwidth in (kernel, FixedBandwidth(kernel)):
        pf = make(dynamics_of(model), log_likelihood_of(model), bandwidth)
        assert isinstance(pf, mdpf.ParticleFilter)
        observations, actions = torch.ones(4, 3, 1, dtype=torch.float64), torch.ones(4, 3, 1, dtype=torch.float64)
        belief, _ = pf(pf.init(particles), observations, actions, generator=torch.Generator().manual_seed(1))
        found.append(belief.posterior.locs)
    assert torch.equal(*found)


def test_generative_filters_differ_in_whether_particles_coincide(generator):
    def stay(points, action, *, generator):
        return points

    def prefer_right(particles, observation):
        return 3 * particles[..., 0]

    counts = {}
    for make in (bootstrap, regularized):
        pf = make(stay, prefer_right, kernels.Gaussian(torch.tensor([0.1])))
        belief, _ = pf(pf.init(torch.randn(50, 1, generator=generator)), torch.zeros(4, 1), generator=generator)
        counts[make.__name__] = len(belief.particles.unique())
    assert counts["regularized"] == 50
    assert counts["bootstrap"] < 25


def test_generative_filters_take_another_resampler():
    rule = resamplers.Adaptive(resamplers.ImportanceWeighted())
    for make in (bootstrap, regularized):
        assert make(None, None, kernels.Gaussian(torch.ones(1)), resampler=rule).resampler is rule
