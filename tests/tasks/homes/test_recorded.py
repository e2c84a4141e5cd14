"""The published data, read from files that are written here in their very format."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from mdpf.checks import MdpfWarning
from mdpf.tasks.homes import recorded, walks

LENGTH = 5


def png(array, bits=8):
    stream = io.BytesIO()
    Image.fromarray(array.astype(np.uint8 if bits == 8 else np.uint16)).save(stream, "PNG")
    return stream.getvalue()


def make(seed=0, length=LENGTH, size=(56, 56), home=b"home-a"):
    """The features of one walk on a map of 80 (x) by 60 (y) pixels with one wall at x = 30."""
    random = np.random.default_rng(seed)
    states = np.concatenate([random.uniform(5, 55, (length, 2)), random.uniform(-9, 9, (length, 1))], 1).astype("<f4")
    odometry = random.normal(size=(length, 3)).astype("<f4")
    odometry[-1] = 0
    wall = np.zeros((80, 60), np.uint8)  # Indexed by x first.
    wall[30, 10:50] = 255
    images = random.integers(0, 256, (length, *size, 3))
    return {
        "roomID": [b"0"],
        "houseID": [home],
        "map_wall": [png(wall)],
        "map_door": [png(0 * wall)],
        "map_roomid": [png(0 * wall)],
        "map_roomtype": [png(0 * wall, bits=16)],
        "states": [states.tobytes()],
        "odometry": [odometry.tobytes()],
        "rgb": [png(image) for image in images],
        "depth": [png(image[..., 0]) for image in images],
    }, (states, odometry, images)


@pytest.fixture
def write(records, tmp_path):
    """Write walks into a file; ``None`` in place of a feature leaves it out."""

    def write(*features):
        contents = [records.example(**{name: value for name, value in walk.items() if value is not None}) for walk in features]
        return records.write(tmp_path / "train.tfrecords", *contents)

    return write


def test_walks_come_back_as_they_were_written(write):
    (first, truth), (second, _) = make(0), make(1, home=b"home-a")
    found = recorded.load(write(first, second), length=LENGTH, generator=torch.Generator().manual_seed(0))
    states, odometry, images = (torch.from_numpy(np.array(part)) for part in truth)
    torch.testing.assert_close(found.walks.states[0], walks.SPACE.wrap(states))
    assert torch.equal(found.images[0], images.to(torch.uint8))
    assert found.walks.home.tolist() == [0, 0]  # One map for both.
    assert found.names == ["home-a"]
    expected = np.zeros((60, 80), bool)
    expected[10:50, 30] = True
    np.testing.assert_array_equal(found.maps[0], expected)
    # The noise is that of the stated sources: the same stream added to the stored steps.
    steps = torch.stack([odometry[:-1], torch.from_numpy(make(1)[1][1][:-1].copy())])
    again = walks.odometry_noise(steps, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(found.walks.actions, again)


def test_the_start_of_a_walk_and_some_of_the_walks_can_be_taken(write):
    path = write(*(make(seed)[0] for seed in range(3)))
    found = recorded.load(path, length=3, count=2)
    assert found.walks.states.shape == (2, 3, 3)
    assert found.walks.actions.shape == (2, 2, 3)
    assert found.images.shape == (2, 3, 56, 56, 3)


def test_larger_images_are_resized_between_pixel_centres(write):
    features, (_, _, images) = make(size=(112, 168))
    found = recorded.load(write(features), length=2).images[0, 0].float()
    # Twice as high: the mean of two rows. Three times as wide: the middle one of three columns.
    rows = images[0].reshape(56, 2, 168, 3).mean(1)
    torch.testing.assert_close(found, torch.from_numpy(rows[:, 1::3]).float(), atol=0.51, rtol=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"odometry": None}, "the features states, odometry, map_wall, rgb, got none of the name odometry"),
        ({"rgb": None, "states": None}, "of the name states, rgb"),
        ({"states": [b"123"]}, "states as bytes of float32, three for each frame, got 3 bytes"),
        ({"states": [np.zeros((2, 3), "<f4").tobytes()]}, "5 frames, got 2 in states"),
        ({"states": [np.full((5, 3), np.nan, "<f4").tobytes()]}, "finite numbers in states"),
        ({"states": [np.full((5, 3), 100, "<f4").tobytes()]}, "poses on its map of 80 by 60 pixels, .*The map is of another scale"),
        ({"map_wall": [b"no picture"]}, "a PNG in map_wall"),
        ({"rgb": [b"no picture"] * 5}, "a PNG in rgb of frame 0"),
        ({"rgb": [png(np.zeros((56, 56)))] * 5}, "rgb of frame 0 with three channels of 8 bits"),
        ({"rgb": [png(np.zeros((56, 56, 3)))] * 4 + [png(np.zeros((30, 40, 3)))]}, "images of one size, got \\(30, 40\\) and"),
        ({"rgb": [png(np.zeros((56, 56, 3)))] * 4}, "5 images, got 4"),
    ],
)
def test_a_bad_record_is_named_or_left_out(write, change, message):
    path = write(make(0)[0], make(1)[0] | change, make(2)[0])
    with pytest.raises(ValueError, match=rf"record 1 \(home 'home-a'\), needs .*{message}"):
        recorded.load(path, length=LENGTH)
    with pytest.warns(MdpfWarning, match="A record is left out: .*record 1"):
        found = recorded.load(path, length=LENGTH, skip_bad=True)
    assert found.walks.states.shape[0] == 2


def test_a_damaged_record_is_named_or_left_out(write):
    path = write(make(0)[0], make(1)[0])
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="record 1, needs content with its checksum"):
        recorded.load(path, length=LENGTH)
    with pytest.warns(MdpfWarning, match="left out"):
        assert len(recorded.load(path, length=LENGTH, skip_bad=True).walks.states) == 1


def test_a_file_without_walks_is_refused(write):
    with pytest.raises(ValueError, match="at least one walk of 5 frames, got none"):
        recorded.load(write(), length=LENGTH)
