"""A run trained alone and the same run among ten others end up alike: the run axis is a matter of speed alone."""

from dataclasses import replace

import pytest
import torch

from mdpf.models import stack_runs
from mdpf.testing.assertions import assert_mean
from mdpf.training.fit import fit

RUNS = 11
NUM_RUNS = 3 * RUNS


def train(make_single, stage, data, *, together):
    """The validation loss of every run, ``together`` of them in one training; each starts from parameters of its own number."""
    found = []
    for first in range(0, NUM_RUNS, together):
        stack = stack_runs([make_single(first + run) for run in range(together)])
        found.append(fit(stack, stage, *data, num_runs=together, seed=1000 * together + first).validation)
    return torch.cat(found)


@pytest.mark.statistical
@pytest.mark.slow
def test_runs_alone_and_among_others_agree_in_distribution(make_single, make_stage, data):
    """Alone and among others a run starts from the same parameters and sees other batches and other noise."""
    stage = make_stage(epochs=2, rates={"": 5e-2}, validation_batch=8)
    together, alone = (train(make_single, stage, data, together=count) for count in (RUNS, 1))
    assert_mean(together - alone, 0.0, max_se=2.0)
    # It would be noticed if a run moved as far as all of them together should.
    slower = train(make_single, replace(stage, rates={"": 5e-2 / RUNS}), data, together=RUNS)
    with pytest.raises(AssertionError, match="mean: got"):
        assert_mean(slower - alone, 0.0, max_se=2.0)
