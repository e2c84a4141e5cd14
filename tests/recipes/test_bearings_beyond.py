"""The configuration past the paper at a tiny size: in parts like the study, each choice of it can be taken back."""

from dataclasses import fields

import pytest
import torch

from mdpf.evaluation import results
from mdpf.recipes import bearings, bearings_beyond, studies
from mdpf.recipes.bearings import Config
from mdpf.recipes.studies import Place
from mdpf.tasks.bearings import bearing
from mdpf.training.deadline import Deadline
from mdpf.training.stages import Cosine

TINY = bearings.Preset(2e-3, 2e-3, 0.5, 2, 1, 1e-3, 1, Cosine())


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(bearings.PRESETS, "tiny", TINY)
    monkeypatch.setitem(bearings.SIZES, "tiny", bearings.Sizes(48, 8, 4))
    monkeypatch.setitem(bearings_beyond.CHOICES, "particles", 6)
    monkeypatch.setitem(bearings_beyond.CHOICES, "hidden_dim", 9)


def study(folder, watch=None, **options):
    options = {"runs": 2, "ablation_runs": 1, "preset": "tiny", "ablations": ("pathwise",)} | options
    return bearings_beyond.run(Place(folder / "results", folder / "work", watch=watch), **options)


def numbers(folder):
    return {path.name: results.load(path).runs for path in (folder / "results").glob("[A-Z]*.json")}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("beyond")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(bearings.PRESETS, "tiny", TINY)
        patch.setitem(bearings.SIZES, "tiny", bearings.Sizes(48, 8, 4))
        patch.setitem(bearings_beyond.CHOICES, "particles", 6)
        patch.setitem(bearings_beyond.CHOICES, "hidden_dim", 9)
        outcome = study(folder)
    assert not outcome.left
    assert not outcome.failed
    return folder


def test_results_and_weights_say_how_they_are_built(undisturbed):
    names = {f"{method}{end}.json" for method in ("MDPF+", "A-MDPF+") for end in ("", "@mse")}
    assert set(numbers(undisturbed)) == names | {"MDPF+@pathwise.json", "MDPF+@pathwise-mse.json"}
    result = results.load(undisturbed / "results" / "MDPF+.json")
    assert (result.experiment, len(result.runs), result.config["mirrored"]) == ("bearings-beyond", 2, True)
    for method in ("MDPF+", "A-MDPF+"):
        filter = bearings.load_run(undisturbed / "results" / "weights" / f"{method}.safetensors")
        assert filter.dynamics.state_encoder[0].weight.shape == (9, 4)
    one = results.load(undisturbed / "results" / "MDPF+@pathwise.json")
    assert {name for name in one.config if one.config[name] != result.config.get(name)} == {"resampler", "runs"}


def test_ablations_take_back_a_choice_of_the_configuration():
    config = bearings_beyond.named("MDPF+")[0]
    plain = Config("MDPF")
    different = {field.name for field in fields(Config) if getattr(config, field.name) != getattr(plain, field.name)}
    assert different == set(bearings_beyond.CHOICES)
    for changes in bearings_beyond.ABLATIONS.values():
        ((name, value),) = changes.items()
        # The background is common to both: what it is worth is asked of the larger configuration all the same.
        assert name in bearings_beyond.CHOICES or name == "background"
        assert getattr(config, name) != value


def test_named_methods_of_the_paper_are_as_they_were():
    config, where = bearings_beyond.named("A-MDPF", 3, 1, preset="fast")
    assert config == Config("A-MDPF", 3, 1)
    assert where.stages == {"default": "likelihood", "mse": "refinement"}
    quick = bearings_beyond.named("MDPF", preset="quick")[0]
    assert (quick.hidden_dim, quick.background) == (32, bearings.BACKGROUND)
    assert bearings_beyond.named("MDPF", preset="quick", hidden_dim=8)[0].hidden_dim == 8


def test_interrupted_after_every_epoch_it_ends_with_the_same_numbers(undisturbed, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(studies, "Deadline", lambda *seconds: calls[-1])
    for _ in range(20):
        calls.append(Deadline())
        outcome = study(tmp_path, watch=lambda name, epoch, until=calls[-1]: until.stop(), ablations=())
        assert not outcome.failed
        if not outcome.left:
            break
    assert len(calls) > 4
    theirs = numbers(undisturbed)
    assert numbers(tmp_path) == {name: runs for name, runs in theirs.items() if "pathwise" not in name}


def test_mirror_images_are_of_the_same_task():
    data = bearings.split("train", 20)
    both = bearings.with_mirror_images(data)
    assert both.num_sequences == 40
    assert torch.equal(both.take(slice(0, 20)).states, data.states)
    assert torch.equal(both.labelled[20:], data.labelled)
    images = both.take(slice(20, 40))
    torch.testing.assert_close(bearing(images.states), -bearing(data.states))
    torch.testing.assert_close(torch.atan2(*images.observations.unbind(-1)), -torch.atan2(*data.observations.unbind(-1)))
    torch.testing.assert_close(images.states[..., 2].sin(), -data.states[..., 2].sin())
    torch.testing.assert_close(images.states[..., 2].cos(), data.states[..., 2].cos())
