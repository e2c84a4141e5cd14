"""The command line: exit codes, one message on stderr, nothing half written."""

from pathlib import Path

import numpy as np
import pytest

from mdpf import cli
from mdpf.tasks import TASKS


def call(*words):
    try:
        cli.main(list(words))
    except SystemExit as stopped:
        return stopped.code
    return 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("reproduce", "nothing"), "needs a known figure, got 'nothing'. Known are:"),
        (("data", "nothing", "--out", "x.npz"), "needs a known task, got 'nothing'. Known are: bearings"),
        (("train", "bearings", "nothing"), "needs a known method, got 'nothing'. Known are: MDPF, A-MDPF"),
        (("train", "nothing", "MDPF"), "needs a known task"),
        (
            ("train", "bearings", "MDPF", "--preset", "nothing"),
            "needs a known preset, got 'nothing'. Known are: paper, fast, quick",
        ),
        (("reproduce", "bearings", "--methods", "MDPF, nothing"), "needs a known method, got 'nothing'. Known are: MDPF"),
        (("reproduce", "all", "--methods", "nothing"), "needs a known method, got 'nothing'. Known are: MDPF"),
        (("reproduce", "toy", "--methods", "MDPF"), "toy needs no --methods, got MDPF. It heeds --device, --seeds, --minutes."),
        (("reproduce", "toy", "--device", "cuda"), "needs a known device, got 'cuda'. Known are: auto, cpu."),
        (("reproduce", "maze", "--preset", "long"), "maze needs a known preset, got 'long'. Known are: "),
        (("reproduce", "bearings-paper", "--preset", "fast"), "bearings-paper needs no --preset, got fast. It heeds --seeds"),
        (("reproduce", "bearings", "--methods", "MDPF,MDPF"), "needs methods that differ, got MDPF, MDPF."),
        (("reproduce", "shifting", "--redraw", "--device", "cpu"), "--redraw needs no --device"),
        (
            ("train", "homes", "MDPF"),
            "got 'homes', whose images are rendered while it is learned. `mdpf reproduce house --methods MDPF`",
        ),
        (
            ("diagnose", "nothing"),
            "diagnose needs linear-gaussian, bimodal, bearings or a trained run, got 'nothing', which is none",
        ),
        (("diagnose", "nothing.safetensors"), "nothing.safetensors"),
        (("diagnose", "."), "Loading a run needs a folder with weights, got '.' without."),
        (("diagnose", "bimodal", "--data", "x.npz"), "mdpf diagnose bimodal needs no --data, got 'x.npz'."),
        (("reproduce", "shifting", "--redraw", "--out", "nowhere"), "IRG.json"),
    ],
)
def test_wrong_call_is_one_message_and_code_2(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call(*words) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert "Traceback" not in err + out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nonsense",), "mdpf needs another call, got `mdpf nonsense`: no such command 'nonsense'. `mdpf --help` lists"),
        (("train",), "mdpf train needs another call, got `mdpf train`: missing argument 'task'. `mdpf train --help` lists"),
        (("train", "bearings", "MDPF", "--runs", "0"), "invalid value for '--runs': "),
        (("train", "bearings", "MDPF", "--rums", "1"), "no such option: --rums"),
        (("evaluate", "a run"), "got `mdpf evaluate 'a run'`: missing option '--data'."),
    ],
)
def test_words_that_are_no_call_are_one_message_and_code_2(words, message, capsys):
    assert call(*words) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert len((out + err).strip().splitlines()) == 1


def test_no_words_list_the_commands(capsys):
    assert call() == 2
    told = "".join(capsys.readouterr())
    assert "reproduce" in told
    assert "another call" not in told


def test_interruption_is_told(capsys, monkeypatch):
    from mdpf.data import files

    def interrupt(path):
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "summarise", interrupt)
    assert call("check", "walk.npz") == 1
    assert "Stopped." in capsys.readouterr().err


def test_what_the_system_says_is_put_into_words(capsys, monkeypatch):
    from mdpf.data import files

    def fail(path):
        Path("/nowhere/at/all").read_bytes()

    monkeypatch.setattr(files, "summarise", fail)
    assert call("check", "walk.npz") == 2
    expected = "mdpf needs a path that can be used, got '/nowhere/at/all': No such file or directory. Choose another one."
    assert expected in capsys.readouterr().err


def test_debug_shows_the_error_itself():
    with pytest.raises(ValueError, match="known figure"):
        cli.main(["--debug", "reproduce", "nothing"])


def test_a_study_that_stops_before_there_is_anything_to_draw_has_not_failed(capsys, tmp_path):
    words = ("reproduce", "bearings", "--methods", "MDPF", "--preset", "quick", "--minutes", "0")
    assert call(*words, "--out", str(tmp_path / "out"), "--work", str(tmp_path / "work")) == 0
    out, err = capsys.readouterr()
    assert "The same command goes on with what is left." in out
    assert err == ""


def test_lists_are_printed(capsys):
    assert call("tasks") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(TASKS)  # One line each, however narrow the terminal.
    assert call("methods") == 0
    out = capsys.readouterr().out
    assert "A-MDPF" in out
    assert "A-MDPF+" in out


def test_data_is_written_and_understood(capsys, tmp_path):
    path = tmp_path / "validation.npz"
    assert call("data", "bearings", "--split", "validation", "--out", str(path)) == 0
    assert call("check", str(path)) == 0
    out = capsys.readouterr().out
    assert "1000 sequences of 17 frames; ready" in out
    assert "theta (angle)" in out


def test_brackets_are_printed_as_they_are(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("data", "bearings", "--split", "validation", "--out", "cars [n].npz") == 0
    Path("walk [n, d].npz").write_bytes(b"PK nonsense")
    assert call("check", "walk [n, d].npz") == 2
    written, found = capsys.readouterr().out.splitlines()
    assert written == "Wrote cars [n].npz."
    assert found.startswith("error: Reading 'walk [n, d].npz' needs ")


def test_check_does_not_call_a_doubtful_file_ready(capsys, tmp_path):
    path = tmp_path / "degrees.npz"
    space = '{"coordinates": [{"name": "theta", "angle": true}]}'
    np.savez(path, states=90.0 + np.arange(6.0).reshape(2, 3, 1), observations=np.arange(6.0).reshape(2, 3, 1), space=space)
    assert call("check", str(path)) == 0
    out = capsys.readouterr().out
    assert "convert them with np.deg2rad" in out
    assert "2 sequences of 3 frames; it can be trained on, but see the warnings." in out


def test_check_of_a_broken_file_is_code_2(capsys, tmp_path):
    path = tmp_path / "broken.npz"
    path.write_bytes(b"PK nonsense")
    assert call("check", str(path)) == 2
    assert "error" in capsys.readouterr().out


def test_figure_is_reproduced_and_redrawn(capsys, tmp_path):
    assert call("reproduce", "shifting", "--out", str(tmp_path)) == 0
    drawn = tmp_path / "shifting" / "shifting.png"
    before = drawn.read_bytes()
    drawn.unlink()
    assert call("reproduce", "shifting", "--redraw", "--out", str(tmp_path)) == 0
    assert drawn.read_bytes() == before
