"""What result files are called, and what is still to be done."""

import pytest

from mdpf.evaluation.results import Result, provenance, save
from mdpf.recipes.filing import Filing, filing, weights_file


def test_a_setting_is_part_of_every_name():
    assert filing("maze", "MDPF", "maze-1").stages == {"maze-1": "likelihood", "maze-1-mse": "refinement"}
    assert filing("bearings", "TG-PF").stages == {"default": "bandwidth"}
    assert filing("bearings", "MDPF").title == "MDPF"
    assert filing("house", "MDPF", "wide").title == "MDPF (wide)"
    assert Filing("bearings", "TG-PF", {"biweight": "bandwidth"}).title == "TG-PF (biweight)"


def test_weights_lie_beside_results_under_the_same_name(tmp_path):
    assert weights_file(tmp_path, "MDPF+") == tmp_path / "weights" / "MDPF+.safetensors"
    assert weights_file(tmp_path, "MDPF", "bound-0.99") == tmp_path / "weights" / "MDPF@bound-0.99.safetensors"


def test_a_training_is_done_when_all_its_results_are_there(tmp_path):
    where, notes = filing("bearings", "MDPF"), {"seed": 0}
    for setting in where.stages:
        assert not where.done(tmp_path, notes)
        save(Result("bearings", "MDPF", [], notes, provenance(0.0), setting), tmp_path)
    assert where.done(tmp_path, notes)
    with pytest.raises(FileExistsError, match="results of another configuration.*seed=0 where this has 1"):
        where.done(tmp_path, {"seed": 1})
