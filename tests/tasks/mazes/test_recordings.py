"""Published files: read as what they are, and refused with a reason where they are not."""

import io

import numpy as np
import pytest
import torch

from mdpf.spaces import wrap
from mdpf.tasks.mazes import geometry, recordings
from mdpf.tasks.mazes import task as mazes


@pytest.fixture(scope="module")
def recording():
    return recordings.record(geometry.read(1), 3, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def arrays(recording):
    """The arrays of a published file: flat over time, headings in degrees, pixels from 0 to 255."""
    poses = recording.poses.reshape(-1, 3).double().numpy().copy()
    poses[:, 2] = np.rad2deg(poses[:, 2])
    images = recording.images.reshape(-1, 32, 32, 3).numpy()
    depth = np.full((*images.shape[:-1], 1), 7, np.uint8)
    return {"pose": poses, "vel": np.zeros_like(poses), "rgbd": np.concatenate([images, depth], -1)}


@pytest.mark.parametrize("kind", [np.uint8, np.float32, np.float64])
def test_a_published_file_gives_the_same_task(recording, arrays, tmp_path, kind):
    path = tmp_path / "nav01_train.npz"
    arrays["rgbd"] = arrays["rgbd"].astype(kind)
    np.savez(path, **arrays)
    found = recordings.load(path)
    assert found.maze is recording.maze
    assert torch.equal(found.images, recording.images)
    theirs, ours = mazes.sequences(found, mazes.ORIGINAL), mazes.sequences(recording, mazes.ORIGINAL)
    torch.testing.assert_close(theirs.states, ours.states, rtol=0, atol=1e-5)
    torch.testing.assert_close(theirs.actions, ours.actions, rtol=0, atol=1e-4)


def test_what_is_saved_is_of_the_published_format(recording, tmp_path):
    path = tmp_path / "nav01_test.npz"
    recordings.save(path, recording)
    with np.load(path, allow_pickle=False) as content:
        assert {name: content[name].shape for name in content} == {"pose": (300, 3), "vel": (300, 3), "rgbd": (300, 32, 32, 4)}
        assert np.abs(content["pose"][:, 2]).max() > 90
    found = recordings.load(path)
    assert torch.equal(found.images, recording.images)
    torch.testing.assert_close(found.poses[..., :2], recording.poses[..., :2])
    assert wrap(found.poses[..., 2] - recording.poses[..., 2]).abs().max() < 1e-5


def without(name):
    return lambda arrays: arrays.pop(name)


def changed(name, change):
    def apply(arrays):
        arrays[name] = change(arrays[name])

    return apply


def outside(pose):
    pose[7, 0] = 1400.0
    return pose


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (without("rgbd"), "needs the arrays pose, vel, rgbd, got none of the name rgbd"),
        (without("pose"), "needs the arrays pose, vel, rgbd, got none of the name pose, but vel. Is it of another task"),
        (changed("pose", lambda pose: pose.astype("S8")), r"needs pose as numbers of shape \[steps, 3\], got \|S8"),
        (
            changed("pose", lambda pose: pose[:, :2]),
            r"needs pose as numbers of shape \[steps, 3\], got float64 of shape \[300, 2\]",
        ),
        (changed("rgbd", lambda rgbd: rgbd[..., :3]), r"needs rgbd as numbers of shape \[steps, 32, 32, 4\], got uint8 of shape"),
        (changed("pose", lambda pose: pose[:-1]), "needs as many poses as images, a multiple of 100, got 299 and 300"),
        (changed("pose", lambda pose: pose * [1, 1, np.pi / 180]), "needs headings in degrees, got none beyond 3.1.*numpy.rad2deg"),
        (changed("pose", outside), r"needs poses inside maze 1, from 0 to 1000 and from 0 to 500 units, got \(1400, .* at step 7"),
        (changed("pose", lambda pose: pose * np.nan), "needs finite poses, got others at step 0"),
        (changed("rgbd", lambda rgbd: rgbd / 255.0), r"needs colours from 0 to 255, got 0\.\d+ to "),
    ],
)
def test_what_is_wrong_is_said(arrays, tmp_path, spoil, message):
    spoil(arrays)
    np.savez(tmp_path / "nav01_train.npz", **arrays)
    with pytest.raises(ValueError, match=f"Reading 'nav01_train.npz' {message}"):
        recordings.load(tmp_path / "nav01_train.npz")


def test_a_length_that_is_no_multiple_of_100_is_refused(arrays, tmp_path):
    np.savez(tmp_path / "nav01_train.npz", **{name: array[:250] for name, array in arrays.items()})
    with pytest.raises(ValueError, match="a multiple of 100, got 250 and 250"):
        recordings.load(tmp_path / "nav01_train.npz")


def test_a_truncated_file_is_refused(arrays, tmp_path):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    path = tmp_path / "nav01_train.npz"
    path.write_bytes(buffer.getvalue()[:-1000])
    with pytest.raises(ValueError, match="cut short"):
        recordings.load(path)


def test_a_pickle_is_never_loaded(arrays, tmp_path):
    arrays["rgbd"] = np.array([{"evil": 1}], dtype=object)
    np.savez(tmp_path / "nav01_train.npz", **arrays, allow_pickle=True)
    with pytest.raises(ValueError, match="array of Python objects, which only unpickling could load"):
        recordings.load(tmp_path / "nav01_train.npz")


def test_the_maze_is_named_where_the_file_does_not(arrays, tmp_path):
    path = tmp_path / "walks.npz"
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match="needs the number of a maze, got a name that does not say it. Pass maze=1, 2 or 3"):
        recordings.load(path)
    assert recordings.load(path, maze=1).poses.shape == (3, 100, 3)
