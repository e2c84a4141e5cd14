"""Evaluation on sequences: the numbers are those of single sequences, whatever the batches."""

import pytest
import torch

from mdpf import metrics, noise
from mdpf.checks import DegenerateWeightsError
from mdpf.data.sequences import SequenceBatch
from mdpf.evaluation.evaluate import evaluate
from mdpf.filters.generative import bootstrap
from mdpf.kernels import Gaussian


def walk(points, action=None, *, generator=None):
    return points + 0.1 * noise.normal(points.shape, points, generator)


def weigh(particles, feature):
    return -0.5 * (particles[..., 0] - feature[..., :1]).square()


def prior(states, num_particles, *, generator=None):
    around = states.unsqueeze(-2).expand(*states.shape[:-1], num_particles, -1)
    return around + 0.1 * noise.normal(around.shape, around, generator)


@pytest.fixture
def data(generator):
    states = torch.randn(7, 5, 1, generator=generator).cumsum(1)
    return SequenceBatch(states, states + 0.1 * torch.randn(7, 5, 1, generator=generator))


def make_filter(measurement=weigh):
    return bootstrap(walk, measurement, Gaussian(torch.tensor([0.5])))


def test_metrics_are_those_of_the_whole_data_set(data):
    pf = make_filter()
    found = evaluate(pf, data, prior=prior, num_particles=20, limit_lost=1.0, generator=torch.Generator().manual_seed(0))
    stream = torch.Generator().manual_seed(0)
    belief = pf.init(prior(data.states[:, 0], 20, generator=stream))
    _, trajectory = pf(belief, data.observations[:, 1:], generator=stream)
    expected = metrics.summarise(metrics.measure(belief.posterior, trajectory.posterior, data.states), limit=1.0)
    assert found.metrics.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found.metrics[name], value)
    assert found.curves["nll"].shape == (5,)
    assert found.degenerate == []


def test_batches_only_divide_the_work(data):
    parts = evaluate(make_filter(), data, prior=prior, num_particles=2000, batch=3, generator=torch.Generator().manual_seed(0))
    whole = evaluate(make_filter(), data, prior=prior, num_particles=2000, generator=torch.Generator().manual_seed(1))
    for name in ("nll", "rmse"):
        # Other random numbers, so equal up to what 2000 particles leave open.
        torch.testing.assert_close(parts.metrics[name], whole.metrics[name], rtol=0.05, atol=0.02)


def test_vanishing_weights_are_reported_by_sequence_and_frame(data):
    def impossible(particles, feature):
        scores = weigh(particles, feature)
        return torch.where((feature == data.observations[5, 3]).all(-1, keepdim=True), -torch.inf, scores)

    found = evaluate(make_filter(impossible), data, prior=prior, num_particles=10, batch=2)
    assert found.degenerate == [(5, 3)]
    assert all(torch.isfinite(value).all() for value in found.metrics.values())
    with pytest.raises(DegenerateWeightsError, match="got none at sequence 5, frame 3"):
        evaluate(make_filter(impossible), data, prior=prior, num_particles=10, batch=2, strict=True)


def test_states_that_are_not_finite_are_refused(data):
    data.states[2, 1] = torch.nan
    with pytest.raises(ValueError, match=r"evaluate needs finite states, got nan at index \[2, 1, 0\]"):
        evaluate(make_filter(), data, prior=prior, num_particles=10)


def test_observations_that_are_not_finite_are_refused_unless_marked_as_missing(data):
    data.observations[2, 1] = torch.inf
    with pytest.raises(ValueError, match=r"evaluate needs finite observations, got inf at index \[2, 1, 0\].*mark them in"):
        evaluate(make_filter(), data, prior=prior, num_particles=10)
    missing = torch.zeros(7, 5, dtype=torch.bool)
    missing[2, 1] = True
    found = evaluate(make_filter(), data._replace(observed=~missing), prior=prior, num_particles=10)
    assert found.degenerate == []
    assert found.metrics["nll"].isfinite()


def test_units_are_those_of_the_metrics(data):
    options = {"prior": prior, "num_particles": 20}
    ours, theirs = (
        evaluate(make_filter(), data, generator=torch.Generator().manual_seed(0), units=units, limit_lost=limit, **options).metrics
        for units, limit in ((None, 0.5), (torch.tensor([10.0]), 5.0))
    )
    torch.testing.assert_close(theirs["rmse"], 10 * ours["rmse"])
    torch.testing.assert_close(theirs["nll"], ours["nll"] + torch.tensor(10.0).log())
    torch.testing.assert_close(theirs["lost"], ours["lost"])
