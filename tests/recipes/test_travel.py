"""What is packed arrives as it was; nothing newer is lost, nothing is written elsewhere."""

import io
import os
import tarfile

import pytest

from mdpf.recipes import travel
from mdpf.recipes.travel import pack, unpack


@pytest.fixture
def home(tmp_path):
    """Two folders with a few files, one of them large, one half written."""
    for name, content in {"work/a/x": b"x", "work/big": b"b" * 100, "results/y": b"y", "work/.a.1.part": b"half"}.items():
        path = tmp_path / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return {"work": tmp_path / "home" / "work", "results": tmp_path / "home" / "results", "absent": tmp_path / "nowhere"}


def folders(path):
    return {name: path / name for name in ("work", "results", "absent")}


def test_what_is_packed_arrives_and_what_is_large_stays(home, tmp_path):
    stayed = pack(tmp_path / "p.tar", home, limit=50)
    assert stayed == ["work/big"]
    away = folders(tmp_path / "away")
    written = unpack(tmp_path / "p.tar", away)
    assert {path.relative_to(tmp_path / "away").as_posix(): path.read_bytes() for path in written} == {
        "work/a/x": b"x",
        "results/y": b"y",
    }
    assert sorted(path.name for path in (tmp_path / "away").rglob("*") if path.is_file()) == ["x", "y"]


def test_newer_files_stay_and_older_ones_are_replaced(home, tmp_path):
    pack(tmp_path / "p.tar", home)
    away = folders(tmp_path / "away")
    unpack(tmp_path / "p.tar", away)
    newer, older = away["work"] / "a" / "x", away["results"] / "y"
    for path, shift in ((newer, 10), (older, -10)):
        moment = path.stat().st_mtime + shift
        path.write_bytes(b"other")
        os.utime(path, (moment, moment))
    unpack(tmp_path / "p.tar", away)
    assert (newer.read_bytes(), older.read_bytes()) == (b"other", b"y")


def test_what_is_large_is_packed_in_pieces_and_older_pieces_go(home, tmp_path, monkeypatch):
    monkeypatch.setattr(travel, "PIECE", 4000)
    pack(tmp_path / "p.tar", home)
    names = sorted(path.name for path in tmp_path.glob("p.tar*"))
    assert names == ["p.tar", "p.tar.1", "p.tar.2"]
    assert max(path.stat().st_size for path in tmp_path.glob("p.tar*")) == 4000
    away = folders(tmp_path / "away")
    assert len(unpack(tmp_path / "p.tar", away)) == 3
    monkeypatch.setattr(travel, "PIECE", 6000)
    pack(tmp_path / "p.tar", home)
    assert sorted(path.name for path in tmp_path.glob("p.tar*")) == ["p.tar", "p.tar.1"]
    (tmp_path / "p.tar.1").unlink()
    with pytest.raises(ValueError, match="unpack needs a file that pack wrote"):
        unpack(tmp_path / "p.tar", folders(tmp_path / "elsewhere"))


@pytest.mark.parametrize("name", ["../x", "work/../../x", "other/x", "work"])
def test_nothing_is_written_outside(name, tmp_path):
    with tarfile.open(tmp_path / "p.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("results/good"), io.BytesIO())
        archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.raises(ValueError, match="unpack needs files inside work, results, absent"):
        unpack(tmp_path / "p.tar", folders(tmp_path / "away"))
    assert not (tmp_path / "away").exists()


def test_other_files_are_refused(tmp_path):
    (tmp_path / "p.tar").write_bytes(b"something else")
    with pytest.raises(ValueError, match="unpack needs a file that pack wrote"):
        unpack(tmp_path / "p.tar", folders(tmp_path))
