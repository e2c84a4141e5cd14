"""Every command, given what it cannot use: one sentence that says what was expected and found, code 2 or 1, nothing written."""

import numpy as np
import pytest
import torch

from mdpf import cli
from mdpf.data.files import write
from mdpf.data.sequences import SequenceBatch
from mdpf.spaces import StateSpace

# What each command reads, with a place for the wrong path; {run} and {data} are sound.
READING = {
    "check": ("check", "{wrong}"),
    "train": ("train", "{wrong}", "MDPF", "--out", "{out}"),
    "sweep": ("sweep", "{wrong}", "MDPF,LSTM", "--out", "{out}"),
    "evaluate, run": ("evaluate", "{wrong}", "--data", "{data}", "--json", "{out}.json"),
    "evaluate, data": ("evaluate", "{run}", "--data", "{wrong}", "--json", "{out}.json"),
    "track, run": ("track", "{wrong}", "--data", "{data}", "--out", "{out}.npz"),
    "track, data": ("track", "{run}", "--data", "{wrong}", "--out", "{out}.npz"),
    "export": ("export", "{wrong}", "--out", "{out}.pt2"),
    "diagnose": ("diagnose", "{wrong}", "--figure", "{out}.png"),
    "report": ("report", "{wrong}", "--out", "{out}.html"),
}
# What each command writes, with a place for a path that cannot be.
WRITING = {
    "data": ("data", "bearings", "--split", "validation", "--out", "{wrong}"),
    "evaluate": ("evaluate", "{run}", "--data", "{data}", "--json", "{wrong}"),
    "track": ("track", "{run}", "--data", "{data}", "--out", "{wrong}"),
    "export": ("export", "{run}", "--out", "{wrong}"),
}
# What each command makes a folder for, with a place for a file in its stead.
FILLING = {
    "train": ("train", "{data}", "MDPF", "--preset", "quick", "--out", "{wrong}"),
    "sweep": ("sweep", "{data}", "MDPF", "--preset", "quick", "--out", "{wrong}"),
    "demo": ("demo", "--out", "{wrong}"),
    "bench": ("bench", "latency", "--out", "{wrong}"),
    "reproduce, results": ("reproduce", "shifting", "--out", "{wrong}"),
    "reproduce, work": ("reproduce", "toy", "--work", "{wrong}/inside"),
    "diagnose": ("diagnose", "linear-gaussian", "--figure", "{wrong}/figure.png"),
}
CONTRADICTIONS = {
    "diagnose: other ending": (("diagnose", "bimodal", "--figure", "{out}.bmp"), "a known ending of a figure, got '.bmp'"),
    "reproduce: no recordings": (("reproduce", "maze", "--recordings", "{data}"), "a folder of recordings, got"),
    "reproduce: nothing packed": (("reproduce", "toy", "--unpack", "{out}.tar"), "a file that pack wrote, got"),
    "train: bound of a file": (("train", "{data}", "MDPF", "--bound", "1"), "no --bound for a file"),
    "train: start of a task": (("train", "bearings", "MDPF", "--start", "box"), "no --start for the task"),
    "train: unknown start": (("train", "{data}", "MDPF", "--start", "here", "--out", "{out}"), "a known start, got 'here'"),
    "train: unknown method": (("train", "{data}", "PF", "--out", "{out}"), "a known method, got 'PF'"),
    "train: unknown preset": (("train", "{data}", "MDPF", "--preset", "long", "--out", "{out}"), "a known preset, got 'long'"),
    "sweep: unknown method": (("sweep", "{data}", "MDPF,PF", "--out", "{out}"), "a known method, got 'PF'"),
    "sweep: unknown preset": (("sweep", "{data}", "MDPF", "--preset", "long", "--out", "{out}"), "a known preset, got 'long'"),
    "sweep: the same twice": (("sweep", "{data}", "MDPF,MDPF", "--out", "{out}"), "methods that differ, got MDPF, MDPF"),
    "sweep: unknown task": (("sweep", "maze-1", "MDPF", "--out", "{out}"), "a known task, got 'maze-1'. Known are: bearings"),
    "sweep: two crews": (("sweep", "{data}", "MDPF", "--ray", "--jobs", "2", "--out", "{out}"), "--jobs or --ray, got both"),
    "track: unknown start": (("track", "{run}", "--data", "{data}", "--start", "here", "--out", "{out}.npz"), "a known start"),
    "track: recovery without a threshold": (
        ("track", "{run}", "--data", "{data}", "--recover", "0.5", "--out", "{out}.npz"),
        "a learned threshold",
    ),
    "evaluate: other data": (("evaluate", "{run}", "--data", "{other}"), "needs the coordinates"),
    "track: other data": (("track", "{run}", "--data", "{other}", "--out", "{out}.npz"), "needs the coordinates"),
    "export: other ending": (("export", "{run}", "--out", "{out}.zip"), "ends in .pt2 or .onnx"),
}


def call(*words):
    try:
        cli.main(list(words))
    except SystemExit as stopped:
        return stopped.code
    return 0


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A run that nobody trained, data that it fits, and data that it does not."""
    from mdpf.recipes import bearings
    from mdpf.recipes.methods import METHODS
    from mdpf.tasks import bearings as task
    from mdpf.training import weights

    folder = tmp_path_factory.mktemp("sound")
    config = bearings.Config("MDPF")
    filter = METHODS["MDPF"].build(bearings.networks(config))
    weights.save(folder / "run" / "weights" / "MDPF.safetensors", filter, {"task": "bearings", **vars(config)})
    write(folder / "data.npz", task.task().split("validation", num_sequences=4), task.SPACE)
    write(folder / "other.npz", SequenceBatch(torch.zeros(4, 5, 1), torch.zeros(4, 5, 2)), StateSpace.of("z"))
    return {"run": str(folder / "run"), "data": str(folder / "data.npz"), "other": str(folder / "other.npz")}


WRONG = {
    "nothing there": lambda path: None,
    "empty": lambda path: path.write_bytes(b""),
    "a folder": lambda path: path.mkdir(),
    "a text": lambda path: path.write_text("not what you think"),
    "a pickle": lambda path: path.write_bytes(b"\x80\x04\x95\x0c\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94."),
    "a cut archive": lambda path: path.write_bytes(b"PK\x03\x04 and no more"),
    "other arrays": lambda path: np.savez(path, a=np.zeros(3)),
    "foreign weights": lambda path: path.write_bytes(_foreign()),
}


def _foreign():
    from safetensors.torch import save

    return save({"weight": torch.zeros(2)}, {"format": "pt"})


def must_refuse(words, places, folder, capsys, message=" needs ", before=None):
    before = sorted(folder.rglob("*")) if before is None else before
    code = call(*(word.format(**places) for word in words))
    out, err = capsys.readouterr()
    told = " ".join((err + out).split())
    assert code in (1, 2), told
    assert message in told, told
    assert "Traceback" not in told
    assert sorted(folder.rglob("*")) == before
    return code


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("command", READING)
def test_wrong_input_is_one_sentence(command, wrong, sound, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "wrong.npz"
    WRONG[wrong](path)
    places = {**sound, "wrong": str(path), "out": str(tmp_path / "out")}
    must_refuse(READING[command], places, tmp_path, capsys)


@pytest.mark.parametrize("wrong", ["a folder", "a missing folder"])
@pytest.mark.parametrize("command", WRITING)
def test_place_that_cannot_be_written_is_one_sentence(command, wrong, sound, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "wrong.pt2" if wrong == "a folder" else tmp_path / "missing" / "wrong.pt2"
    if wrong == "a folder":
        path.mkdir()
    must_refuse(WRITING[command], {**sound, "wrong": str(path)}, tmp_path, capsys)


@pytest.mark.parametrize("command", FILLING)
def test_file_in_place_of_a_folder_is_one_sentence(command, sound, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "wrong"
    path.write_text("here was something else")
    assert must_refuse(FILLING[command], {**sound, "wrong": str(path)}, tmp_path, capsys, "needs a folder, got the file") == 2


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_contradictions_are_one_sentence_and_code_2(name, sound, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words, message = CONTRADICTIONS[name]
    assert must_refuse(words, {**sound, "out": str(tmp_path / "out")}, tmp_path, capsys, message) == 2


def test_missing_extra_is_one_sentence(sound, tmp_path, capsys, monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name.startswith("onnx") else find(name, *rest))
    places = {**sound, "out": str(tmp_path / "out")}
    must_refuse(("export", "{run}", "--out", "{out}.onnx"), places, tmp_path, capsys, "pip install 'mdpf[onnx]'")


def test_missing_ray_is_one_sentence(sound, tmp_path, capsys, monkeypatch):
    from mdpf.recipes import cluster

    monkeypatch.setattr(cluster, "available", lambda: False)
    places = {**sound, "out": str(tmp_path / "out")}
    assert (
        must_refuse(("sweep", "{data}", "MDPF", "--ray", "--out", "{out}"), places, tmp_path, capsys, "pip install 'mdpf[ray]'")
        == 1
    )


def test_every_command_is_tried():
    tried = {words[0] for words in [*READING.values(), *WRITING.values(), *(words for words, _ in CONTRADICTIONS.values())]}
    names = {command.name or command.callback.__name__ for command in cli.app.app.registered_commands}
    # These read nothing: their words and options are tried in test_cli.py.
    assert names - tried <= {"tasks", "methods", "reproduce", "bench", "demo"}
