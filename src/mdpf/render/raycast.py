"""From poses to images: follow the rays of every column, then paint every pixel of it."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mdpf.checks import check_tensor, describe
from mdpf.render.camera import Camera
from mdpf.render.grid import Hits
from mdpf.render.scene import Plane, Scene

# Frames at a time: on a processor as many as its caches hold; on a GPU enough to fill it.
PORTION = {"cpu": 32, "cuda": 4096}


class Frames(NamedTuple):
    """What a camera sees.

    Args:
        rgb: Colours from 0 to 1, ``[F, height, width, 3]``.
        depth: Along the axis of the camera, ``[F, height, width]``; None if it was not asked for. Of several samples, the mean.
        clipped: Frames in which some column met more walls than were followed, ``[F]``; something may be missing there.
    """

    rgb: Tensor
    depth: Tensor | None
    clipped: Tensor


@torch.no_grad()
def render(
    scene: Scene,
    poses: Tensor,
    camera: Camera,
    *,
    index: Tensor | None = None,
    depth: bool = False,
    num_hits: int = 8,
    portion: int | None = None,
) -> Frames:
    """Look from every pose.

    Args:
        scene: What there is to see.
        poses: Position and heading in radians, counted from the x-axis towards the y-axis, ``[F, 3]``. Their dtype is that of the
            geometry. A camera inside a wall sees what is behind it.
        camera: The camera.
        index: Which scene each frame is in, ``[F]``; the first by default.
        depth: Whether to measure depth too.
        num_hits: How many walls a ray is followed through where it may pass over or under them.
        portion: Frames at a time.

    Example:
        A box with a low wall in it, seen along the x-axis from its middle.

        >>> from mdpf.render import Atlas, Material, SegmentWalls, Surfaces
        >>> start = torch.tensor([[[-2.0, -2], [2, -2], [2, 2], [-2, 2], [0.5, -1]]])
        >>> end = torch.tensor([[[2.0, -2], [2, 2], [-2, 2], [-2, -2], [0.5, 1]]])
        >>> bottom, top = torch.zeros(1, 5), torch.tensor([[2.5, 2.5, 2.5, 2.5, 0.5]])
        >>> one, painted = torch.ones(1), torch.zeros(1, 5, dtype=torch.long)
        >>> plane = Plane(torch.ones(1, 1, 1, dtype=torch.long), torch.zeros(1, 2), cell=one, period=one)
        >>> box = Scene(
        ...     walls=SegmentWalls(start, end),
        ...     surfaces=Surfaces.tiled(painted, start, end, bottom, top, period=1.0),
        ...     materials=Material(torch.tensor([[0, 1]])),
        ...     atlas=Atlas.of(torch.rand(2, 64, 64, 3)),
        ...     floor=plane, ceiling=plane, ceiling_height=2.5 * one,
        ... )
        >>> render(box, torch.zeros(1, 3), Camera(width=1, height=5, eye=1.25), depth=True).depth[0, :, 0]
        tensor([0.3125, 0.6250, 2.0000, 0.5000, 0.3125])
    """
    check_tensor("render", poses, ["frame", 3], "Poses are x, y and heading in radians.")
    if index is None:
        index = torch.zeros(len(poses), dtype=torch.long, device=poses.device)
    if index.shape != poses.shape[:1] or index.dtype != torch.long:
        raise ValueError(f"render needs one scene for each of {len(poses)} poses, of dtype int64, got {describe(index)}.")
    full = scene.full()
    size = portion or PORTION.get(poses.device.type, PORTION["cpu"])
    parts = [
        cast(scene, full, part, camera, which, depth=depth, num_hits=num_hits)
        for part, which in zip(poses.split(size), index.split(size), strict=True)
    ]
    rgb, far, clipped = zip(*parts, strict=True)
    return Frames(torch.cat(rgb), torch.cat(far) if depth else None, torch.cat(clipped))


def cast(
    scene: Scene, full: Tensor, poses: Tensor, camera: Camera, index: Tensor, *, depth: bool = False, num_hits: int = 8
) -> Frames:
    """What ``render`` does to one portion of frames: no check, no loop, nothing that waits for the device; made for compiling."""
    heading = poses[:, 2, None]
    ahead = torch.stack([heading.cos(), heading.sin()], -1)
    right = torch.stack([heading.sin(), -heading.cos()], -1)
    direction = ahead + camera.columns(poses)[:, None] * right
    hits = scene.walls.hit(index, poses[:, :2], direction, num_hits, full)
    slopes = camera.slopes(poses).to(torch.float32)
    upper = (camera.height * camera.samples) // 2  # Rows that look up; those below look down, one in the middle straight ahead.
    behind = _background(scene, camera, poses, direction, index, slopes, upper)
    behind = _join(*(part if depth else part._replace(depth=None) for part in behind))
    pixels = _paint(_layers(scene, camera, hits, index), camera, slopes, behind)
    rgb = _shrink(_colour(scene, pixels, index), camera.samples)
    if pixels.depth is None:
        return Frames(rgb, None, hits.clipped)
    return Frames(rgb, _shrink(pixels.depth.clamp_max(camera.far)[..., None], camera.samples)[..., 0], hits.clipped)


class Pixels(NamedTuple):
    """What samples show, ``[F, rows, columns]``.

    Args:
        texel: Its index in the atlas.
        material: That of the material; None in a scene where nothing is tinted.
        depth: None where nobody asks for it.
    """

    texel: Tensor
    material: Tensor | None
    depth: Tensor | None


class Layer(NamedTuple):
    """One thing that stands in a column, ``[F, 1, C]`` each: texels go down from ``texel`` by one row of the texture each."""

    depth: Tensor
    bottom: Tensor
    top: Tensor
    texel: Tensor
    side: Tensor
    rate: Tensor
    material: Tensor


def _background(
    scene: Scene, camera: Camera, poses: Tensor, direction: Tensor, index: Tensor, slopes: Tensor, upper: int
) -> tuple[Pixels, Pixels]:
    """What is seen where no wall stands: ceiling or sky above the horizon, the floor below."""
    below = _plane(scene, scene.floor, camera, poses, direction, index, -camera.eye / slopes[upper:])
    if scene.ceiling is None or scene.ceiling_height is None:
        above = _sky(scene, direction, index, slopes[:upper])
    else:
        height = scene.ceiling_height.to(torch.float32)[index][:, None, None] - camera.eye
        above = _plane(scene, scene.ceiling, camera, poses, direction, index, height / slopes[:upper, None])
    return above, below


def _join(above: Pixels, below: Pixels) -> Pixels:
    return Pixels(*(None if one is None else torch.cat([one, other], 1) for one, other in zip(above, below, strict=True)))  # type: ignore[arg-type]


def _plane(scene: Scene, plane: Plane, camera: Camera, poses: Tensor, direction: Tensor, index: Tensor, depth: Tensor) -> Pixels:
    """A floor or ceiling that every row sees at its own depth."""
    atlas = scene.atlas
    # Rows that look exactly along the horizon see the plane nowhere; far away every texel is the same.
    depth = (depth if depth.ndim == 3 else depth[None, :, None]).abs().clamp_max(1e6)
    direction = direction.to(torch.float32)
    x, y = (poses[:, axis].to(torch.float32)[:, None, None] + depth * direction[:, None, :, axis] for axis in (0, 1))
    period = plane.period.to(torch.float32)[index][:, None, None]
    level = atlas.level(depth * (camera.ray_width * atlas.size) / period)
    side = atlas.side(level)
    scale = side / period
    column, row = (((place * scale).floor().to(torch.int32)) & (side - 1) for place in (x, y))
    _, across, along = plane.material.shape
    start = (index.to(torch.int32) * (across * along))[:, None, None]
    if across * along == 1:
        region = start.expand(x.shape)
    else:
        cell = plane.cell.to(torch.float32)[index][:, None, None]
        corner = plane.corner.to(torch.float32)[index][:, :, None, None]
        i = ((x - corner[:, 0]) / cell).clamp(0, across - 1).to(torch.int32)
        j = ((y - corner[:, 1]) / cell).clamp(0, along - 1).to(torch.int32)
        region = start + i * along + j
    material = plane.material.reshape(-1).take(region.long())
    texture = _texture(scene, material, index)
    texel = atlas.start(level) + (texture * side + row) * side + column
    tinted = None if scene.materials.tint is None else material
    return Pixels(texel.to(torch.int32), tinted, depth.expand(x.shape))


def _sky(scene: Scene, direction: Tensor, index: Tensor, slopes: Tensor) -> Pixels:
    """Four equal pictures at an infinite distance, one for each direction; their upper edge goes on upwards."""
    atlas = scene.atlas
    assert scene.sky is not None
    dx, dy = direction.to(torch.float32).unbind(-1)
    along_x = dx.abs() >= dy.abs()
    length = torch.where(along_x, dx, dy)
    position = torch.where(along_x, dy, dx) / length  # From -1 to 1 between the corners.
    side = atlas.size
    column = ((position + 1) * (side / 2)).to(torch.int32).clamp(0, side - 1)
    height = slopes[:, None] / length.abs()[:, None]
    row = ((1 - height) * (side / 2)).clamp(0, side - 1).to(torch.int32)
    material = scene.sky[index]
    texture = _texture(scene, material, index).to(torch.int32)[:, None, None]
    texel = (texture * side + row) * side + column[:, None]
    tinted = None if scene.materials.tint is None else material[:, None, None].expand(texel.shape)
    return Pixels(texel, tinted, torch.full_like(height, math.inf))


def _paint(layers: list[Layer], camera: Camera, slopes: Tensor, behind: Pixels) -> Pixels:
    """Put the walls of every column before its background, the farthest first."""
    texel, material, depth = behind
    for layer in layers:
        height = camera.eye + slopes[:, None] * layer.depth
        shown = (height >= layer.bottom) & (height <= layer.top)
        row = ((layer.top - height) * layer.rate).to(torch.int32) & (layer.side - 1)
        texel = torch.where(shown, layer.texel + row * layer.side, texel)
        if depth is not None:
            depth = torch.where(shown, layer.depth, depth)
        if material is not None:
            material = torch.where(shown, layer.material, material)
    return Pixels(texel, material, depth)


def _layers(scene: Scene, camera: Camera, hits: Hits, index: Tensor) -> list[Layer]:
    """Walls and the pictures on them, the farthest first."""
    surfaces, atlas = scene.surfaces, scene.atlas
    found = []
    for k in reversed(range(hits.depth.shape[-1])):
        depth, position = (tensor[:, None, :, k].to(torch.float32) for tensor in (hits.depth, hits.position))
        face = hits.face[:, None, :, k]
        bottom, top, tiles, density = (
            tensor.reshape(-1).to(torch.float32).take(face)
            for tensor in (surfaces.bottom, surfaces.top, surfaces.tiles, surfaces.density)
        )
        # Infinitely far away the horizon would lie on every wall.
        bottom = torch.where(depth < torch.inf, bottom, torch.inf)
        depth = depth.clamp_max(1e6)
        spacing = depth * (camera.ray_width * atlas.size)
        material = surfaces.material.reshape(-1).take(face)
        found.append(_layer(scene, index, depth, bottom, top, position * tiles, density, spacing * density, material))
        if surfaces.picture is not None and surfaces.frame is not None:
            left, right, lower, upper = surfaces.frame.reshape(-1, 4).to(torch.float32)[face].unbind(-1)
            picture = surfaces.picture.reshape(-1).take(face)
            place = (position - left) / (right - left)
            hangs = (picture >= 0) & (place >= 0) & (place < 1) & (bottom < torch.inf)
            lower = torch.where(hangs, lower, torch.inf)
            rate = 1 / (upper - lower.clamp_max(1e6))
            found.append(_layer(scene, index, depth, lower, upper, place, rate, spacing * rate, picture.clamp_min(0)))
    return found


def _layer(
    scene: Scene,
    index: Tensor,
    depth: Tensor,
    bottom: Tensor,
    top: Tensor,
    place: Tensor,
    density: Tensor,
    spacing: Tensor,
    material: Tensor,
) -> Layer:
    atlas = scene.atlas
    level = atlas.level(spacing.abs())
    side = atlas.side(level)
    column = (place.nan_to_num(0.0, 0.0, 0.0) * side).floor().to(torch.int32) & (side - 1)
    texture = _texture(scene, material, index).to(torch.int32)
    texel = atlas.start(level) + texture * side * side + column
    return Layer(depth, bottom, top, texel, side, density * side, material)


def _texture(scene: Scene, material: Tensor, index: Tensor) -> Tensor:
    """The texture of materials whose first axis counts frames."""
    table = scene.materials.texture
    return table.reshape(-1).take(material + (index * table.shape[1]).reshape(-1, *(1,) * (material.ndim - 1)))


def _colour(scene: Scene, pixels: Pixels, index: Tensor) -> Tensor:
    shape = pixels.texel.shape
    rgb = scene.atlas.texels.index_select(0, pixels.texel.reshape(-1))
    tint = scene.materials.tint
    if tint is not None and pixels.material is not None:
        material = pixels.material + (index * tint.shape[1])[:, None, None]
        rgb = rgb * tint.reshape(-1, 3).index_select(0, material.reshape(-1))
    return rgb.reshape(*shape, 3)


def _shrink(image: Tensor, samples: int) -> Tensor:
    """The mean of every pixel's samples: ``[F, samples * h, samples * w, c]`` to ``[F, h, w, c]``."""
    if samples == 1:
        return image
    # Adding up slices takes a fifth of the time of a mean over axes so short.
    rows = sum((image[:, shift::samples] for shift in range(1, samples)), image[:, ::samples])
    return sum((rows[:, :, shift::samples] for shift in range(1, samples)), rows[:, :, ::samples]) / (samples * samples)
