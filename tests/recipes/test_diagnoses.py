"""Ready-made diagnoses: from a name, a weights file or the folder of a run to a comparison."""

import math
from typing import Any

import pytest
import torch

from mdpf.data import SequenceBatch, files
from mdpf.evaluation.diagnose import ESTIMATORS
from mdpf.recipes import bearings, diagnoses, logs
from mdpf.recipes.methods import METHODS
from mdpf.spaces import StateSpace
from mdpf.training import weights

SMALL: dict[str, Any] = {"num_particles": 3, "replicates": 2}


@pytest.fixture
def run(tmp_path):
    """The folder of a run with the weights of two methods."""
    torch.manual_seed(0)
    for method in ("MDPF", "LSTM"):
        config = bearings.Config(method)
        described = {"task": "bearings", "method": method, "particles": 25}
        weights.save(tmp_path / "weights" / f"{method}.safetensors", METHODS[method].build(bearings.networks(config)), described)
    return tmp_path


@pytest.mark.parametrize("name", diagnoses.MODELS)
def test_every_named_model_can_be_diagnosed(name):
    before = torch.random.get_rng_state()
    found = diagnoses.MODELS[name](**SMALL)
    assert {row.estimator for row in found.rows} == set(ESTIMATORS)
    assert torch.equal(before, torch.random.get_rng_state()), "the global stream stays untouched"


def test_a_run_folder_stands_for_its_only_weights(run):
    with pytest.raises(ValueError, match="got the folder .* with several. Name one: LSTM.safetensors, MDPF.safetensors"):
        diagnoses.trained_run(run, **SMALL)
    (run / "weights" / "LSTM.safetensors").unlink()
    assert len({row.parameter for row in diagnoses.trained_run(run, **SMALL).rows}) == 4


@pytest.fixture
def logs_run(tmp_path):
    """A run on recorded images: with gaps, sparse labels, sequences of different length, and refined weights beside it."""
    generator = torch.Generator().manual_seed(0)
    states = 0.3 * torch.randn(12, 40, 2, generator=generator).cumsum(1)
    space = StateSpace.of("x", theta="angle")
    data = SequenceBatch(
        states=space.wrap(states),
        observations=torch.randint(0, 256, (12, 40, 8, 8, 1), dtype=torch.uint8, generator=generator),
        labelled=(torch.arange(40) % 7 == 0).expand(12, 40),
        valid=torch.arange(40) < torch.arange(12)[:, None] + 29,
        observed=torch.rand(12, 40, generator=generator) < 0.7,
    )
    files.write(tmp_path / "pendulum.npz", data, space)
    config = logs.Config("A-MDPF", hidden_dim=4)
    prepared = logs.prepare(tmp_path / "pendulum.npz", seed=0)
    filter = METHODS["A-MDPF"].build(logs.LogNetworks(prepared.blueprint, 4))
    notes = {"task": "file", "data": "pendulum.npz"} | logs.describe(config, prepared)
    for name in ("A-MDPF", "A-MDPF@mse"):
        weights.save(tmp_path / "run" / "weights" / f"{name}.safetensors", filter, notes)
    return tmp_path / "run", tmp_path / "pendulum.npz"


def test_a_run_on_ones_own_sequences_can_be_diagnosed(logs_run):
    folder, data = logs_run
    found = diagnoses.trained_run(folder, data=data, **SMALL)
    assert {row.estimator for row in found.rows} == set(ESTIMATORS)
    parts = {row.parameter.split(".")[0] for row in found.rows}
    assert {"dynamics", "measurement", "bandwidth", "resampling_bandwidth", "encoder"} <= parts
    assert all(math.isfinite(row.spread) for row in found.rows)


def test_a_run_on_ones_own_sequences_needs_them(logs_run):
    folder, _ = logs_run
    with pytest.raises(ValueError, match=r"needs sequences for the run in .*, got none\. Add --data and the file"):
        diagnoses.trained_run(folder, **SMALL)


def test_what_has_no_particles_is_refused(run):
    with pytest.raises(ValueError, match="got the recurrent network in .*It resamples nothing"):
        diagnoses.trained_run(run / "weights" / "LSTM.safetensors", **SMALL)
