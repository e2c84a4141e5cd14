"""Pictures of the mazes: maps with walls, what a camera sees, and beliefs on the map."""

import math

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from mdpf.report import style
from mdpf.tasks.mazes import geometry, scene, walks
from mdpf.tasks.mazes.geometry import SIDES, Maze

VIEWS = 6
WALL = "#404040"


def draw_map(axes: Axes, maze: Maze, *, floor: bool = False, pictures: bool = False) -> None:
    """Draw the walls of a maze, seen from above, in units; with the mean colour of floors and walls if asked for."""
    width, height = maze.extent
    lines = np.array(maze.walls, float) * maze.cell
    if floor:
        colours = {name: scene.texture(name).mean((0, 1)) / 255 for column in maze.floor for name in column}
        shown = np.array([[colours[name] for name in column] for column in maze.floor]).swapaxes(0, 1)
        axes.imshow(shown, extent=(0, width, 0, height), origin="lower", interpolation="nearest", alpha=0.75)
        axes.add_collection(LineCollection(_sides(maze), colors=_paint(maze), linewidths=2.2, capstyle="butt"))
    axes.add_collection(LineCollection(list(lines), colors=WALL, linewidths=0.8, capstyle="round"))
    if pictures:
        for picture in maze.pictures:
            middle = _along(maze, picture, (picture.left + picture.right) / 2 / maze.cell, 7.0)
            axes.plot(*middle, "o", color=style.VERMILION, markersize=2.4, markeredgewidth=0)
    axes.set(xlim=(-8, width + 8), ylim=(-8, height + 8), aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


@style.styled
def gallery(seed: int = 2) -> Figure:
    """Every maze from above, with one walk through it, and what was seen on the way."""
    figure = style.figure(height=7.2)
    rows = np.atleast_1d(np.asarray(figure.subfigures(len(geometry.NUMBERS), 1, hspace=0.02), dtype=object))
    for number, row in zip(geometry.NUMBERS, rows, strict=True):
        maze = geometry.read(number)
        poses = walks.walk(maze, 1, 100, generator=torch.Generator().manual_seed(seed))[0]
        chosen = poses[np.linspace(0, 99, VIEWS).astype(int)]
        layout = [["map"] * 3 + [f"{line}{column}" for column in range(3)] for line in "ab"]
        panels = row.subplot_mosaic(layout)
        draw_map(panels["map"], maze, floor=True, pictures=True)
        panels["map"].plot(*poses[:, :2].T, color=style.BLACK, linewidth=0.8)
        panels["map"].set_title(f"maze {number}: {maze.shape[0]} by {maze.shape[1]} cells of 100 units")
        frames = scene.look(maze, chosen).rgb.numpy()
        for index, (name, frame) in enumerate(
            zip((f"{line}{column}" for line in "ab" for column in range(3)), frames, strict=True)
        ):
            panels[name].imshow(frame, interpolation="nearest")
            panels[name].set(xticks=[], yticks=[])
            panels[name].set_title(f"{index + 1}", pad=2)
            panels[name].spines[:].set_visible(True)
        _mark(panels["map"], chosen.numpy())
    return figure


def _mark(axes: Axes, poses: np.ndarray) -> None:
    for index, (x, y, heading) in enumerate(poses):
        look = {"arrowstyle": "-|>", "color": style.BLACK, "linewidth": 1, "shrinkA": 0, "shrinkB": 0}
        ahead = (x + 55 * math.cos(heading), y + 55 * math.sin(heading))
        axes.annotate("", ahead, (x, y), arrowprops=look)
        box = {"boxstyle": "circle,pad=0.15", "facecolor": "white", "edgecolor": style.BLACK, "linewidth": 0.6}
        axes.text(x, y, str(index + 1), fontsize=6, ha="center", va="center", bbox=box)


def _sides(maze: Maze) -> list[list[np.ndarray]]:
    return [[_along(maze, face, share, 4.0) for share in (0.0, 1.0)] for face in maze.faces]


def _paint(maze: Maze) -> list[np.ndarray]:
    return [scene.texture(face.texture).mean((0, 1)) / 255 for face in maze.faces]


def _along(maze: Maze, part: geometry.Face | geometry.Picture, share: float, inwards: float) -> np.ndarray:
    """A point on a face, seen from above: a share of the way along it, a little inside its cell."""
    x, y = part.i * maze.cell, part.j * maze.cell
    along, low, high = share * maze.cell, inwards, maze.cell - inwards
    if part.side in (SIDES["W"], SIDES["E"]):
        return np.array([x + (low if part.side == SIDES["W"] else high), y + along])
    return np.array([x + along, y + (low if part.side == SIDES["S"] else high)])
