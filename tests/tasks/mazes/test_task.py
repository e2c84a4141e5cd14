"""The task: states, actions and sensors as declared, and as published where that was asked for."""

import math

import pytest
import torch

from mdpf import noise
from mdpf.spaces import wrap
from mdpf.tasks import TASKS
from mdpf.tasks.homes.walks import dead_reckoning
from mdpf.tasks.mazes import geometry, recordings
from mdpf.tasks.mazes import task as mazes
from mdpf.testing.assertions import assert_mean

MAZES = [geometry.read(number) for number in geometry.NUMBERS]


def stream(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def recording():
    return recordings.record(MAZES[1], 4, 100, generator=stream())


@pytest.mark.parametrize("maze", MAZES)
@pytest.mark.parametrize("conventions", [mazes.CLEAN, mazes.ORIGINAL])
def test_states_are_centred_and_scaled_and_come_back(maze, conventions):
    width, height = maze.extent
    corners = torch.tensor([[0, 0, 0.5], [width, height, -3.0]], dtype=torch.float64)
    states = conventions.states(maze, corners)
    tall = 10.0 if conventions.per_axis else 10 * height / width
    torch.testing.assert_close(states[:, :2], torch.tensor([[-10, -tall], [10, tall]], dtype=torch.float64))
    torch.testing.assert_close(conventions.poses(maze, states), corners)


def test_clean_actions_lead_from_state_to_state(recording):
    batch = mazes.sequences(recording)
    reached = dead_reckoning(batch.states[:, 0], batch.actions)
    torch.testing.assert_close(reached[..., :2], batch.states[..., :2], rtol=0, atol=1e-4)
    assert wrap(reached[..., 2] - batch.states[..., 2]).abs().max() < 1e-4


def test_published_actions_follow_the_published_formula(recording):
    """Both oddities: scaled axis by axis before the rotation, and sideways to the right."""
    batch = mazes.sequences(recording, mazes.ORIGINAL)
    pose = recording.poses.double()
    x, y = pose[..., 0] / 1500 * 20 - 10, pose[..., 1] / 900 * 20 - 10
    dx, dy, turn = x.diff(dim=1), y.diff(dim=1), wrap(pose[..., 2].diff(dim=1))
    c, s = pose[:, :-1, 2].cos(), pose[:, :-1, 2].sin()
    expected = torch.stack([c * dx + s * dy, s * dx - c * dy, turn], -1)
    torch.testing.assert_close(batch.actions, expected.float(), rtol=0, atol=1e-5)
    torch.testing.assert_close(batch.states[..., 1], y.float())


def test_sensors_crop_and_disturb_as_declared(recording):
    batch = mazes.sequences(recording).take(slice(0, 2))
    exact = mazes.Sensors(pixel_scale=0.0, action_scale=0.0)(batch, generator=stream())
    assert torch.equal(exact.actions, batch.actions)
    places = set()
    for image, part in zip(batch.observations.flatten(0, 1), exact.observations.flatten(0, 1), strict=True):
        found = [
            (row, column)
            for row in range(9)
            for column in range(9)
            if torch.equal(image[row : row + 24, column : column + 24], part)
        ]
        assert found
        places.update(found)
    assert {row for row, _ in places} == {column for _, column in places} == set(range(9))


@pytest.mark.statistical
def test_noise_has_the_declared_size(recording):
    batch = mazes.sequences(recording)
    grey = batch._replace(observations=torch.full_like(batch.observations, 128))
    noisy = mazes.Sensors()(grey, generator=stream(1))
    pixels = noisy.observations.double() - 128
    # Rounding adds 1/12.
    assert_mean(pixels.reshape(-1)[:200_000].square(), 400 + 1 / 12, max_se=2.0)
    moves = batch.actions.abs() > 1e-3
    factor = (noisy.actions / batch.actions)[moves].double()
    assert_mean(factor, 1.0, max_se=0.02)
    assert_mean((factor - 1).square(), 0.25, max_se=0.02)


def test_dark_and_bright_pixels_are_clipped(recording):
    batch = mazes.sequences(recording).take(slice(0, 1))
    for value in (0, 255):
        seen = mazes.Sensors()(batch._replace(observations=torch.full_like(batch.observations, value)), generator=stream())
        share = (seen.observations == value).double().mean()
        assert 0.45 < share < 0.55


def test_sensors_draw_through_the_one_mechanism(recording):
    batch = mazes.sequences(recording).take(slice(0, 2))
    recorder = noise.Recorder(stream(4))
    first = mazes.Sensors()(batch, generator=recorder)
    again = mazes.Sensors()(batch, generator=recorder.noise)
    assert torch.equal(first.observations, again.observations)
    assert torch.equal(first.actions, again.actions)
    with pytest.raises(ValueError, match="Sensors need images of at least 24 by 24 in uint8, got a uint8 tensor of shape"):
        mazes.Sensors().see(batch.observations[..., :20, :], batch.states)


def test_windows_follow_each_other(recording):
    batch = mazes.sequences(recording)
    found = mazes.windows(batch, 17, label_every=4)
    assert found.states.shape == (20, 17, 3)
    assert found.actions.shape == (20, 16, 3)
    for index, start in enumerate((0, 17, 34, 51, 68)):
        assert torch.equal(found.states[5 + index], batch.states[1, start : start + 17])
        assert torch.equal(found.actions[5 + index], batch.actions[1, start : start + 16])
    assert found.labelled[0].nonzero()[:, 0].tolist() == [0, 4, 8, 12, 16]
    with pytest.raises(ValueError, match="windows needs sequences of at least 101 frames, got 100"):
        mazes.windows(batch, 101)


def test_windows_stay_on_their_device(recording):
    batch = mazes.sequences(recording).to("meta")
    found = mazes.windows(batch, 17, label_every=4)
    assert {tensor.device.type for tensor in found if tensor is not None} == {"meta"}


def test_splits_are_those_of_the_study():
    declared = {split.name: (split.num_sequences, split.length, mazes.num_walks(split)) for split in TASKS["maze-1"]().splits}
    assert declared == {"train": (4000, 17, 800), "validation": (1000, 17, 200), "evaluation": (1000, 100, 1000)}


def test_the_seed_says_everything():
    task = TASKS["maze-3"]()
    first, again = (task.split("train", num_sequences=5) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        assert (one is None and other is None) or torch.equal(one, other)


def test_bad_odometry_leads_astray():
    """What is left of knowing the start after a hundred steps: little; otherwise no image would be needed."""
    task = TASKS["maze-1"]()
    batch = task.split("evaluation", num_sequences=40)
    error = task.space.difference(dead_reckoning(batch.states[:, 0], batch.actions), batch.states)[:, -1]
    assert error[:, 2].square().mean().sqrt() > 0.5
    assert error[:, :2].square().sum(-1).mean().sqrt() > 2.0
    assert math.isclose(batch.states[..., :2].abs().amax().item(), 10.0, rel_tol=0.1)


@pytest.mark.gpu
def test_a_gpu_sees_the_same_walks(recording):
    there = recordings.record(MAZES[1], 4, 100, generator=stream(), device="cuda")
    assert torch.equal(there.poses.cpu(), recording.poses)
    difference = (there.images.cpu().int() - recording.images.int()).abs()
    # Rounding may move the edge of a texel.
    assert (difference > 1).float().mean() < 1e-3
    batch = mazes.sequences(recording)
    recorder = noise.Recorder(stream(2))
    ours = mazes.Sensors()(batch, generator=recorder)
    theirs = mazes.Sensors()(batch.to("cuda"), generator=recorder.noise)
    assert torch.equal(theirs.observations.cpu(), ours.observations)
    torch.testing.assert_close(theirs.actions.cpu(), ours.actions)
