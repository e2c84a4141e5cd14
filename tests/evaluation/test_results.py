"""Results as files: what is written is what is read, and nothing of another configuration is lost."""

import math

import pytest
import torch

from mdpf.evaluation.results import Provenance, Result, load, provenance, read_json, revision, save, write_json

WHERE = Provenance("mdpf test", "abc", {"torch": "2"}, "cpu", 1.0)


def result(values=(1.0,), *, config=None, setting="default"):
    runs = [{"seed": seed, "metrics": {"nll": value}} for seed, value in enumerate(values)]
    return Result("toy", "IWSG", runs, {"rate": 0.1} if config is None else config, WHERE, setting)


def test_result_survives_a_round_trip(tmp_path):
    written = result((1.0, math.inf, math.nan))
    path = save(written, tmp_path)
    assert path.name == "IWSG.json"
    again = load(path)
    assert (again.config, again.provenance, again.setting) == (written.config, written.provenance, "default")
    assert again.metric("nll")[:2] == [1.0, math.inf]
    assert math.isnan(again.metric("nll")[2])


def test_setting_names_its_own_file(tmp_path):
    assert save(result(setting="n-100"), tmp_path).name == "IWSG@n-100.json"


def test_result_of_another_configuration_is_refused_and_kept(tmp_path):
    path = save(result(config={"rate": 0.1}), tmp_path)
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match=r"rate=0\.1 where this has 0\.2\. Choose another folder"):
        save(result(config={"rate": 0.2}), tmp_path)
    assert path.read_bytes() == before


def test_same_configuration_replaces_the_result(tmp_path):
    save(result((1.0,)), tmp_path)
    path = save(result((2.0,)), tmp_path)
    assert load(path).metric("nll") == [2.0]


def test_tuples_and_tensors_become_lists(tmp_path):
    write_json(tmp_path / "a.json", {"shape": (2, 3), "values": torch.arange(3)})
    assert read_json(tmp_path / "a.json") == {"shape": [2, 3], "values": [0, 1, 2]}


def test_median_run_is_the_better_of_the_middle_ones():
    assert result((3.0, 1.0, 2.0)).median_run() == 2
    assert result((4.0, 1.0, 3.0, 2.0)).median_run() == 3


@pytest.mark.parametrize("content", ["", "no json", '{"experiment": "toy"}', "[]"])
def test_file_of_another_kind_is_refused(tmp_path, content):
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"Reading .* needs a"):
        load(path)


def test_provenance_says_what_was_run(monkeypatch):
    monkeypatch.setenv("MDPF_REVISION", "0123")
    found = provenance(12.34, command=["/somewhere/mdpf", "reproduce", "toy"])
    assert (found.command, found.revision, found.seconds) == ("mdpf reproduce toy", "0123", 12.3)
    assert provenance(1.0, command=["/somewhere/mdpf/__main__.py", "demo"]).command == "mdpf demo"
    assert found.versions["torch"] == torch.__version__
    assert found.device.startswith("cpu")


def test_revision_is_unknown_without_a_repository(monkeypatch):
    monkeypatch.delenv("MDPF_REVISION", raising=False)
    monkeypatch.setenv("PATH", "")
    assert revision() == "unknown"
