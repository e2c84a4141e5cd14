"""The kernel study at a tiny size: it goes on from the Gaussian trainings, and survives what interrupts it."""

import math
from dataclasses import replace

import pytest
import torch

from mdpf.evaluation import results
from mdpf.kernels import Biweight, Epanechnikov
from mdpf.metrics import FLOOR
from mdpf.models import stack_runs
from mdpf.recipes import bearings, bearings_kernels, bearings_study, studies, training
from mdpf.recipes.bearings_study import Scope
from mdpf.recipes.studies import Place
from mdpf.training.deadline import Deadline
from mdpf.training.stages import Cosine

TINY = bearings.Preset(2e-3, 2e-3, 0.5, 2, 1, 1e-3, 1, Cosine())
METHODS = ("MDPF", "A-MDPF", "TG-PF")
KERNELS = {"epanechnikov": Epanechnikov, "biweight": Biweight}


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(bearings.PRESETS, "tiny", TINY)
    monkeypatch.setitem(bearings.SIZES, "tiny", bearings.Sizes(96, 8, 4))


def study(folder, watch=None, **options):
    options = {"methods": METHODS, "runs": 2, "preset": "tiny"} | options
    return bearings_kernels.run(Place(folder / "results", folder / "work", watch=watch), **options)


def numbers(folder):
    return {path.name: results.load(path).runs for path in (folder / "results").glob("[A-Z]*.json")}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """After the study with Gaussian kernels, as it is meant."""
    folder = tmp_path_factory.mktemp("kernels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(bearings.PRESETS, "tiny", TINY)
        patch.setitem(bearings.SIZES, "tiny", bearings.Sizes(96, 8, 4))
        options = {"methods": METHODS, "runs": 2, "preset": "tiny", "scope": Scope((), 0, 0, settings=())}
        bearings_study.run(Place(folder / "results", folder / "work"), **options)
        before = {path: path.read_bytes() for path in (folder / "work").rglob("*.safetensors")}
        outcome = study(folder)
        assert {path: path.read_bytes() for path in before} == before
    assert not outcome.left
    assert not outcome.failed
    # What was there with Gaussian kernels was not made again.
    assert set(outcome.seconds) == {f"{method} ({kernel})" for method in METHODS for kernel in KERNELS}
    return folder


def test_every_method_has_its_results_and_weights_with_every_kernel(undisturbed):
    found = {name for name in numbers(undisturbed) if "@" in name and "mse" not in name}
    assert found == {f"{method}@{kernel}.json" for method in METHODS for kernel in KERNELS}
    for name, kernel in KERNELS.items():
        result = results.load(undisturbed / "results" / f"MDPF@{name}.json")
        assert result.config["kernel"] == name
        for run in result.runs:
            assert {"nll_paper", "outside", "rmse_paper"} <= run["metrics"].keys()
            assert run["metrics"]["nll_paper"] <= -math.log(FLOOR)
        filter = bearings.load_run(undisturbed / "results" / "weights" / f"MDPF@{name}.safetensors")
        assert isinstance(filter.bandwidth(torch.zeros(1, 3)).parts[0], kernel)


def test_networks_of_filters_that_see_no_kernel_stay_as_they_were(undisturbed):
    config = bearings.Config("TG-PF", 2, preset="tiny")
    gaussian = bearings.train(config, undisturbed / "work", last="error").filters["error"].state_dict()
    where = {"data": undisturbed / "work" / "data", "gaussian": undisturbed / "work"}
    compact = bearings_kernels.train(replace(config, kernel="biweight"), undisturbed / "work" / "biweight", **where)
    for name, value in compact.filters["bandwidth"].state_dict().items():
        assert torch.equal(value, gaussian[name]) == (not name.startswith("bandwidth.")), name


def test_it_is_learned_from_with_a_background():
    config = bearings.Config("MDPF", kernel="epanechnikov")
    stages = training.stages(bearings.training_of(config))
    for name in ("likelihood", "bandwidth"):
        assert stages[name].objective.loss.keywords == {"background": FLOOR}
    start = stages["likelihood"].objective.prior.__self__.start(torch.zeros(1, 3)).parts[0]
    assert isinstance(start, Epanechnikov)
    assert start.halfwidth.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_start_with_the_spread_of_the_gaussian_ones(kernel):
    config = bearings.Config("A-MDPF", kernel=kernel)
    plain = training.METHODS["A-MDPF"].build(bearings.networks(replace(config, kernel="gaussian")))
    compact = training.METHODS["A-MDPF"].build(bearings.networks(config))
    for stack in (False, True):
        if stack:
            plain, compact = stack_runs([plain, plain]), stack_runs([compact, compact])
        compact.load_state_dict(plain.state_dict())
        bearings_kernels.keep_spread(compact, kernel)
        for part in ("bandwidth", "resampling_bandwidth"):
            old, new = (getattr(filter, part)(torch.zeros(1, 3)) for filter in (plain, compact))
            for before, after in zip(old.parts, new.parts, strict=True):
                torch.testing.assert_close(after.variance(), before.variance())


def test_interrupted_after_every_epoch_it_ends_with_the_same_numbers(undisturbed, tmp_path, monkeypatch):
    """Started without any training with Gaussian kernels: these are made first."""
    calls = []
    monkeypatch.setattr(studies, "Deadline", lambda *seconds: calls[-1])
    for _ in range(20):
        calls.append(Deadline())
        outcome = study(tmp_path, methods=("MDPF",), kernels=("biweight",), watch=lambda name, epoch, until=calls[-1]: until.stop())
        assert not outcome.failed
        if not outcome.left:
            break
    assert len(calls) > 4
    assert numbers(tmp_path) == {"MDPF@biweight.json": numbers(undisturbed)["MDPF@biweight.json"]}


def test_study_of_another_configuration_is_refused_and_nothing_is_changed(undisturbed):
    before = {path: path.read_bytes() for path in undisturbed.rglob("*") if path.is_file()}
    with pytest.raises(FileExistsError, match="results of another configuration.*seed=0 where this has 4"):
        study(undisturbed, seed=4)
    place = Place(undisturbed.parent / "elsewhere", undisturbed / "work")
    elsewhere = bearings_kernels.run(place, methods=("MDPF",), runs=2, seed=4, preset="tiny")
    assert {type(error) for error in elsewhere.failed.values()} == {FileExistsError}
    assert {path: path.read_bytes() for path in undisturbed.rglob("*") if path.is_file()} == before
