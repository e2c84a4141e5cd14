"""What the camera sees: exact depth, pictures where they hang and the right way round, and frames that stay as they are."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mdpf.render import Camera
from mdpf.tasks.mazes import geometry, scene, walks

MAZES = [geometry.read(number) for number in geometry.NUMBERS]
SNAPSHOT = Path(__file__).with_name("snapshot.png")


def poses(maze, count, seed=0):
    return walks.anywhere(maze, count, generator=torch.Generator().manual_seed(seed))


def first_wall(maze, pose):
    """How far it is straight ahead to the nearest wall, in cells: every wall is a rectangle, and the ray is clipped to each."""
    boxes = np.array([(x0, y0, x1, y1) for (x0, y0), (x1, y1) in maze.walls]) + 0.01 * np.array([-1, -1, 1, 1])
    place, direction = pose[:, None, :2] / maze.cell, np.stack([np.cos(pose[:, 2]), np.sin(pose[:, 2])], -1)[:, None]
    with np.errstate(divide="ignore"):
        one, other = (boxes[:, :2] - place) / direction, (boxes[:, 2:] - place) / direction
    enter, leave = np.minimum(one, other).max(-1), np.maximum(one, other).min(-1)
    return np.where((enter > 0) & (enter <= leave), enter, np.inf).min(-1)


@pytest.mark.parametrize("maze", MAZES)
def test_depth_in_the_middle_is_that_of_the_ray(maze):
    pose = poses(maze, 10_000)
    view = Camera(width=1, height=1, eye=scene.EYE / maze.cell)
    depth = scene.look(maze, pose, view=view, depth=True).depth
    np.testing.assert_allclose(depth[:, 0, 0].numpy(), first_wall(maze, pose.numpy()), rtol=0, atol=1e-4)


@pytest.mark.parametrize("maze", MAZES)
def test_pictures_hang_where_they_should_and_the_right_way_round(maze):
    inward = {0: (1, 0, math.pi), 1: (-1, 0, 0.0), 2: (0, 1, -math.pi / 2), 3: (0, -1, math.pi / 2)}
    part = torch.linspace(-0.35, 0.35, 8)
    texels = (128 * (0.5 + part)).long()
    right, mirrored = [], []
    for picture in maze.pictures:
        x, y, heading = inward[picture.side]
        along = (picture.left + picture.right) / 2
        corner = torch.tensor([picture.i, picture.j]) * maze.cell
        foot = torch.tensor([0.0 if x > 0 else 100.0, along]) if x else torch.tensor([along, 0.0 if y > 0 else 100.0])
        place = corner + foot + 46 * torch.tensor([x, y])
        pose = torch.tensor([[*place.tolist(), heading]])
        shown = scene.look(maze, pose, view=scene.camera(maze, width=64, height=64, samples=1)).rgb[0]
        # The picture is 45 units away, and the image half as wide as it is far.
        pixels = ((part * (picture.right - picture.left) / 45 + 1) * 32).long()
        expected = torch.from_numpy(scene.texture(picture.texture))[texels][:, texels] / 255
        seen = shown[pixels][:, pixels]
        right.append((seen - expected).abs().mean())
        mirrored.append((seen - expected.flip(1)).abs().mean())
    assert sum(right) < 0.75 * sum(mirrored)
    assert sum(right) / len(right) < 0.15


def test_walls_read_alike_from_every_side():
    """The texture of a plain wall looks the same whichever way it faces."""
    maze = MAZES[0]
    hung = {(picture.i, picture.j, picture.side) for picture in maze.pictures}
    turned = {0: (52.0, 50.0, math.pi), 1: (48.0, 50.0, 0.0), 2: (50.0, 52.0, -math.pi / 2), 3: (50.0, 48.0, math.pi / 2)}
    frames = {}
    for face in maze.faces:
        if face.texture.endswith("green") and face[:3] not in hung and face.side not in frames:
            x, y, heading = turned[face.side]
            pose = torch.tensor([[face.i * 100 + x, face.j * 100 + y, heading]], dtype=torch.float64)
            frames[face.side] = scene.look(maze, pose).rgb[0, 14:18]
    for side in (1, 2, 3):
        assert (frames[side] - frames[0]).abs().mean() < 0.02


def test_frames_stay_as_they_are():
    shown = [torch.cat(list(scene.images(maze, poses(maze, 4, seed=3))), 1) for maze in MAZES]
    shown = torch.cat(shown).numpy()
    if not SNAPSHOT.exists():  # Remove the file to take a new one, and look at it.
        Image.fromarray(shown).save(SNAPSHOT)
    kept = np.asarray(Image.open(SNAPSHOT))
    differs = np.abs(kept.astype(int) - shown.astype(int)) > 1
    assert differs.mean() < 1e-3  # Rounding may move the edge of a texel on another machine.


def test_a_camera_in_a_wall_is_refused():
    with pytest.raises(ValueError, match="look needs poses in the free space of maze 2"):
        scene.images(MAZES[1], torch.tensor([[0.2, 50.0, 0.0]]))
