"""A tiny study: small networks for bearings, a few short sequences, a loss."""

import pytest
import torch

from mdpf import resamplers
from mdpf.models import stack_runs
from mdpf.recipes.networks import VectorNetworks
from mdpf.tasks import bearings
from mdpf.training.objectives import Tracking
from mdpf.training.stages import Cosine, Stage

TASK = bearings.task()
NETWORKS = VectorNetworks(TASK.space, 2, (1.6, 1.6, 0.99, 0.99), (0.84, 0.84, 0.31), (0.1, 0.1, 0.001), hidden_dim=4)

RESAMPLERS = {
    "importance": resamplers.ImportanceWeighted,
    "implicit": resamplers.ImplicitlyReparameterized,
    "transport": resamplers.OptimalTransport,
    "truncated": resamplers.Truncated,
}


def nll(posterior, states):
    return -posterior.log_prob(states.unsqueeze(-2)).squeeze(-1)


@pytest.fixture
def task():
    return TASK


@pytest.fixture
def tracking():
    return Tracking(nll, TASK.prior, num_particles=4, truncate=4)


@pytest.fixture
def make_single():
    """One filter whose parameters depend on its seed alone."""

    def make(seed=0, method="importance"):
        torch.manual_seed(seed)
        if method == "recurrent":
            return NETWORKS.recurrent_filter()
        if method == "adaptive":
            return NETWORKS.adaptive_filter(resamplers.ImportanceWeighted())
        return NETWORKS.filter(RESAMPLERS[method]())

    return make


@pytest.fixture
def make_stack(make_single):
    def make(num_runs=2, method="importance"):
        return stack_runs([make_single(seed, method) for seed in range(num_runs)])

    return make


@pytest.fixture
def make_stage(tracking):
    def make(**changes):
        options = {"epochs": 4, "schedule": Cosine(), "batch": 6, "validation_batch": 5, "clip": 100.0}
        return Stage("nll", **{"objective": tracking, "rates": {"": 3e-3, "bandwidth": 1e-3}, **options, **changes})

    return make


@pytest.fixture(scope="session")
def data():
    """``(train, validation)``."""
    return TASK.split("train", num_sequences=16, length=9), TASK.split("validation", num_sequences=8, length=9)
