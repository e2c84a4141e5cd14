"""The house study at the smallest size: every stage, every file, units, and going on."""

import json
import math
from dataclasses import replace

import pytest
import torch

from mdpf.evaluation import results
from mdpf.recipes import house, house_study
from mdpf.recipes.house import Config, Sizes
from mdpf.recipes.parts import carry_out
from mdpf.recipes.studies import Place
from mdpf.recipes.training import Preset
from mdpf.report import house_figures
from mdpf.tasks.homes import geometry, task
from mdpf.tasks.homes.task import METRES
from mdpf.training import weights
from mdpf.training.deadline import Deadline
from mdpf.training.stages import Cosine


@pytest.fixture(scope="module")
def few():
    return tuple(home for split in ("train", "validation", "evaluation") for home in geometry.homes(split, count=2))


@pytest.fixture
def tiny(few, monkeypatch):
    """A study of six homes and a handful of walks."""
    monkeypatch.setattr(task, "all_homes", lambda: few)
    lengths = {"train": 9, "validation": 9, "evaluation": 12}
    monkeypatch.setattr(task, "SPLITS", tuple(replace(split, length=lengths[split.name]) for split in task.SPLITS))
    monkeypatch.setitem(house.PRESETS, "quick", Preset(1e-3, 1e-3, 0.5, 1, 1, 1e-3, 1, Cosine()))
    monkeypatch.setitem(house.SIZES, "quick", Sizes(2, 2, 2))
    for cached in (house._networks, house._split):
        cached.cache_clear()
    yield few
    for cached in (house._networks, house._split):
        cached.cache_clear()


def config(method, **changes):
    return Config(method, preset="quick", particles=4, samples=1, batch=2, **changes)


def place_in(folder, told=None):
    watch = None if told is None else lambda name, epoch: told.append(epoch)
    return Place(folder / "results", folder / "work", watch=watch)


def test_a_study_trains_judges_and_writes_in_metres(tiny, tmp_path):
    told = []
    chosen = config("MDPF")
    paths = house_study.study(chosen, place_in(tmp_path, told))
    names = [path.relative_to(tmp_path / "results").as_posix() for path in paths]
    assert names == ["MDPF.json", "weights/MDPF.safetensors", "MDPF@mse.json", "weights/MDPF@mse.safetensors"]
    assert [epoch.stage for epoch in told] == ["measurement", "likelihood", "refinement"]
    result = results.load(paths[0])
    assert (result.experiment, result.config["units"]["length"]) == ("house", "m")
    (run,) = result.runs
    assert len(run["quartiles"]["rmse_paper"]) == 3
    assert len(run["curves"]["position_rmse"]) == 12
    filter, known = house.load_run(paths[1])
    assert known == chosen
    again = house_study.judge(filter, chosen)
    assert again.metrics["rmse_paper"].item() == pytest.approx(run["metrics"]["rmse_paper"], rel=1e-4)
    assert [path.name for path in house_figures.draw_study(tmp_path / "results")] == ["errors.png"]
    # Done is done, and other choices are refused.
    assert house_study.study(chosen, place_in(tmp_path))[0] == paths[0]
    with pytest.raises(FileExistsError, match="seed=0 where this has 1"):
        house_study.study(config("MDPF", seed=1), place_in(tmp_path))


def test_a_method_is_not_begun_on_a_gpu_with_little_time_left(tmp_path):
    (part, _) = house_study.parts([config("MDPF")], Place(tmp_path, tmp_path, "cuda"), house_study.Scope())
    assert carry_out([part], until=Deadline(house_study.BEGINNING / 2)).left == {"MDPF": "No time is left for MDPF."}


def test_units_are_those_of_the_paper_times_a_pixel():
    found = {"nll": torch.tensor([8.092]), "rmse_paper": torch.tensor([30.51]), "angle_rmse": torch.tensor([0.3])}
    metres = house_study.in_metres(found)
    assert metres["rmse_paper"].item() == pytest.approx(0.6102)
    assert metres["angle_rmse"].item() == pytest.approx(0.3)
    # The density per square metre is 2500 times the density per square pixel.
    assert math.exp(-metres["nll"].item()) == pytest.approx(math.exp(-8.092) / METRES**2, rel=1e-5)


@pytest.mark.parametrize("method", ["A-MDPF", "DIS-PF"])
def test_other_methods_train_too(method, tiny, tmp_path):
    told = []
    house_study.study(config(method), place_in(tmp_path, told))
    expected = {
        "A-MDPF": ["measurement", "likelihood", "likelihood", "refinement"],
        "DIS-PF": ["measurement", "error", "bandwidth"],
    }
    assert [epoch.stage for epoch in told] == expected[method]
    assert (tmp_path / "results" / f"{method}.json").exists()


def test_a_setting_borrows_the_measurement_model_and_is_filed_under_its_name(tiny, tmp_path):
    changes = {"particles": 4, "samples": 1, "batch": 2}
    base = Config("LSTM", preset="quick", **changes)
    todo = house_study.parts([base], place_in(tmp_path), house_study.Scope(settings=("as-published",)))
    assert [part.name for part in todo] == ["LSTM", "LSTM (as-published)", "dead-reckoning"]
    for part in todo:
        assert not part.done()
        part.do(Deadline())
        assert part.done()
    # What is done leaves nothing but its measurement model.
    assert not list((tmp_path / "work" / "LSTM").glob("*.safetensors"))
    reckoned = results.load(tmp_path / "results" / "dead-reckoning.json").runs[0]
    assert 0.1 < reckoned["metrics"]["position_rmse"] < 3
    assert reckoned["curves"]["position_rmse"][0] < reckoned["curves"]["position_rmse"][-1]
    first, other = ((tmp_path / "work" / place / "measurement" / "measurement.safetensors") for place in ("", "as-published"))
    assert first.read_bytes() == other.read_bytes()
    saved = weights.load(tmp_path / "results" / "weights" / "LSTM@as-published.safetensors")
    assert saved.config["as_published"] is True
    assert sum(tensor.numel() for tensor in saved.tensors.values()) == 2_897_170
    notes = json.loads((tmp_path / "results" / "LSTM@as-published.json").read_text())
    assert notes["setting"] == "as-published"


def test_weights_of_another_study_are_refused(tiny, tmp_path):
    weights.save(tmp_path / "other.safetensors", torch.nn.Linear(1, 1), {"task": "bearings", "method": "MDPF"})
    with pytest.raises(ValueError, match="needs weights of the house study"):
        house.load_run(tmp_path / "other.safetensors")
