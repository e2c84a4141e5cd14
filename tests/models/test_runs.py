"""Several runs as one: stacked filters equal the single ones, in values and gradients."""

import copy

import pytest
import torch
from torch import nn

from mdpf import noise, resamplers, trees
from mdpf.kernels import Gaussian
from mdpf.models import FixedBandwidth, Linear, stack_runs, take_run
from mdpf.recipes.networks import VectorNetworks
from mdpf.spaces import StateSpace

SPACE = StateSpace.of("x", "y", theta="angle")
NETWORKS = VectorNetworks(SPACE, 2, (0.99,) * 4, (0.84, 0.84, 0.31), (0.1, 0.1, 0.001), action_dim=3)
METHODS = {
    "importance": lambda: NETWORKS.filter(resamplers.ImportanceWeighted()),
    "implicit": lambda: NETWORKS.filter(resamplers.ImplicitlyReparameterized()),
    "soft": lambda: NETWORKS.filter(resamplers.Soft()),
    "concrete": lambda: NETWORKS.filter(resamplers.Concrete()),
    "adaptive": lambda: NETWORKS.adaptive_filter(resamplers.ImportanceWeighted()),
    "recurrent": NETWORKS.recurrent_filter,
}


def run_filter(pf, particles, observations, actions, generator):
    observed = torch.ones(observations.shape[:-1], dtype=torch.bool)
    observed[..., 1] = False
    _, trajectory = pf(pf.init(particles), observations, actions, observed=observed, truncate=3, generator=generator)
    truth = torch.zeros(*observations.shape[:-1], 1, 3, dtype=particles.dtype)
    return trajectory, -trajectory.posterior.log_prob(truth).sum()


@pytest.mark.parametrize("method", METHODS)
def test_stacked_filters_equal_single_ones_with_the_same_noise(method, generator):
    torch.manual_seed(5)
    singles = [METHODS[method]().double() for _ in range(3)]
    stacked = stack_runs(singles)
    draw = lambda *shape: torch.randn(3, 2, *shape, generator=generator, dtype=torch.float64)  # noqa: E731
    particles, observations, actions = draw(5, 3), draw(4, 2), draw(4, 3)
    recorder = noise.Recorder(generator)
    together, loss = run_filter(stacked, particles, observations, actions, recorder)
    gradients = torch.autograd.grad(loss, list(stacked.parameters()), allow_unused=True, materialize_grads=True)
    for run, single in enumerate(singles):
        own = noise.Noise(tuple(drawn[run] for drawn in recorder.noise.draws))
        alone, loss = run_filter(single, particles[run], observations[run], actions[run], own)
        for left, right in zip(trees.leaves(alone), trees.leaves(together), strict=True):
            torch.testing.assert_close(left, right[run], rtol=1e-9, atol=1e-9)
        found = torch.autograd.grad(loss, list(single.parameters()), allow_unused=True, materialize_grads=True)
        for (name, _), left, right in zip(single.named_parameters(), found, gradients, strict=True):
            torch.testing.assert_close(left, right[run], rtol=1e-7, atol=1e-7, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("method", METHODS)
def test_take_run_undoes_stack_runs(method):
    singles = [METHODS[method]() for _ in range(2)]
    before = copy.deepcopy(singles[1].state_dict())
    stacked = stack_runs(singles)
    taken = take_run(stacked, 1)
    assert dict(taken.named_parameters()).keys() == dict(singles[1].named_parameters()).keys()
    for name, value in taken.state_dict().items():
        assert torch.equal(value, before[name])
    with torch.no_grad():
        for parameter in stacked.parameters():
            parameter.fill_(0)
    for module in (taken, singles[1]):  # Neither shares memory with the stack.
        assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_stacking_keeps_what_does_not_learn_from_learning():
    singles = [Linear(2, 2) for _ in range(2)]
    for single in singles:
        single.bias.requires_grad_(False)
    stacked = stack_runs(singles)
    assert not stacked.bias.requires_grad
    assert stacked.weight.requires_grad
    assert not take_run(stacked, 0).bias.requires_grad


def test_stacking_refuses_what_it_would_get_wrong():
    with pytest.raises(ValueError, match="at least one module, got none"):
        stack_runs([])
    with pytest.raises(TypeError, match="layers that accept a run axis, got Linear at '1'"):
        stack_runs([nn.Sequential(Linear(2, 2), nn.Linear(2, 2))])
    with pytest.raises(ValueError, match=r"got 'weight' of shape \(2, 2\) in the first and \(2, 3\) in number 1"):
        stack_runs([Linear(2, 2), Linear(3, 2)])
    with pytest.raises(ValueError, match="got different values of 'parameter_0' at '1'"):
        stack_runs([nn.Sequential(Linear(2, 2), FixedBandwidth(Gaussian(torch.tensor([width])))) for width in (1.0, 2.0)])


def test_take_run_refuses_runs_that_are_not_there():
    stacked = stack_runs([Linear(2, 3), Linear(2, 3)])
    for run in (-1, 2):
        with pytest.raises(ValueError, match=f"got run {run} and leading axes"):
            take_run(stacked, run)
    with pytest.raises(ValueError, match="a module with a run axis"):
        take_run(nn.Sequential(Linear(2, 3), Linear(3, 2)), 0)
