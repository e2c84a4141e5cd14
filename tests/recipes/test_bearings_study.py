"""The study at a tiny size: whatever interrupts it, the numbers are those of an undisturbed one."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from mdpf.evaluation import results
from mdpf.recipes import bearings, bearings_study, studies, training
from mdpf.recipes.bearings_study import Scope
from mdpf.recipes.studies import Place
from mdpf.recipes.travel import pack, unpack
from mdpf.training import checkpoint
from mdpf.training.deadline import Deadline
from mdpf.training.fit import Fitted
from mdpf.training.stages import Cosine

TINY = bearings.Preset(2e-3, 2e-3, 0.5, 2, 1, 1e-3, 1, Cosine())
SIZES = bearings.Sizes(96, 8, 4)
SCOPE = Scope(particles=(30,), num_sequences=2, oracle_particles=0, settings=())
TRAINING = Scope((), 0, 0, settings=())


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(bearings.PRESETS, "tiny", TINY)
    monkeypatch.setitem(bearings.SIZES, "tiny", SIZES)


def study(folder, *, methods=("MDPF", "A-MDPF", "TG-PF"), watch=None, jobs=None, scope=SCOPE, **options):
    place = Place(folder / "results", folder / "work", watch=watch, jobs=jobs)
    return bearings_study.run(place, methods=methods, runs=2, preset="tiny", scope=scope, **options)


def numbers(folder):
    """Runs by file, which do not depend on who made them and when."""
    files = sorted((folder / "results").glob("[A-Z]*.json"))
    return {file.name: json.loads(file.read_text())["runs"] for file in files}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(bearings.PRESETS, "tiny", TINY)
        patch.setitem(bearings.SIZES, "tiny", SIZES)
        outcome = study(folder)
    assert not outcome.left
    assert not outcome.failed
    return folder


def test_study_writes_every_result_with_its_weights_and_the_time_of_its_parts(undisturbed):
    methods = {"MDPF": ("", "@mse", "@n-30"), "A-MDPF": ("", "@mse", "@n-30"), "TG-PF": ("", "@n-30")}
    assert set(numbers(undisturbed)) == {f"{name}{end}.json" for name, ends in methods.items() for end in ends}
    found = results.load(undisturbed / "results" / "MDPF@mse.json")
    assert [run["seed"] for run in found.runs] == [0, 1]
    stages = ["measurement", "likelihood", "refinement"]
    assert [*found.provenance.parts] == [part for name in stages for part in (f"{name}, preparing", name)] + ["evaluation"]
    assert found.provenance.seconds == pytest.approx(sum(found.provenance.parts.values()), abs=0.5)
    assert "refinement" not in results.load(undisturbed / "results" / "MDPF.json").provenance.parts
    (call,) = results.read_json(undisturbed / "results" / "calls.json")
    assert {"MDPF", "TG-PF", "A-MDPF with 30 particles"} <= call["parts"].keys()
    assert call["left"] == {}


def test_weights_are_those_of_the_median_run(undisturbed):
    """Judged alone, from its file, the run has the likelihood it had among the others, up to its own random numbers."""
    folder = undisturbed / "results"
    found = results.load(folder / "MDPF.json")
    filter = bearings.load_run(folder / "weights" / "MDPF.safetensors")
    config = bearings.Config("MDPF", runs=2, preset="tiny")
    trained = bearings.train(config, undisturbed / "work").filters["likelihood"]
    for name, parameter in trained.named_parameters():
        assert torch.equal(filter.get_parameter(name), parameter[found.median_run()])


def test_done_parts_are_not_done_again(undisturbed):
    before = {path: path.stat().st_mtime_ns for path in (undisturbed / "results").rglob("*") if path.name != "calls.json"}
    assert study(undisturbed).seconds == {}
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_study_of_another_configuration_is_refused_before_anything_is_done(undisturbed):
    before = {path: path.read_bytes() for path in undisturbed.rglob("*") if path.is_file()}
    with pytest.raises(FileExistsError, match="results of another configuration.*seed=0 where this has 3"):
        study(undisturbed, seed=3)
    assert {path: path.read_bytes() for path in undisturbed.rglob("*") if path.is_file()} == before


def test_stopped_after_every_epoch_and_carried_elsewhere_it_ends_with_the_same_numbers(undisturbed, tmp_path, monkeypatch):
    """Every call makes one epoch, then its time is over; the next one goes on somewhere else with what was packed."""
    methods, scope, places = ("MDPF",), TRAINING, []
    monkeypatch.setattr(studies, "Deadline", lambda *seconds: places[-1][1])
    for call in range(10):
        place, until = tmp_path / str(call), Deadline()
        if places:
            unpack(tmp_path / "luggage.tar", {"results": place / "results", "work": place / "work"})
        places.append((place, until))
        outcome = study(place, methods=methods, scope=scope, watch=lambda name, epoch, until=until: until.stop())
        assert pack(tmp_path / "luggage.tar", {"results": place / "results", "work": place / "work"}) == []
        if not outcome.left:
            break
        assert "is to go on after epoch" in outcome.left["MDPF"] or "No time is left for preparing" in outcome.left["MDPF"]
    assert len(places) > 2
    theirs = numbers(undisturbed)
    assert numbers(place) == {name: theirs[name] for name in ("MDPF.json", "MDPF@mse.json")}
    assert len(results.read_json(place / "results" / "calls.json")) == len(places)


@pytest.mark.slow
def test_methods_trained_at_once_have_the_same_numbers(undisturbed, tmp_path):
    study(tmp_path, jobs=3, scope=TRAINING)
    theirs = numbers(undisturbed)
    assert numbers(tmp_path) == {name: runs for name, runs in theirs.items() if "@n-" not in name}


PROGRAM = """
import os, signal, sys
sys.path[:] = {path!r}
from pathlib import Path
from mdpf.recipes import bearings, bearings_study
from mdpf.recipes.studies import Place
from mdpf.training.stages import Cosine
from mdpf.training.objectives import Tracking
bearings.PRESETS["tiny"] = bearings.{tiny!r}
bearings.SIZES["tiny"] = bearings.{sizes!r}
calls, objective = 0, Tracking.find  # What learning and judging both go through.

def deadly(*args, **options):
    global calls
    calls += 1
    if calls == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    return objective(*args, **options)

Tracking.find = deadly
folder = Path({folder!r})
scope = bearings_study.Scope((), 0, 0, settings=())
bearings_study.run(Place(folder / "results", folder / "work"), methods=("MDPF",), runs=2, preset="tiny", scope=scope)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_killed_in_the_middle_of_an_epoch_it_ends_with_the_same_numbers(undisturbed, tmp_path):
    """An epoch is two batches and one of validation, the noise of the first is recorded in one more call; the second epoch dies."""
    program = PROGRAM.format(path=sys.path, tiny=TINY, sizes=SIZES, folder=str(tmp_path))
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    died = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert not (tmp_path / "results").exists()
    assert checkpoint.load(tmp_path / "work" / "MDPF" / "likelihood.safetensors").notes["epoch"] == 1
    study(tmp_path, methods=("MDPF",), scope=TRAINING)
    theirs = numbers(undisturbed)
    assert numbers(tmp_path) == {name: theirs[name] for name in ("MDPF.json", "MDPF@mse.json")}


def test_oracle_is_a_part_of_the_study(tmp_path, monkeypatch):
    asked = {}
    monkeypatch.setattr(bearings_study.oracle, "study", lambda folder, **options: asked.update(options))
    monkeypatch.setattr(bearings_study, "study", lambda *args, **options: None)
    study(tmp_path, methods=("MDPF",), scope=Scope((), 0, oracle_particles=20, oracle_fitting=2, settings=()))
    assert asked == {"device": "cpu", "particles": 20, "num_sequences": 4, "num_fitting": 2, "seed": 0}


def test_other_settings_are_filed_beside_the_default(undisturbed, tmp_path, monkeypatch):
    monkeypatch.setitem(bearings_study.SETTINGS, "wide", ("MDPF", {"hidden_dim": 10, "located": True}))
    outcome = study(tmp_path, methods=("TG-PF", "MDPF"), scope=Scope((), 0, 0, settings=("bound-0.99", "wide")))
    assert not outcome.failed
    folder, theirs = tmp_path / "results", numbers(undisturbed)
    found = numbers(tmp_path)
    assert {f"MDPF@{name}.json" for name in ("bound-0.99", "bound-0.99-mse", "wide", "wide-mse")} < found.keys()
    assert found["MDPF.json"] == theirs["MDPF.json"]
    assert found["MDPF@bound-0.99.json"] != found["MDPF.json"]
    assert results.load(folder / "MDPF@bound-0.99.json").config["bound"] == 0.99
    assert bearings.load_run(folder / "weights" / "MDPF@bound-0.99.safetensors").dynamics.bound.tolist() == pytest.approx(
        [0.99] * 4
    )
    wide = bearings.load_run(folder / "weights" / "MDPF@wide-mse.safetensors")
    assert wide.dynamics.state_encoder[0].weight.shape == (10, 4)
    assert not (tmp_path / "work" / "bound-0.99" / "data").exists()


def test_a_setting_can_be_trained_alone(tmp_path):
    study(tmp_path, methods=("MDPF",), scope=Scope((), 0, 0, settings=("bound-0.99",), default=False))
    assert set(numbers(tmp_path)) == {"MDPF@bound-0.99.json", "MDPF@bound-0.99-mse.json"}


def test_what_needs_a_training_that_is_not_there_is_left(tmp_path):
    outcome = study(tmp_path, methods=("TG-PF",), scope=Scope((30,), 2, 0, settings=(), default=False))
    assert not outcome.failed
    assert "`mdpf reproduce bearings` trains" in outcome.left["TG-PF with 30 particles"]


def test_finished_checkpoints_hold_nothing_but_what_was_found(undisturbed):
    for path in (undisturbed / "work").rglob("*.safetensors"):
        found = checkpoint.load(path)
        assert found.notes["finished"]
        assert not any(name == "values" or name.startswith("adam") for name in found.tensors)


def test_all_methods_start_from_one_measurement_model(tmp_path, monkeypatch):
    started = {}
    monkeypatch.setattr(training, "fit", lambda filter, stage, *args, **options: _note(started, filter, stage, options))
    for method in ("MDPF", "LSTM", "SR-PF"):
        bearings.train(bearings.Config(method, runs=2, preset="tiny"), tmp_path)
    first = {part: value for part, value in started[0][1].items()}
    for name, parameters in started.values():
        for part in first.keys() & parameters.keys():
            assert torch.equal(first[part], parameters[part]), (name, part)


def test_fewer_runs_start_from_the_first_of_a_common_stage(tmp_path):
    data = [bearings.split(name, count) for name, count in (("train", SIZES.train), ("validation", SIZES.validation))]
    of = bearings.training_of(bearings.Config("TG-PF", 3, preset="tiny"))
    every = training.train(of, *data, tmp_path / "every", last="measurement").filters["measurement"]
    few = replace(of, runs=2, first_runs=3)
    some = training.train(few, *data, tmp_path / "some", last="measurement").filters["measurement"]
    for name, values in some.measurement.state_dict().items():
        torch.testing.assert_close(values, every.measurement.state_dict()[name][:2], rtol=0, atol=0)


def _note(started, filter, stage, options):
    if stage.name != "measurement":
        parts = {name: value.clone() for name, value in filter.state_dict().items() if name.startswith(("encoder", "measurement"))}
        started[len(started)] = (str(options["path"]), parts)
    return Fitted(torch.zeros(0), torch.zeros(options["num_runs"]), [], preparing=0.0, learning=0.0)


def test_a_run_goes_on_from_the_best_of_its_starts(tmp_path, monkeypatch):
    monkeypatch.setitem(bearings.PRESETS, "twice", replace(TINY, starts=2))
    monkeypatch.setitem(bearings.SIZES, "twice", SIZES)

    def first_stage(preset, runs):
        config, work = bearings.Config("MDPF", runs, preset=preset), tmp_path / preset
        data = (bearings.split(name, count) for name, count in (("train", SIZES.train), ("validation", SIZES.validation)))
        found = training.train(bearings.training_of(config), *data, work, last="measurement").filters["measurement"]
        return found, checkpoint.load(work / "measurement" / "measurement.safetensors").tensors["progress.best"]

    # The starts of two runs are the runs of four: the second pair are the second starts.
    every, losses = first_stage("tiny", 4)
    chosen, _ = first_stage("twice", 2)
    best = [run if losses[run] <= losses[run + 2] else run + 2 for run in (0, 1)]
    assert best != [0, 1]
    for name, values in chosen.measurement.state_dict().items():
        torch.testing.assert_close(values, every.measurement.state_dict()[name][best], rtol=0, atol=0)
