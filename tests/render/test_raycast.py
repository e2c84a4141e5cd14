"""Rendering is exact: depth against analytic rays, every pixel against a plain search, texels at known points."""

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from mdpf.render import Atlas, Camera, Surfaces, cast, render, stack_scenes
from mdpf.render.segments import one_after_the_other

_spec = importlib.util.spec_from_file_location("scenes", Path(__file__).parent / "scenes.py")
scenes = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(scenes)

CENTRE = Camera(width=1, height=1, samples=1)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-5)])
def test_centre_depth_is_that_of_an_analytic_ray(generator, dtype, tolerance):
    across_x, across_y = scenes.random_maze(20, 13, generator)
    poses = scenes.free_poses(20, 13, 10_000, generator, dtype)
    depth = render(scenes.grid_scene(across_x, across_y), poses, CENTRE, depth=True).depth[:, 0, 0]
    exact = scenes.first_entry(scenes.boxes(across_x, across_y), poses)
    assert np.abs(depth.numpy() - exact).max() < tolerance
    assert exact.max() > 5  # Some look far.


def test_grid_and_segments_see_the_same_maze(generator):
    across_x, across_y = scenes.random_maze(7, 5, generator)
    faces = []
    for x0, y0, x1, y1 in scenes.boxes(across_x, across_y):
        faces += [((x0, y0), (x1, y0)), ((x1, y0), (x1, y1)), ((x1, y1), (x0, y1)), ((x0, y1), (x0, y0))]
    starts, ends = ([face[k] for face in faces] for k in (0, 1))
    segments = scenes.segment_scene(starts, ends, [0.0] * len(faces), [1.0] * len(faces))
    poses = scenes.free_poses(7, 5, 200, generator, torch.float64)
    camera = Camera(width=17, height=9)
    by_lines = render(scenes.grid_scene(across_x, across_y), poses, camera, depth=True).depth
    one_by_one = render(segments, poses, camera, depth=True)
    torch.testing.assert_close(by_lines, one_by_one.depth, rtol=1e-5, atol=1e-5)
    assert not one_by_one.clipped.any()


def furnished(generator, count=30):
    """Walls of all kinds: full ones, low boxes, lintels, between a floor and a ceiling."""
    start = torch.rand(count, 2, generator=generator) * 8
    end = start + torch.randn(count, 2, generator=generator)
    kind = torch.randint(3, (count,), generator=generator)
    bottom = torch.tensor([0.0, 0.0, 2.0])[kind]
    top = torch.tensor([2.5, 0.9, 2.5])[kind]
    return [value.tolist() for value in (start, end, bottom, top)]


def depth_by_search(walls, pose, camera, ceiling):
    """Every pixel on its own: the nearest of all walls at whose place the ray is between bottom and top, floor, or ceiling."""
    start, end, bottom, top = (np.array(value, dtype=np.float64) for value in walls)
    x, y, heading = pose.tolist()
    image = np.empty((camera.height, camera.width))
    for row in range(camera.height):
        for column in range(camera.width):
            right = (2 * (column + 0.5) / camera.width - 1) * math.tan(camera.field_of_view / 2)
            up = (1 - 2 * (row + 0.5) / camera.height) * math.tan(camera.field_of_view / 2) * camera.height / camera.width
            direction = np.array([math.cos(heading) + right * math.sin(heading), math.sin(heading) - right * math.cos(heading)])
            best = (ceiling - camera.eye) / up if up > 0 else -camera.eye / up
            for a, b, low, high in zip(start, end, bottom, top, strict=True):
                try:
                    along, depth = np.linalg.solve(np.stack([b - a, -direction], 1), np.array([x, y]) - a)
                except np.linalg.LinAlgError:
                    continue
                if 0 <= along <= 1 and 0 < depth < best and low <= camera.eye + up * depth <= high:
                    best = depth
            image[row, column] = best
    return image


def test_every_pixel_sees_over_low_walls_and_under_lintels(generator):
    walls = furnished(generator)
    camera = Camera(width=12, height=10, eye=1.3)
    poses = torch.cat([torch.rand(6, 2, generator=generator) * 8, torch.rand(6, 1, generator=generator) * 6.2], -1).double()
    seen = render(scenes.segment_scene(*walls, ceiling=2.5), poses, camera, depth=True, num_hits=20)
    assert not seen.clipped.any()
    for pose, depth in zip(poses, seen.depth, strict=True):
        np.testing.assert_allclose(depth.numpy(), depth_by_search(walls, pose, camera, 2.5), rtol=1e-4)


def test_frames_say_when_walls_did_not_fit(generator):
    row = [float(x) for x in range(1, 6)]
    low = scenes.segment_scene([(x, -1.0) for x in row], [(x, 1.0) for x in row], [0.0] * 5, [0.1] * 4 + [3.0])
    pose = torch.zeros(1, 3)
    assert render(low, pose, CENTRE, num_hits=4).clipped.tolist() == [True]
    assert render(low, pose, CENTRE, num_hits=5).clipped.tolist() == [False]
    # Behind a wall of full height nothing counts.
    tall = scenes.segment_scene([(x, -1.0) for x in row], [(x, 1.0) for x in row], [0.0] * 5, [3.0] * 5)
    assert render(tall, pose, CENTRE, num_hits=1).clipped.tolist() == [False]


def texel(atlas, texture, row, column):
    return atlas.texels[texture * atlas.size**2 + row * atlas.size + column]


def test_a_wall_shows_its_texture_upright_and_from_start_to_end():
    # The wall fills the image: from left (its start) to right, from its top to the floor, one texel a pixel.
    scene = scenes.segment_scene([(1.0, 1.0)], [(1.0, -1.0)], [0.0], [2.0], period=2.0)
    image = render(scene, torch.zeros(1, 3), Camera(width=8, height=8, eye=1.0)).rgb[0]
    expected = scene.atlas.texels[64:128].reshape(8, 8, 3)
    torch.testing.assert_close(image, expected)


def test_a_mirrored_picture_hangs_within_its_frame():
    picture = torch.tensor([[3]])
    frame = torch.tensor([[[0.75, 0.25, 0.5, 1.5]]])  # Its left edge is nearer to the end of the wall.
    scene = scenes.segment_scene([(1.0, 1.0)], [(1.0, -1.0)], [0.0], [2.0], period=2.0, picture=picture, frame=frame)
    image = render(scene, torch.zeros(1, 3), Camera(width=16, height=16, eye=1.0)).rgb[0]
    expected = scene.atlas.texels[64:128].reshape(8, 8, 3).repeat_interleave(2, 0).repeat_interleave(2, 1)
    expected[4:12, 4:12] = scene.atlas.texels[192:256].reshape(8, 8, 3).flip(1)
    torch.testing.assert_close(image, expected)


def test_the_floor_shows_the_texel_below_the_point_looked_at(generator):
    scene = scenes.segment_scene([(50.0, 50.0)], [(51.0, 50.0)], [0.0], [1.0])
    regions = torch.tensor([[[0, 1], [2, 3]]])
    scene = scene.__class__(**{**vars(scene), "floor": scene.floor._replace(material=regions, cell=torch.full((1,), 2.0))})
    camera = Camera(width=64, height=64, eye=0.5)
    pose = torch.tensor([[0.9, 1.2, 0.7]])
    seen = render(scene, pose, camera, depth=True)
    for row, column in [(63, 10), (60, 40), (57, 63), (55, 0)]:
        depth = camera.eye / -camera.slopes()[row]
        assert seen.depth[0, row, column] == pytest.approx(depth.item(), rel=1e-6)
        right = camera.columns()[column]
        x = 0.9 + depth * (math.cos(0.7) + right * math.sin(0.7))
        y = 1.2 + depth * (math.sin(0.7) - right * math.cos(0.7))
        texture = regions[0, int(min(x // 2, 1)), int(min(y // 2, 1))].item()
        wanted = texel(scene.atlas, texture, int(y % 1 * 8), int(x % 1 * 8))
        torch.testing.assert_close(seen.rgb[0, row, column], wanted)


def test_tints_multiply_colours(generator):
    tint = torch.rand(1, 4, 3, generator=generator)
    walls = furnished(generator)
    poses = torch.rand(5, 3, generator=generator) * 6
    camera = Camera(width=9, height=9, eye=1.3)
    white = Atlas.of(torch.ones(4, 2, 2, 3))
    image = render(scenes.segment_scene(*walls, atlas=white, tint=tint, ceiling=2.5), poses, camera, num_hits=20).rgb
    distance = (image[..., None, :] - tint[0]).abs().amax(-1).amin(-1)
    assert distance.max() < 1e-6  # Every pixel shows one of the tints, and
    upwards = image[:, 0, :].reshape(-1, 3)
    assert ((upwards - tint[0, 3]).abs().amax(-1) < 1e-6).any()  # the ceiling has its own.


def test_samples_are_averaged(generator):
    across_x, across_y = scenes.random_maze(5, 4, generator)
    scene = scenes.grid_scene(across_x, across_y)
    poses = scenes.free_poses(5, 4, 10, generator)
    fine = render(scene, poses, Camera(width=24, height=18), depth=True)
    coarse = render(scene, poses, Camera(width=8, height=6, samples=3, far=100.0), depth=True)
    torch.testing.assert_close(coarse.rgb, fine.rgb.reshape(10, 6, 3, 8, 3, 3).mean((2, 4)), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(coarse.depth, fine.depth.clamp_max(100).reshape(10, 6, 3, 8, 3).mean((2, 4)))


def test_far_textures_fade_to_their_mean():
    scene = scenes.segment_scene([(1000.0, -2000.0)], [(1000.0, 2000.0)], [0.0], [2000.0])
    image = render(scene, torch.zeros(1, 3), Camera(width=4, height=4)).rgb[0, :2]
    mean = scene.atlas.texels[64:128].mean(0)
    torch.testing.assert_close(image, mean.expand_as(image))


def test_frames_of_one_batch_come_from_different_scenes(generator):
    atlas = Atlas.of(scenes.chequered())
    several = []
    for count in (3, 30, 11):
        walls = furnished(generator, count)
        several.append(scenes.segment_scene(*walls, atlas=atlas, ceiling=2.5, tint=torch.rand(1, 4, 3, generator=generator)))
    together = stack_scenes(several)
    poses = torch.rand(20, 3, generator=generator) * 6
    index = torch.randint(3, (20,), generator=generator)
    camera = Camera(width=9, height=9, eye=1.3)
    seen = render(together, poses, camera, index=index, depth=True, num_hits=16)
    for which, scene in enumerate(several):
        alone = render(scene, poses[index == which], camera, depth=True, num_hits=16)
        assert torch.equal(seen.rgb[index == which], alone.rgb)
        assert torch.equal(seen.depth[index == which], alone.depth)


def test_portions_change_nothing(generator):
    across_x, across_y = scenes.random_maze(5, 4, generator)
    scene, poses = scenes.grid_scene(across_x, across_y), scenes.free_poses(5, 4, 21, generator)
    assert torch.equal(render(scene, poses, Camera()).rgb, render(scene, poses, Camera(), portion=4).rgb)


def test_the_same_picture_as_ever():
    """Compared in bytes; a texel on an edge may round to its neighbour on another machine, but not many do."""
    stream = torch.Generator().manual_seed(7)
    across_x, across_y = scenes.random_maze(6, 5, stream)
    scene = scenes.grid_scene(across_x, across_y, textures=scenes.chequered(4, 32))
    image = render(scene, scenes.free_poses(6, 5, 4, stream), Camera(samples=2)).rgb
    found = (image * 255).round().to(torch.uint8).numpy()
    path = Path(__file__).parent / "snapshot.npz"
    kept = np.load(path)["image"]
    assert (np.abs(found.astype(int) - kept) > 1).mean() < 0.002


@pytest.mark.gpu
def test_a_gpu_sees_what_a_processor_sees(generator):
    across_x, across_y = scenes.random_maze(6, 5, generator)
    scene, poses = scenes.grid_scene(across_x, across_y), scenes.free_poses(6, 5, 500, generator)
    here, there = (render(scene.to(device), poses.to(device), Camera(samples=2), depth=True) for device in ("cpu", "cuda"))
    assert ((here.rgb - there.rgb.cpu()).abs() > 0.01).float().mean() < 0.005
    assert ((here.depth - there.depth.cpu()).abs() > 1e-3).float().mean() < 0.005


@pytest.mark.compile
@pytest.mark.slow
def test_casting_compiles_without_a_break(generator):
    across_x, across_y = scenes.random_maze(4, 3, generator)
    scene, poses = scenes.grid_scene(across_x, across_y), scenes.free_poses(4, 3, 8, generator)
    index = torch.zeros(8, dtype=torch.long)
    compiled = torch.compile(cast, fullgraph=True, dynamic=False, backend="aot_eager")
    with torch.no_grad():
        image = compiled(scene, scene.full(), poses, Camera(), index).rgb
    assert ((image - render(scene, poses, Camera()).rgb).abs() > 0.01).float().mean() < 0.01


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda scene: render(scene, torch.zeros(3), CENTRE), r"needs a tensor of shape \[\*batch, frame, 3\]"),
        (lambda scene: render(scene, torch.zeros(2, 3), CENTRE, index=torch.zeros(3, dtype=torch.long)), "one scene for each of 2"),
        (lambda scene: Camera(field_of_view=90.0), "in radians"),
        (lambda scene: Camera(width=0), "width"),
        (lambda scene: Atlas.of(torch.zeros(1, 6, 6, 3)), "power of two"),
        (lambda scene: stack_scenes([scene, scene]), "SegmentWalls"),
        (lambda scene: type(scene)(**{**vars(scene), "sky": None}), "either a ceiling"),
        (lambda scene: type(scene)(**{**vars(scene), "surfaces": Surfaces.plain(torch.zeros(3), 1.0)}), "leading axis"),
    ],
)
def test_doors_say_what_was_needed(generator, call, message):
    scene = scenes.grid_scene(*scenes.random_maze(3, 2, generator))
    with pytest.raises(ValueError, match=message):
        call(scene)


def test_the_nearest_walls_are_found_one_after_the_other(generator):
    depth = torch.rand(4, 6, 20, generator=generator)
    depth[depth > 0.3] = torch.inf  # Some rays meet fewer than are asked for.
    found, expected = one_after_the_other(depth, 7), depth.topk(7, largest=False)
    assert torch.equal(found[0], expected.values)
    met = found[0] < torch.inf
    assert 0 < met.sum() < met.numel()
    assert torch.equal(found[1][met], expected.indices[met])
