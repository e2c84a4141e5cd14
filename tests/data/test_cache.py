"""Data sets made once: found again, made anew when stale or damaged."""

import pytest
import torch

from mdpf.checks import MdpfWarning
from mdpf.data.cache import default_folder, load_or_make
from mdpf.data.files import write
from mdpf.data.sequences import SequenceBatch
from mdpf.spaces import StateSpace

SPACE = StateSpace.of("x")
RECIPE = {"task": "walk", "split": "train", "version": 1, "seed": 0}


class Maker:
    """Makes another data set each time it is asked, and counts."""

    def __init__(self):
        self.calls = 0

    def __call__(self) -> SequenceBatch:
        self.calls += 1
        return SequenceBatch(torch.full((2, 5, 1), float(self.calls)), torch.zeros(2, 5, 3))


@pytest.fixture
def make() -> Maker:
    return Maker()


def data_file(folder):
    (path,) = folder.glob("*.npz")
    return path


def test_cache_makes_once(tmp_path, make):
    first, second = (load_or_make(tmp_path / "new" / "folder", RECIPE, SPACE, make) for _ in range(2))
    assert make.calls == 1
    assert torch.equal(first.states, second.states)
    assert torch.equal(first.observations, second.observations)


def test_cache_names_files_by_the_whole_recipe(tmp_path, make):
    for change in ({}, {"version": 2}, {"seed": 1}, {"split": "evaluation"}):
        load_or_make(tmp_path, {**RECIPE, **change}, SPACE, make)
    assert make.calls == 4
    assert len(list(tmp_path.glob("walk-*.npz"))) == 4


def rewrite(path):
    write(path, Maker()()._replace(states=torch.full((2, 5, 1), 7.0)), SPACE)


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[-30] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        flip_a_bit,
        rewrite,
        lambda path: path.write_bytes(b""),
        lambda path: path.with_suffix(".json").write_text('{"recipe": {}, "sha256": ""}'),
        lambda path: path.with_suffix(".json").write_text("{"),
    ],
)
def test_cache_makes_again_what_is_damaged_and_says_so(tmp_path, make, damage):
    load_or_make(tmp_path, RECIPE, SPACE, make)
    damage(data_file(tmp_path))
    with pytest.warns(MdpfWarning, match="is made again"):
        again = load_or_make(tmp_path, RECIPE, SPACE, make)
    assert make.calls == 2
    assert torch.equal(load_or_make(tmp_path, RECIPE, SPACE, make).states, again.states)
    assert make.calls == 2


def test_cache_does_not_believe_a_sound_file_of_another_recipe(tmp_path, make):
    load_or_make(tmp_path, RECIPE, SPACE, make)
    mine = data_file(tmp_path)
    load_or_make(tmp_path, {**RECIPE, "seed": 1}, SPACE, make)
    (other,) = set(tmp_path.glob("*.npz")) - {mine}
    for ending in (".npz", ".json"):
        mine.with_suffix(ending).write_bytes(other.with_suffix(ending).read_bytes())
    with pytest.warns(MdpfWarning, match="is made again"):
        load_or_make(tmp_path, RECIPE, SPACE, make)


def test_cache_takes_a_file_without_its_note_as_unfinished(tmp_path, make):
    load_or_make(tmp_path, RECIPE, SPACE, make)
    data_file(tmp_path).with_suffix(".json").unlink()
    load_or_make(tmp_path, RECIPE, SPACE, make)
    assert make.calls == 2


def test_cache_that_cannot_be_written_still_gives_the_data(tmp_path, make):
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(MdpfWarning, match="is not kept and will be made again"):
        batch = load_or_make(tmp_path / "file" / "folder", RECIPE, SPACE, make)
    assert batch.num_sequences == 2


def test_default_folder_obeys_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("MDPF_CACHE", str(tmp_path))
    assert default_folder() == tmp_path
    monkeypatch.delenv("MDPF_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "mdpf"
