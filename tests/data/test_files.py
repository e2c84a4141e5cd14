"""Files of sequences: what is read back, what is refused, and in which words."""

import io
import os
import pickle
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mdpf.checks import MdpfWarning
from mdpf.data import files
from mdpf.data.archive import read_arrays, write_arrays
from mdpf.data.atomic import atomic
from mdpf.data.sequences import SequenceBatch
from mdpf.spaces import StateSpace

SPACE = StateSpace.of("x", "y", theta="angle")


def arrays(n: int = 4, length: int = 6, **changes) -> dict[str, np.ndarray]:
    """A sound file, with changes; None takes an array away."""
    random = np.random.default_rng(0)
    sound = {
        "states": random.uniform(-1, 1, (n, length, 3)).astype(np.float32),
        "observations": random.normal(size=(n, length, 2)).astype(np.float32),
        "actions": random.normal(size=(n, length - 1, 2)).astype(np.float32),
        "space": np.array(SPACE.to_json()),
    }
    return {name: array for name, array in {**sound, **changes}.items() if array is not None}


def changed(name: str, place, value) -> dict[str, np.ndarray]:
    content = arrays()
    content[name][place] = value
    return content


@pytest.fixture
def save(tmp_path):
    def _save(content: dict[str, np.ndarray]) -> Path:
        path = tmp_path / "log.npz"
        np.savez(path, **content)
        return path

    return _save


def mask(*false: tuple[int, int]) -> np.ndarray:
    result = np.ones((4, 6), bool)
    for place in false:
        result[place] = False
    return result


# What is read back.


def test_write_and_read_keep_everything(tmp_path):
    content = {name: torch.from_numpy(array) for name, array in arrays().items() if name != "space"}
    masks = {"labelled": mask((0, 1)), "valid": mask((2, 5)), "observed": mask((1, 3))}
    batch = SequenceBatch(**content, **{name: torch.from_numpy(array) for name, array in masks.items()})
    batch.states[0, 1] = batch.states[2, 5] = batch.observations[2, 5] = batch.observations[1, 3] = 0
    batch.actions[2, 4] = 0
    files.write(tmp_path / "log.npz", batch, SPACE)
    again, space = files.read(tmp_path / "log.npz")
    assert space == SPACE
    for name, tensor in batch._asdict().items():
        assert torch.equal(getattr(again, name), tensor), name


def test_write_gives_the_same_bytes_for_the_same_arrays(tmp_path):
    batch = SequenceBatch(torch.zeros(2, 3, 3), torch.ones(2, 3, 1))
    for name in ("a.npz", "b.npz"):
        files.write(tmp_path / name, batch, SPACE)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_write_is_readable_by_numpy(tmp_path):
    files.write(tmp_path / "log.npz", SequenceBatch(torch.zeros(2, 3, 3), torch.ones(2, 3, 1)), SPACE)
    with np.load(tmp_path / "log.npz", allow_pickle=False) as loaded:
        assert set(loaded) == {"states", "observations", "space"}
        assert loaded["space"].item() == SPACE.to_json()


@pytest.mark.parametrize("dtype", [">f4", "<f8", "f2", "i4", "u1", "longdouble"])
def test_read_converts_numbers_to_single_precision(save, dtype):
    states = np.arange(4 * 6 * 3).reshape(4, 6, 3) % 3
    batch, _ = files.read(save(arrays(states=states.astype(dtype), observations=states.astype(dtype))))
    assert batch.states.dtype == batch.observations.dtype == torch.float32
    assert np.array_equal(batch.states.numpy(), states)


def test_read_keeps_images_as_bytes(save):
    images = np.random.default_rng(0).integers(0, 256, (4, 6, 8, 9, 3), np.uint8)
    batch, _ = files.read(save(arrays(observations=images)))
    assert batch.observations.dtype == torch.uint8
    assert np.array_equal(batch.observations.numpy(), images)


def test_read_understands_fortran_order_and_compression(tmp_path):
    content = arrays()
    np.savez_compressed(tmp_path / "log.npz", **{**content, "states": np.asfortranarray(content["states"])})
    batch, _ = files.read(tmp_path / "log.npz")
    assert np.array_equal(batch.states.numpy(), content["states"])


def test_read_takes_nan_frames_as_absent(save):
    content = arrays()
    content["states"][1, 2:4] = np.nan
    content["observations"][3, 1] = np.nan
    batch, _ = files.read(save(content))
    assert (~batch.labelled).nonzero().tolist() == [[1, 2], [1, 3]]
    assert (~batch.observed).nonzero().tolist() == [[3, 1]]
    assert batch.states.isfinite().all()
    assert batch.observations.isfinite().all()
    assert batch.valid is None


def test_read_ignores_what_masks_exclude(save):
    content = arrays(labelled=mask((0, 2)), valid=mask((1, 5)), observed=mask((2, 3)))
    content["states"][0, 2, 1] = content["states"][1, 5] = np.inf
    content["observations"][1, 5, 0] = content["observations"][2, 3, 0] = np.nan
    content["actions"][1, 4, 0] = np.nan
    batch, _ = files.read(save(content))
    for tensor in (batch.states, batch.observations, batch.actions):
        assert tensor.isfinite().all()
    x, _, theta = content["states"][0, 2].tolist()
    assert batch.states[0, 2].tolist() == [x, 0, theta]


# What is refused, by content.

REFUSED = {
    "no states": (arrays(states=None), "needs the arrays states, got only"),
    "no space": (arrays(space=None), "`space` names the coordinates"),
    "flat states": (arrays(states=np.zeros((6, 3))), r"states of shape \[n, T, d\].*got shape \[6, 3\]"),
    "no sequences": (arrays(states=np.zeros((0, 6, 3))), r"got shape \[0, 6, 3\]"),
    "one frame": (arrays(states=np.zeros((4, 1, 3))), r"T >= 2, got shape \[4, 1, 3\]"),
    "space of two": (arrays(space=np.array(StateSpace.of("x", "y").to_json())), r"each of \['x', 'y'\], got 3 columns"),
    "space not json": (arrays(space=np.array("x, y, theta")), "`space` as text such as"),
    "space a number": (arrays(space=np.array(5)), "`space` as text such as"),
    "space a list": (arrays(space=np.array(["x", "y"])), "`space` as text such as"),
    "unequal lengths": (arrays(observations=np.zeros((4, 5, 2))), r"observations of shape \[4, 6, ...\].*got shape \[4, 5, 2\]"),
    "no feature axis": (arrays(observations=np.zeros((4, 6))), r"observations\[..., None\]"),
    "as many actions": (arrays(actions=np.zeros((4, 6, 2))), r"actions of shape \[4, 5, a\], got shape \[4, 6, 2\]"),
    "grey images": (arrays(observations=np.zeros((4, 6, 8, 8), np.uint8)), r"one channel: observations\[..., None\]"),
    "channels first": (arrays(observations=np.zeros((4, 6, 3, 8, 8), np.uint8)), "Channels come last"),
    "labels per sequence": (arrays(labelled=np.ones(4, bool)), r"labelled of shape \[4, 6\], got shape \[4\]"),
    "weights as labels": (arrays(labelled=np.full((4, 6), 0.5)), "True and False in labelled, got float64"),
    "complex": (arrays(states=np.zeros((4, 6, 3), "c8")), "Convert it with .astype"),
    "text": (arrays(states=np.full((4, 6, 3), "a")), "numbers in states, got <U1"),
    "dates": (arrays(states=np.zeros((4, 6, 3), "M8[s]")), "plain numbers"),
    "nan coordinate": (changed("states", (2, 3, 1), np.nan), "finite states.*got nan in 'y' at sequence 2, frame 3 "),
    "infinite state": (changed("states", (2, 3), np.inf), "got inf in 'x' at sequence 2, frame 3 "),
    "too large": (arrays(states=np.full((4, 6, 3), 1e300)), "as float32\\), got inf in 'x' at sequence 0, frame 0 "),
    "half an observation": (changed("observations", (1, 4, 1), np.nan), "got nan in column 1 at sequence 1, frame 4 "),
    "nan action": (changed("actions", (3, 2, 0), np.nan), "finite actions.*got nan in column 0 at sequence 3, frame 2 "),
    "label of nan": (
        {**changed("states", (2, 3), np.nan), "labelled": mask()},
        "finite states.*sequence 2, frame 3 .*or False in `labelled`",
    ),
    "labels nowhere": (arrays(labelled=np.zeros((4, 6), bool)), "labels somewhere, got none in any of the 4 sequences"),
    "nan everywhere": (arrays(states=np.full((4, 6, 3), np.nan)), "labels somewhere"),
    "gap in valid": (arrays(valid=mask((1, 3))), "without gaps, got one at sequence 1, frame 4"),
    "valid too late": (arrays(valid=mask((2, 0), (2, 1))), "two valid frames at the start, got fewer in sequence 2"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_read_refuses_with_the_place_and_the_remedy(save, case):
    content, message = REFUSED[case]
    path = save(content)
    with pytest.raises(ValueError, match=message) as caught:
        files.read(path)
    assert str(caught.value).startswith("Reading 'log.npz'")
    assert " needs " in str(caught.value)
    summary = files.summarise(path)
    assert not summary.ok
    assert summary.findings[0].message == str(caught.value)


def test_read_warns_of_degrees(save):
    path = save(changed("states", (2, 3, 2), 270.0))
    with pytest.warns(MdpfWarning, match="got 270 in 'theta' at sequence 2, frame 3, beyond 2 pi. These look like degrees"):
        files.read(path)


def test_read_warns_of_misspelled_arrays(save):
    with pytest.warns(MdpfWarning, match="got also lables. These are left alone"):
        files.read(save(arrays(lables=mask())))


def test_read_warns_of_sequences_without_labels(save):
    with pytest.warns(MdpfWarning, match="1 of 4 sequences have no label at all, the first is sequence 2"):
        files.read(save(arrays(labelled=mask(*((2, frame) for frame in range(6))))))


def test_read_warns_of_offsets_that_eat_the_precision(save):
    content = arrays()
    content["states"] = content["states"].astype(np.float64) + np.array([5_200_000, 0, 0])
    with pytest.warns(MdpfWarning, match="'x' spans .* around 5.2e\\+06, where float32 counts in steps of 0.5"):
        files.read(save(content))


def test_write_refuses_what_could_not_be_read(tmp_path):
    path = tmp_path / "log.npz"
    with pytest.raises(ValueError, match="Writing 'log.npz' needs finite states"):
        files.write(path, SequenceBatch(torch.full((2, 3, 3), torch.inf), torch.zeros(2, 3, 1)), SPACE)
    assert list(tmp_path.iterdir()) == []


def test_summarise_describes_a_sound_file(save):
    content = arrays(valid=mask((1, 5)), labelled=mask((0, 0), (0, 1)), observed=mask((3, 3)))
    summary = files.summarise(save(content))
    assert summary.ok
    assert summary.num_sequences == 4
    assert summary.lengths == (5, 6)
    assert summary.observation == (2,)
    assert not summary.image
    assert summary.action_dim == 2
    assert summary.labelled == pytest.approx(21 / 23)
    assert summary.observed == pytest.approx(22 / 23)
    assert [(c.name, c.angle) for c in summary.coordinates] == [("x", False), ("y", False), ("theta", True)]
    assert -1 <= summary.coordinates[0].smallest < summary.coordinates[0].largest <= 1
    assert [finding.severity for finding in summary.findings] == ["note"]
    assert "no label at frame 0, the first is sequence 0" in summary.findings[0].message


def test_summarise_tells_every_error_of_a_stage(save):
    summary = files.summarise(save(arrays(observations=np.zeros((4, 5, 2)), actions=np.zeros((4, 6, 2)))))
    assert [finding.severity for finding in summary.findings] == ["error", "error"]


# What is refused, by form.


def test_read_refuses_what_is_no_npz(tmp_path):
    sound = io.BytesIO()
    np.savez(sound, **arrays())
    cases = {
        "empty": (b"", "got an empty file"),
        "text": (b"states,observations\n1,2\n", "got a file that starts with b'states,o'"),
        "pickle": (pickle.dumps(arrays()), "got a pickle; nothing executable is loaded"),
        "hdf": (b"\x89HDF\r\n\x1a\n" + bytes(100), "got an HDF5 file"),
        "cut short": (sound.getvalue()[:-300], "without its end"),
        "bit flip": (sound.getvalue()[:400] + b"\xff" + sound.getvalue()[401:], "needs an undamaged file, got Bad CRC-32"),
    }
    for name, (content, message) in cases.items():
        path = tmp_path / f"{name}.npz"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            files.read(path)
        assert not files.summarise(path).ok


@pytest.mark.parametrize("where", [0.01, 0.5, 0.99])
def test_read_notices_one_changed_bit_anywhere_in_a_large_array(tmp_path, where):
    # Large, because a small array is checked as a whole with its header; numpy's own arrays stay unpacked in the file.
    path = tmp_path / "log.npz"
    states = np.zeros((100, 200, 3), np.float32)
    np.savez(path, **arrays(states=states, observations=np.zeros((100, 200, 1)), actions=None))
    content = bytearray(path.read_bytes())
    content[int(where * states.nbytes) + 300] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="needs an undamaged file, got Bad CRC-32 for file 'states.npy'"):
        files.read(path)


def test_read_names_a_single_array(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3))
    with pytest.raises(ValueError, match="got a single array"):
        files.read(tmp_path / "a.npy")


def test_read_refuses_folders_and_missing_files(tmp_path):
    with pytest.raises(IsADirectoryError, match="needs an npz file, got the folder"):
        files.read(tmp_path)
    with pytest.raises(FileNotFoundError, match="which is not there"):
        files.read(tmp_path / "nothing.npz")
    assert not files.summarise(tmp_path).ok
    assert not files.summarise(tmp_path / "nothing.npz").ok


class Bomb:
    def __reduce__(self):
        return os.abort, ()


def test_read_never_unpickles(save):
    content = arrays()
    content["states"] = np.array([Bomb(), Bomb()], dtype=object)
    path = save(content)
    with pytest.raises(ValueError, match="array 'states', needs numbers, got an array of Python objects"):
        files.read(path)


def zipped(path: Path, **entries: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


def npy(descr: str, shape: str, content: bytes) -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (npy("'<f4'", "(1000000, 1000000, 1000)", bytes(40)), r"got 40 for shape \[1000000, 1000000, 1000\] of float32"),
        (npy("'<f4'", "(99999999999999999999999,)", bytes(40)), "needs as many bytes as its header declares"),
        (npy("'<f4'", "(-4, -10)", bytes(160)), "a shape of whole numbers"),
        (npy("'<f4'", "(True, 10)", bytes(40)), "a shape of whole numbers"),
        (npy("'<f4'", "10", bytes(40)), "a shape of whole numbers"),
        (npy("'<f4'", "(10,)" + "(" * 5000, bytes(40)), "a readable header"),
        (npy("'<f4'", "__import__('os').abort()", b""), "a readable header"),
        (npy("'V4'", "(10,)", bytes(40)), "plain numbers, got the type 'V4'"),
        (npy("[('a', '<f4')]", "(10,)", bytes(40)), "plain numbers"),
        (npy("'<f5'", "(10,)", bytes(50)), "plain numbers, got the type '<f5'"),
        (b"\x93NUMPY\x02\x00" + b"\xff\xff\xff\xff" + bytes(100), "a plain npy array"),
        (b"", "a plain npy array"),
        (b"\x80\x04\x95", "a plain npy array"),
    ],
)
def test_read_refuses_headers_that_lie(tmp_path, entry, message):
    path = zipped(tmp_path / "log.npz", **{"states.npy": entry})
    with pytest.raises(ValueError, match=message):
        files.read(path)


def test_read_refuses_zip_bombs_before_allocating(tmp_path, monkeypatch):
    size = 80 * 2**20
    path = zipped(tmp_path / "log.npz", **{"states.npy": npy("'|u1'", f"({size},)", bytes(size))})
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("opened"))
    with pytest.raises(ValueError, match="made to exhaust the memory"):
        files.read(path)
    with pytest.raises(ValueError, match="arrays of at most 1 MiB, got 80 MiB"):
        files.read(path, max_bytes=2**20)


def test_read_does_not_unpack_arrays_it_does_not_know(tmp_path):
    path = zipped(tmp_path / "log.npz", **{"states.npy": npy("'<f4'", "(1,)", bytes(4)), "other.npy": bytes(80 * 2**20)})
    loaded, others = read_arrays(path, ["states"])
    assert set(loaded) == {"states"}
    assert others == ("other",)


@pytest.mark.parametrize("name", ["../states.npy", "/etc/states.npy", "a/states.npy", "..\\states.npy", "C:states.npy", ".npy"])
def test_read_refuses_paths_inside_archives(tmp_path, name):
    with pytest.raises(ValueError, match="plain array names, got the path"):
        files.read(zipped(tmp_path / "log.npz", **{name: b""}))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_read_refuses_an_array_given_twice(tmp_path):
    with zipfile.ZipFile(tmp_path / "log.npz", "w") as archive:
        archive.writestr("states.npy", b"")
        archive.writestr("states.npy", b"")
    with pytest.raises(ValueError, match="each array once, got 'states' twice"):
        files.read(tmp_path / "log.npz")


# Writing whole or not at all.


def write_half(path: Path, interruption: BaseException) -> None:
    with atomic(path) as stream:
        stream.write(b"half")
        raise interruption


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), OSError(28, "No space left on device"), ValueError("mine")])
def test_atomic_keeps_the_old_file_when_interrupted(tmp_path, interruption):
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")
    with pytest.raises(type(interruption)):
        write_half(path, interruption)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_atomic_takes_the_name_in_one_step_after_the_bytes_are_on_disk(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")
    events = []
    replace, fsync = os.replace, os.fsync

    def watched_replace(source, target):
        events.append((Path(source).read_bytes(), Path(target).read_bytes()))
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched_replace)
    monkeypatch.setattr(os, "fsync", lambda descriptor: events.append("fsync") or fsync(descriptor))
    with atomic(path) as stream:
        stream.write(b"new")
    assert events == ["fsync", (b"new", b"old"), "fsync"]
    assert path.read_bytes() == b"new"


def test_atomic_says_why_it_cannot_write(tmp_path):
    with pytest.raises(FileNotFoundError, match="needs a writable folder with space left, got No such file"):
        atomic(tmp_path / "no" / "a").__enter__()
    with pytest.raises(IsADirectoryError, match="got the folder"):
        atomic(tmp_path).__enter__()
    with pytest.raises(OSError, match="got No space left on device"):
        write_half(tmp_path / "a", OSError(28, "No space left on device"))


# Anything at all: an answer in our words, or a batch without NaN.

# More, and other, examples: MDPF_FUZZ=10000.
examples = os.environ.get("MDPF_FUZZ")
quick = settings(
    max_examples=int(examples or 60),
    derandomize=examples is None,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def must_answer(path: Path) -> None:
    summary = files.summarise(path)
    if not summary.ok:
        assert " needs " in summary.findings[0].message
        with pytest.raises((ValueError, OSError), match=" needs "):
            files.read(path)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MdpfWarning)
        batch, space = files.read(path)
    assert batch.states.shape[-1] == space.dim
    for tensor in batch:
        assert tensor is None or not tensor.is_floating_point() or tensor.isfinite().all()


@quick
@given(data=st.data())
def test_fuzz_damaged_bytes(tmp_path, data):
    path = tmp_path / "log.npz"
    content = arrays(n=1, length=2)
    (np.savez_compressed if data.draw(st.booleans()) else np.savez)(path, **content)
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.none(), st.integers(0, len(raw))))
    path.write_bytes(raw[:cut])
    must_answer(path)


shapes = st.lists(st.integers(0, 4), max_size=5).map(tuple)
kinds = st.sampled_from(["f4", "f8", "f2", "i8", "u1", "?", "U3", "c8", ">f4"])
special = st.sampled_from([0.0, 1.0, -1.0, 7.0, 1e30, 1e300, np.nan, np.inf])


@st.composite
def any_array(draw) -> np.ndarray:
    shape = draw(st.one_of(shapes, st.sampled_from([(2, 3, 1), (2, 3), (2, 2, 1), (2, 3, 2), (2, 3, 2, 2, 3)])))
    array = np.full(shape, draw(special))
    flat = array.reshape(-1)
    for _ in range(draw(st.integers(0, 3)) if flat.size else 0):
        flat[draw(st.integers(0, flat.size - 1))] = draw(special)
    with np.errstate(all="ignore"):
        return array.astype(draw(kinds))


@quick
@given(
    content=st.dictionaries(st.sampled_from(["states", "observations", "actions", "labelled", "valid", "observed"]), any_array()),
    space=st.one_of(st.just('{"coordinates": [{"name": "x", "angle": true}]}'), st.text(max_size=30)),
)
def test_fuzz_arbitrary_arrays(tmp_path, content, space):
    sound = {"states": np.zeros((2, 3, 1)), "observations": np.ones((2, 3, 2))}
    write_arrays(tmp_path / "log.npz", {**sound, **content, "space": np.array(space)})
    must_answer(tmp_path / "log.npz")
