"""When the disk misbehaves: full, read-only, files that are cut short or changed; and the same bits for the same seed."""

import errno
import os
from functools import partial

import pytest
import torch

import mdpf
from mdpf.recipes import logs, logs_study
from mdpf.reliability import kills
from mdpf.training import checkpoint, weights

CONFIG = logs.Config("TG-PF", preset="quick", particles=4, batch=16, hidden_dim=4)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return kills.record(tmp_path_factory.mktemp("data") / "walk.npz")


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setitem(logs.UPDATES, "quick", logs.Updates(3, 3, 3))


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    """A training that went well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(logs.UPDATES, "quick", logs.Updates(3, 3, 3))
        folder = tmp_path_factory.mktemp("finished")
        logs_study.study(CONFIG, data, folder)
    return folder


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def copy(finished, tmp_path):
    """The same again, to be damaged."""
    for name, written in content(finished).items():
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).write_bytes(written)
    return tmp_path / "run"


@pytest.mark.parametrize(("code", "words"), [(errno.ENOSPC, "No space left on device"), (errno.EROFS, "Read-only file system")])
def test_disk_that_cannot_be_written_harms_nothing_and_is_gone_on_from(code, words, data, copy, monkeypatch):
    before = content(copy)
    (copy / "training" / "TG-PF" / "bandwidth.safetensors").unlink()
    (copy / "TG-PF.json").unlink()
    kept = content(copy)

    def fail(descriptor):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match=f"needs a writable folder with space left, got {words}"):
            logs_study.study(CONFIG, data, copy)
    assert content(copy) == kept
    logs_study.study(CONFIG, data, copy)
    after = kills.outcome(copy)
    assert after.keys() == {name for name in before if name.endswith(".json")}


@pytest.mark.parametrize("damage", [lambda raw: raw[: len(raw) // 2], lambda raw: raw[:-9] + bytes([raw[-9] ^ 1]) + raw[-8:]])
@pytest.mark.parametrize("place", ["training/TG-PF/error.safetensors", "weights/TG-PF.safetensors"])
def test_damaged_file_is_said_and_nothing_else_changes(damage, place, data, copy):
    path = copy / place
    path.write_bytes(damage(path.read_bytes()))
    before = content(copy)
    use = partial(logs_study.study, CONFIG, data, copy) if place.startswith("training") else partial(mdpf.load, copy)
    with pytest.raises(ValueError, match="needs a file that mdpf wrote, whole"):
        use()
    assert content(copy) == before


def test_weights_of_a_newer_version_say_so(copy, monkeypatch):
    saved = weights.load(copy / "weights" / "TG-PF.safetensors")
    monkeypatch.setattr(checkpoint, "FORMAT", "2")
    checkpoint.save(copy / "weights" / "TG-PF.safetensors", saved.tensors, {"config": saved.config})
    monkeypatch.undo()
    with pytest.raises(ValueError, match="needs format 1, got '2'. Use the version of mdpf that wrote it"):
        mdpf.load(copy)


@pytest.mark.parametrize("changed", [{"blueprint": {}}, {"method": "unknown"}, {"task": "unknown"}, {"particles": None}])
def test_weights_without_a_sound_description_are_refused(changed, copy):
    path = copy / "weights" / "TG-PF.safetensors"
    saved = weights.load(path)
    checkpoint.save(path, saved.tensors, {"config": {**saved.config, **changed}})
    with pytest.raises((ValueError, TypeError), match=" needs |version"):
        mdpf.load(path).init([0.0])


def test_same_seed_same_bits(data, finished, tmp_path):
    logs_study.study(CONFIG, data, tmp_path / "again")
    first, second = (weights.load(folder / "weights" / "TG-PF.safetensors").tensors for folder in (finished, tmp_path / "again"))
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name
    assert kills.outcome(finished) == kills.outcome(tmp_path / "again")
