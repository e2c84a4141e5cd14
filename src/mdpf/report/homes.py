"""Homes to look at: the plan with a walk, and what is seen on the way."""

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mdpf.render import render
from mdpf.report import style
from mdpf.tasks.homes import geometry, scenes, walks
from mdpf.tasks.homes.geometry import PIXEL, Home

NUM_HITS = 10


@style.styled
def gallery(split: str = "evaluation", *, count: int = 5, frames: int = 7, stride: int = 3, seed: int = 0) -> Figure:
    """Some homes of a split: a row for each, its map with the poses of every ``stride``-th frame of a walk, and these frames.

    The last image of a row is the depth of the one before it.

    Args:
        split: Of which homes.
        count: How many.
        frames: How many images of each.
        stride: Frames between two that are shown.
        seed: Of walks and decoration.
    """
    chosen = geometry.homes(split, count=count)
    walked = walks.walk(chosen, count, 1 + (frames - 1) * stride, seed=seed)
    poses = walked.states[walked.home.argsort(), ::stride]
    index = torch.arange(count).repeat_interleave(frames)
    seen = render(
        scenes.build(chosen, seed=seed), scenes.viewpoints(poses.reshape(-1, 3)), scenes.CAMERA, index=index, depth=True,
        num_hits=NUM_HITS,
    )  # fmt: skip
    assert seen.depth is not None
    figure = style.figure(height=0.84 * count)
    axes = figure.subplots(count, frames + 2, squeeze=False)
    for row, home, places, images, depths in zip(
        axes, chosen, poses, seen.rgb.unflatten(0, (count, frames)), seen.depth.unflatten(0, (count, frames)), strict=True
    ):
        plan(row[0], home)
        _poses(row[0], places.numpy())
        for axis, image in zip(row[1:-1], images, strict=True):
            axis.imshow(image.numpy(), interpolation="nearest")
        row[-1].imshow(depths[-1].numpy(), cmap="gray", vmin=0, vmax=6, interpolation="nearest")
        for axis in row:
            axis.set_xticks([])
            axis.set_yticks([])
    return figure


def plan(axes: Axes, home: Home) -> None:
    """Draw the map of a home, as filters see it: walls alone, y downwards."""
    walls = home.wall_map()
    axes.imshow(~walls, cmap="gray", vmin=-0.3, vmax=1, interpolation="nearest")
    axes.set_xlabel(f"{walls.shape[1] * PIXEL:.0f} × {walls.shape[0] * PIXEL:.0f} m", fontsize=6, labelpad=1)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _poses(axes: Axes, poses: np.ndarray) -> None:
    axes.plot(poses[:, 0], poses[:, 1], color=style.ORANGE, linewidth=0.6)
    axes.quiver(
        poses[:, 0],
        poses[:, 1],
        np.cos(poses[:, 2]),
        np.sin(poses[:, 2]),
        angles="xy",
        color=style.VERMILION,
        scale=14,
        width=0.012,
        headwidth=4,
        zorder=3,
    )
