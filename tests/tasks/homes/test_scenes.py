"""Scenes: what is seen agrees with the map, with the geometry computed by hand, and with the decoration."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from mdpf.render import render
from mdpf.tasks.homes import decor, geometry, patterns, scenes, walks
from mdpf.tasks.homes.geometry import PIXEL, ROOMS

LINE = replace(scenes.CAMERA, width=1, height=3, samples=1, field_of_view=math.radians(2))


def pose(x, y, degrees):
    return torch.tensor([[x / PIXEL, y / PIXEL, math.radians(degrees)]])


def look(scene, pose, camera=LINE):
    return render(scene, scenes.viewpoints(pose), camera, depth=True, num_hits=10)


@pytest.fixture(scope="module")
def scene(home):
    return scenes.build([home])


@pytest.mark.parametrize(
    ("place", "degrees", "distance"),
    [
        ((1.5, 1.0), 0, 0.95),  # The wall between the rooms, half of its thickness nearer than its middle.
        ((1.5, 1.9), 0, 2.95),  # Through the passage to the entrance's wall.
        ((1.5, 1.9), 180, 0.95),
        ((1.5, 1.9), 90, 1.55),  # Towards growing y.
        ((1.5, 1.9), -90, 1.35),  # The wall with the window.
        ((3.0, 1.9), 180, 2.45),
    ],
)
def test_distances_are_those_of_the_plan(scene, place, degrees, distance):
    assert look(scene, pose(*place, degrees)).depth[0, 1, 0].item() == pytest.approx(distance, abs=1e-5)


def test_what_lies_towards_growing_angles_is_on_the_right_of_the_image(scene):
    depth = look(scene, pose(1.5, 1.2, 0), replace(scenes.CAMERA, samples=1)).depth[0, 28]
    # The passage begins 0.3 m towards growing y.
    assert depth[45] > 2
    assert depth[:28].max() < 1.2


def test_a_lintel_hangs_over_a_passage_and_a_window_shows_sky(scene, home):
    up = replace(LINE, height=101, field_of_view=math.radians(1))
    seen = look(scene, pose(1.5, 1.9, 0), replace(up, height=201)).depth[0, :, 0]
    assert seen[100].item() == pytest.approx(2.95, abs=1e-4)
    wide = replace(scenes.CAMERA, samples=1, field_of_view=math.radians(90))
    near = look(scene, pose(2.2, 1.9, 0), wide)
    # Of the lintel's underside, at 1 m above the eye and 0.25 m ahead, nothing is nearer than its face.
    assert near.depth[0, 0, 28] >= 0.25 - 1e-4
    window = look(scene, pose(1.5, 1.2, -90), wide)
    # Blue is strongest in the sky.
    middle = window.rgb[0, 18:26, 24:32].mean((0, 1))
    assert middle[2] > 0.85
    assert middle[2] > middle[0] + 0.1


def test_each_side_of_a_wall_is_painted_after_its_room(scene, home):
    painted = decor.decorate(home.id)
    for x, degrees, room in ((1.5, 0, "living_room"), (3.5, 180, "bathroom")):
        material = decor.wall(ROOMS.index(room), 0)
        found = look(scene, pose(x, 1.0, degrees)).rgb[0, 1, 0].numpy()
        texels = patterns.draw()[painted.pattern[material]].reshape(-1, 3) * painted.tint[material]
        assert (found >= texels.min(0) - 1e-6).all()
        assert (found <= texels.max(0) + 1e-6).all()


def test_decoration_differs_between_homes_and_seeds_and_is_kept(home):
    first, again = decor.decorate("a"), decor.decorate("a")
    assert np.array_equal(first.tint, again.tint)
    assert not np.array_equal(first.tint, decor.decorate("b").tint)
    assert not np.array_equal(first.tint, decor.decorate("a", seed=1).tint)
    assert len(first.pattern) == decor.COUNT
    assert scenes.build([home]).materials.texture.shape == (1, decor.COUNT)


def test_patterns_have_no_seam_and_stay_in_range():
    drawn = patterns.draw()
    assert drawn.shape == (len(patterns.NAMES), patterns.SIDE, patterns.SIDE, 3)
    assert drawn.min() >= 0
    assert drawn.max() <= 1
    smooth = drawn[patterns.NAMES.index("plaster")]
    assert np.abs(smooth[0] - smooth[-1]).max() < 3 * np.abs(np.diff(smooth, axis=0)).max()


@pytest.fixture(scope="module")
def three():
    return geometry.homes("validation", count=3)


def test_images_agree_with_the_map(three):
    """At the height of the eye one sees as far as the map is free: rays followed on the map, pixel by pixel."""
    built = scenes.build(three)
    poses = torch.cat([walks.anywhere(home, 60, seed=0) for home in three])
    index = torch.arange(3).repeat_interleave(60)
    # The eye above all furniture.
    camera = replace(LINE, eye=1.5)
    seen = render(built, scenes.viewpoints(poses), camera, index=index, depth=True).depth[:, 1, 0].double().numpy()
    steps = np.arange(0, 10, PIXEL / 4)
    expected = []
    for (x, y, heading), home in zip(poses.double().numpy(), index.tolist(), strict=True):
        walls = three[home].wall_map()
        columns, rows = (x + np.cos(heading) * steps / PIXEL).astype(int), (y + np.sin(heading) * steps / PIXEL).astype(int)
        inside = (rows >= 0) & (columns >= 0) & (rows < walls.shape[0]) & (columns < walls.shape[1])
        met = ~inside | walls[np.where(inside, rows, 0), np.where(inside, columns, 0)]
        expected.append(steps[met.argmax()])
    error = np.abs(seen - np.array(expected))
    # A ray along a wall may see its face where the map, drawn in pixels, has none.
    assert (error < 2 * PIXEL).mean() > 0.97
    assert np.median(error) < PIXEL


def test_a_batch_mixes_homes(three):
    together = scenes.build(three)
    poses = torch.cat([walks.anywhere(home, 2, seed=1) for home in three])
    camera = replace(scenes.CAMERA, width=14, height=14, samples=1)
    mixed = render(together, scenes.viewpoints(poses), camera, index=torch.arange(3).repeat_interleave(2)).rgb
    alone = [
        render(scenes.build([home]), scenes.viewpoints(part), camera).rgb for home, part in zip(three, poses.split(2), strict=True)
    ]
    torch.testing.assert_close(mixed, torch.cat(alone))


def test_no_home_is_an_error():
    with pytest.raises(ValueError, match="got none"):
        scenes.build([])
