"""The long campaigns at the size of a test: killed trainings end as undisturbed ones, and trackers survive what comes."""

from pathlib import Path

import pytest
import torch

import mdpf
from mdpf.filters import Belief
from mdpf.recipes import bearings, logs
from mdpf.recipes.methods import METHODS
from mdpf.reliability import agreement, kills, soak
from mdpf.tracking import Tracker
from mdpf.training import weights


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_killed_training_ends_like_an_undisturbed_one(tmp_path, monkeypatch):
    monkeypatch.setattr(kills, "METHOD", "TG-PF")
    monkeypatch.setattr(kills, "UPDATES", kills.UPDATES._replace(full=4, measurement=4, short=3))
    found = kills.campaign(tmp_path, kills=2)
    assert found["kills"] == 2
    assert found["trainings"] >= 1
    assert found["different"] == 0


def test_difference_is_noticed(tmp_path):
    data = kills.record(tmp_path / "walk.npz")
    assert data.exists()
    assert kills.outcome(tmp_path) == {}


@pytest.fixture
def run(tmp_path) -> Path:
    config = bearings.Config("MDPF")
    torch.manual_seed(0)
    filter = METHODS["MDPF"].build(bearings.networks(config))
    path = tmp_path / "MDPF.safetensors"
    weights.save(path, filter, {"task": "bearings", **vars(config)})
    return path


def test_soak_goes_on_where_it_stopped(run, tmp_path, monkeypatch):
    monkeypatch.setattr(soak, "LENGTH", 15)
    monkeypatch.setattr(soak, "CARS", 4)
    whole = soak.soak(run, tmp_path / "whole.safetensors", frames=40, cars=2, particles=5)
    soak.soak(run, tmp_path / "parts.safetensors", frames=17, cars=2, particles=5)
    parts = soak.soak(run, tmp_path / "parts.safetensors", frames=40, cars=2, particles=5)
    for name in ("frames", "missing", "absurd", "degenerate", "worst_sum"):
        assert parts[name] == whole[name]
    assert whole["frames"] == 40
    assert whole["missing"] > 0
    assert whole["absurd"] > 0


def test_soak_notices_weights_that_do_not_sum_to_one(run, tmp_path, monkeypatch):
    monkeypatch.setattr(soak, "LENGTH", 15)
    monkeypatch.setattr(soak, "CARS", 4)
    step = Tracker.step

    def leak(tracker, belief, *inputs, **options):
        new = step(tracker, belief, *inputs, **options)
        light = new.posterior._replace(log_weights=new.posterior.log_weights - 0.01)
        return new._replace(belief=Belief(light, light))

    monkeypatch.setattr(Tracker, "step", leak)
    with pytest.raises(AssertionError, match="Frame 0 needs finite particles whose weights sum to one, got sums off by 0.00995"):
        soak.soak(run, tmp_path / "state.safetensors", frames=20, cars=2, particles=5)


def test_same_seed_gives_the_same_bits_and_others_are_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(agreement, "UPDATES", logs.Updates(3, 3, 3))
    found = agreement.measure("cpu", tmp_path / "work", runs=3)
    assert found["identical"]
    assert found["device"] == "cpu"
    assert {len(values) for values in found["metrics"].values()} == {3}
    assert agreement.difference(found, found, "nll") == (0.0, 0.0)
    prepare, seeds = logs.prepare, iter((0, 1))
    monkeypatch.setattr(logs, "prepare", lambda path: prepare(path, seed=next(seeds)))
    assert not agreement.measure("cpu", tmp_path / "other", runs=3)["identical"]


def test_weights_that_are_no_numbers_are_not_loaded(run):
    broken = weights.load(run)
    broken.tensors["bandwidth.log_excess"].fill_(float("nan"))
    filter = METHODS["MDPF"].build(bearings.networks(bearings.Config("MDPF")))
    weights.fill(filter, broken)
    weights.save(run, filter, broken.config)
    with pytest.raises(ValueError, match="needs finite bandwidth.log_excess, got nan"):
        mdpf.load(run)
