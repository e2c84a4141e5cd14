"""The linear-Gaussian task: its data have the law of its model, and its exact beliefs are calibrated."""

import pytest
import torch

from mdpf import noise
from mdpf.tasks import linear_gaussian
from mdpf.testing.assertions import assert_mean

F64 = torch.float64


@pytest.mark.parametrize("dims", [(1, 1, 1), (2, 1, 1), (3, 2, 2), (2, 5, 1)])
def test_linear_gaussian_shapes_and_definite_covariances(dims, generator):
    state_dim, observation_dim, action_dim = dims
    model = linear_gaussian.example_model(*dims)
    for cov in (model.transition_cov, model.emission_cov, model.initial_cov):
        assert (torch.linalg.eigvalsh(cov) > 0.1).all()
    batch = linear_gaussian.simulate(model, 4, 6, generator=generator)
    assert batch.states.shape == (4, 6, state_dim)
    assert batch.observations.shape == (4, 6, observation_dim)
    assert batch.actions.shape == (4, 5, action_dim)
    beliefs = linear_gaussian.exact_beliefs(model, batch)
    assert beliefs.means.shape == (4, 5, state_dim)
    assert torch.isfinite(beliefs.log_evidence).all()


@pytest.mark.statistical
def test_linear_gaussian_exact_beliefs_are_calibrated(generator):
    """Squared errors, whitened by the exact covariance, average to one in every coordinate and are unrelated across them."""
    model = linear_gaussian.example_model(2, 1, 1, dtype=F64)
    batch = linear_gaussian.simulate(model, 4000, 5, generator=generator)
    beliefs = linear_gaussian.exact_beliefs(model, batch)
    errors = (batch.states[:, 1:] - beliefs.means)[..., None]
    whitened = torch.linalg.solve_triangular(torch.linalg.cholesky(beliefs.covariances), errors, upper=False)
    assert_mean(whitened[..., 0], 0.0, max_se=0.02, what="error")
    assert_mean(whitened @ whitened.mT, torch.eye(2, dtype=F64), max_se=0.03, what="squared error")


@pytest.mark.statistical
def test_linear_gaussian_evidence_has_its_entropy(generator):
    """The log-density of data under their own law averages to minus its entropy, known in closed form for a Gaussian."""
    model = linear_gaussian.example_model(1, 1, 1, dtype=F64)
    batch = linear_gaussian.simulate(model, 4000, 2, generator=generator)
    evidence = linear_gaussian.exact_beliefs(model, batch).log_evidence[:, 0]
    moved = model.transition**2 * model.initial_cov + model.transition_cov
    variance = model.emission**2 * moved + model.emission_cov
    entropy = 0.5 * (1 + (2 * torch.pi * variance).log()).item()
    assert_mean(evidence, -entropy, max_se=0.02)


def test_linear_gaussian_masks_reach_the_exact_filter(generator):
    model = linear_gaussian.example_model(dtype=F64)
    batch = linear_gaussian.simulate(model, 3, 5, generator=generator)
    observed = torch.ones(3, 5, dtype=torch.bool)
    observed[:, 2] = False
    valid = torch.ones(3, 5, dtype=torch.bool)
    valid[0, 3:] = False
    evidence = linear_gaussian.exact_beliefs(model, batch._replace(observed=observed, valid=valid)).log_evidence
    assert not evidence[:, 1].any()
    assert not evidence[0, 2:].any()
    assert evidence[1:, 2:].all()


def test_linear_gaussian_without_control_has_no_actions(generator):
    model = linear_gaussian.example_model()._replace(control=None, transition_offset=None, emission_offset=None)
    batch = linear_gaussian.simulate(model, 3, 5, generator=generator)
    assert batch.actions is None
    assert linear_gaussian.exact_beliefs(model, batch).means.shape == (3, 4, 2)


def test_linear_gaussian_simulation_replays_its_noise():
    model = linear_gaussian.example_model()
    recorder = noise.Recorder(torch.Generator().manual_seed(0))
    first = linear_gaussian.simulate(model, 3, 4, generator=recorder)
    again = linear_gaussian.simulate(model, 3, 4, generator=recorder.noise)
    assert torch.equal(first.states, again.states)
    assert torch.equal(first.observations, again.observations)


def test_linear_gaussian_refuses_odd_sizes():
    with pytest.raises(ValueError, match="length to be an integer of at least 2"):
        linear_gaussian.simulate(linear_gaussian.example_model(), 3, 1)
    with pytest.raises(ValueError, match="state_dim to be an integer of at least 1"):
        linear_gaussian.example_model(0)
