"""Scenes to look at, and their geometry written down a second time, plainly."""

import numpy as np
import torch

from mdpf.render import Atlas, GridWalls, Material, Plane, Scene, SegmentWalls, Surfaces

HALF = 0.01


def random_maze(nx, ny, generator, share=0.45):
    """Which unit walls stand: on lines of constant x ``[nx + 1, ny]``, of constant y ``[nx, ny + 1]``; the border does."""
    across_x = torch.rand(nx + 1, ny, generator=generator) < share
    across_y = torch.rand(nx, ny + 1, generator=generator) < share
    across_x[[0, -1]] = True
    across_y[:, [0, -1]] = True
    return across_x, across_y


def boxes(across_x, across_y):
    """The solid of a maze as rectangles (x0, y0, x1, y1): a wall reaches to the far ends of the pillars at its ends."""
    found = [(i - HALF, j - HALF, i + HALF, j + 1 + HALF) for i, j in across_x.nonzero().tolist()]
    found += [(i - HALF, j - HALF, i + 1 + HALF, j + HALF) for i, j in across_y.nonzero().tolist()]
    return np.array(found)


def first_entry(solid, poses):
    """The exact distance along the heading to the nearest rectangle, in double precision, by clipping the ray to each."""
    poses = np.asarray(poses, dtype=np.float64)
    direction = np.stack([np.cos(poses[:, 2]), np.sin(poses[:, 2])], -1)[:, None]
    with np.errstate(divide="ignore"):
        first = (solid[None, :, :2] - poses[:, None, :2]) / direction
        second = (solid[None, :, 2:] - poses[:, None, :2]) / direction
    enter, leave = np.minimum(first, second).max(-1), np.maximum(first, second).min(-1)
    return np.where((enter > 0) & (enter <= leave), enter, np.inf).min(-1)


def chequered(count=4, size=8):
    """Textures in which no texel looks like another."""
    values = torch.arange(count * size * size, dtype=torch.float32).reshape(count, size, size)
    return torch.stack([values / values.numel(), (values * 0.37) % 1, (values * 0.73) % 1], -1)


def floor(material=0):
    one = torch.ones(1)
    return Plane(torch.full((1, 1, 1), material), torch.zeros(1, 2), one, one)


def grid_scene(across_x, across_y, *, textures=None):
    """A maze in which every wall has a face of its own on either side; walls are 1 high, under the sky."""
    lines_x, lines_y = len(across_x), across_y.shape[1]
    tables, count = [], 0
    for walls, pillars in ((across_x, lines_y), (across_y.mT, lines_x)):
        table = torch.full((2, len(walls), 2 * pillars - 1), -1)
        for facing in (0, 1):
            for line, place in walls.nonzero().tolist():
                table[facing, line, 2 * place + 1] = count
                count += 1
        tables.append(table)
    standing = torch.zeros(lines_x, lines_y, dtype=torch.bool)
    for i, j in across_x.nonzero().tolist():
        standing[i, j : j + 2] = True
    for i, j in across_y.nonzero().tolist():
        standing[i : i + 2, j] = True
    tables[0][:, :, ::2] = torch.where(standing, 0, -1)
    tables[1][:, :, ::2] = torch.where(standing.mT, 0, -1)
    atlas = Atlas.of(chequered() if textures is None else textures)
    return Scene(
        walls=GridWalls(*(table[None] for table in tables), torch.tensor([HALF])),
        surfaces=Surfaces.plain(torch.ones(1, count, dtype=torch.long), 1.0),
        materials=Material(torch.arange(atlas.count)[None]),
        atlas=atlas,
        floor=floor(),
        sky=torch.tensor([2]),
    )


def segment_scene(start, end, bottom, top, *, material=None, period=1.0, atlas=None, tint=None, ceiling=None, **painted):
    """Walls given one by one, under the sky unless there is a ceiling."""
    start, end = torch.tensor(start)[None], torch.tensor(end)[None]
    bottom, top = torch.tensor(bottom)[None], torch.tensor(top)[None]
    atlas = Atlas.of(chequered()) if atlas is None else atlas
    material = torch.ones(start.shape[:2], dtype=torch.long) if material is None else torch.tensor(material)[None]
    planes = {"sky": torch.tensor([2])}
    if ceiling is not None:
        planes = {"ceiling": floor(3), "ceiling_height": torch.tensor([ceiling])}
    return Scene(
        walls=SegmentWalls(start, end),
        surfaces=Surfaces.tiled(material, start, end, bottom, top, period)._replace(**painted),
        materials=Material(torch.arange(atlas.count)[None], tint),
        atlas=atlas,
        floor=floor(),
        **planes,
    )


def free_poses(nx, ny, count, generator, dtype=torch.float32, margin=0.05):
    """Poses inside cells, off their walls."""
    cell = torch.stack([torch.randint(nx, (count,), generator=generator), torch.randint(ny, (count,), generator=generator)], -1)
    place = cell + margin + (1 - 2 * margin) * torch.rand(count, 2, dtype=torch.float64, generator=generator)
    heading = 2 * np.pi * torch.rand(count, 1, dtype=torch.float64, generator=generator)
    return torch.cat([place, heading], -1).to(dtype)
