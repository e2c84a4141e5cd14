"""Ready-made diagnoses: from a name, a weights file or the folder of a run to a comparison."""

import pytest
import torch

from mdpf.evaluation.diagnose import ESTIMATORS
from mdpf.recipes import bearings, diagnoses
from mdpf.recipes.methods import METHODS
from mdpf.training import weights

SMALL = {"num_particles": 3, "replicates": 2}


@pytest.fixture
def run(tmp_path):
    """The folder of a run with the weights of two methods."""
    torch.manual_seed(0)
    for method in ("MDPF", "LSTM"):
        config = bearings.Config(method)
        described = {"task": "bearings", "method": method}
        weights.save(tmp_path / "weights" / f"{method}.safetensors", METHODS[method].build(bearings.networks(config)), described)
    return tmp_path


@pytest.mark.parametrize("name", diagnoses.MODELS)
def test_every_named_model_can_be_diagnosed(name):
    before = torch.random.get_rng_state()
    found = diagnoses.MODELS[name](**SMALL)
    assert {row.estimator for row in found.rows} == set(ESTIMATORS)
    assert torch.equal(before, torch.random.get_rng_state()), "the global stream stays untouched"


def test_a_run_folder_stands_for_its_only_weights(run):
    with pytest.raises(ValueError, match="got weights/LSTM.safetensors, weights/MDPF.safetensors in .*Name the file itself"):
        diagnoses.weights_in(run)
    (run / "weights" / "LSTM.safetensors").unlink()
    expected = run / "weights" / "MDPF.safetensors"
    assert diagnoses.weights_in(run) == diagnoses.weights_in(run / "weights") == diagnoses.weights_in(expected) == expected
    assert len({row.parameter for row in diagnoses.trained_run(run, **SMALL).rows}) == 4


def test_what_has_no_particles_is_refused(run):
    with pytest.raises(ValueError, match="got the recurrent network in .*It resamples nothing"):
        diagnoses.trained_run(run / "weights" / "LSTM.safetensors", **SMALL)
