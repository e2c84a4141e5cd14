"""The figure of how samples follow a changing mixture."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mdpf.evaluation.results import Result, load
from mdpf.report import style

LEAP = 1.0  # Whoever is moved by more has changed sides.
WIDE, HIGH = 3.4, 2.9  # The part of the plane that is shown, to either side.


@style.styled
def draw(folder: str | Path) -> Figure:
    """Draw the figure from the result files in ``folder``: samples above, the change of a grid of points below."""
    irg, iwsg = load(Path(folder) / "IRG.json"), load(Path(folder) / "IWSG.json")
    figure = style.figure(height=3.6)
    axes = figure.subplots(2, 4)
    before, after = irg.config["weight_before"], irg.config["weight_after"]
    figure.suptitle(f"The weight of the left component falls from {before} to {after}", fontsize=8)
    _line(axes[:, 0], irg)
    _line(axes[:, 1], iwsg)
    _plane(axes[:, 2], irg)
    _plane(axes[:, 3], iwsg)
    marks = {"color": "none", "linewidth": 0, "marker": "o", "markersize": 4, "markeredgewidth": 0}
    legend = {
        "before": style.GREY,
        "after": style.BLUE,
        "moved across the gap": style.VERMILION,
    }
    handles = [Line2D([], [], label=label, **{**marks, "markerfacecolor": colour}) for label, colour in legend.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _line(axes: np.ndarray, result: Result) -> None:
    top, bottom = axes
    part = result.runs[0]["examples"]["line"]
    points, grid = np.array(part["points"])[:, 0], np.array(part["grid"])[:, 0]
    _outlines(top, grid, np.array(part["grid_density"]))
    top.plot(points, np.ones_like(points), "|", color=style.GREY, markersize=6)
    if result.method == "IRG":
        moved, ends = np.array(part["moved"])[:, 0], np.array(part["grid_moved"])[:, 0]
        _moves(top, np.stack([points, np.ones_like(points)], -1), np.stack([moved, np.zeros_like(points)], -1))
        top.plot(moved, np.zeros_like(moved), "|", color=style.BLUE, markersize=6)
        bottom.plot([-3, 3], [-3, 3], color=style.GREY, linewidth=0.8, linestyle=":")
        crosses = np.abs(ends - grid) > LEAP
        for chosen, colour in ((crosses, style.VERMILION), (~crosses, style.BLUE)):
            bottom.plot(grid, np.where(chosen & ~_jumps(grid, ends), ends, np.nan), color=colour)
        bottom.set(xlabel="sample", ylabel="moved to", yticks=[-2, 0, 2], ylim=(-3.3, 3.3))
    else:
        _moves(top, np.stack([points, np.ones_like(points)], -1), np.stack([points, np.zeros_like(points)], -1))
        weights = np.array(part["weights"])
        top.scatter(points, np.zeros_like(points), s=16 * weights, color=style.BLUE, alpha=0.7, linewidths=0)
        bottom.axhline(1, color=style.GREY, linewidth=0.8, linestyle=":")
        values = np.array(part["grid_weights"])
        bottom.plot(grid, np.where(_jumps(grid, values), np.nan, values), color=style.BLUE)
        bottom.set(xlabel="sample", ylabel="weight", yticks=[0, 1], ylim=(0, 1.6))
    top.set(title=f"{_rule(result)} (line)", xticks=[], yticks=[], ylim=(-0.95, 1.95), xlim=(-WIDE, WIDE))
    top.spines[["left", "bottom"]].set_visible(False)
    bottom.set(xlim=(-WIDE, WIDE), xticks=[-2, 0, 2])


def _outlines(axes: Axes, grid: np.ndarray, density: np.ndarray) -> None:
    """The mixture before, standing on its samples, and after, hanging from them."""
    hollow = _jumps(grid, density[:, 0])
    height = 0.7 / density.max()
    for column, base, sign, colour in ((0, 1.15, 1, style.GREY), (1, -0.15, -1, style.BLUE)):
        curve = np.where(hollow, np.nan, base + sign * height * density[:, column])
        axes.fill_between(grid, base, curve, color=colour, alpha=0.25, linewidth=0)


def _moves(axes: Axes, starts: np.ndarray, ends: np.ndarray) -> None:
    for start, end in zip(starts, ends, strict=True):
        leapt = abs(end[0] - start[0]) > LEAP
        colour = style.VERMILION if leapt else style.BLUE
        axes.plot(*zip(start, end, strict=True), color=colour, linewidth=0.7, zorder=2 if leapt else 1)


def _jumps(grid: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Where the grid or the value leaps to the next point: no line may suggest what is not there."""
    return np.append((np.diff(grid) > LEAP) | (np.abs(np.diff(values)) > LEAP), False)


def _plane(axes: np.ndarray, result: Result) -> None:
    top, bottom = axes
    part = result.runs[0]["examples"]["plane"]
    points, grid = np.array(part["points"]), np.array(part["grid"])
    if result.method == "IRG":
        moved, ends = np.array(part["moved"]), np.array(part["grid_moved"])
        _moves(top, points, moved)
        top.plot(*points.T, ".", color=style.GREY, markersize=4, markeredgewidth=0)
        top.plot(*moved.T, ".", color=style.BLUE, markersize=4, markeredgewidth=0)
        far = np.linalg.norm(ends - grid, axis=1) > LEAP
        for chosen, colour in ((far, style.VERMILION), (~far, style.BLUE)):
            arrows = (ends - grid)[chosen]
            look = {"angles": "xy", "scale_units": "xy", "scale": 1, "width": 0.006, "headwidth": 4, "headlength": 4}
            bottom.quiver(*grid[chosen].T, *arrows.T, color=colour, **look)
    else:
        top.scatter(*points.T, s=16 * np.array(part["weights"]), color=style.BLUE, alpha=0.7, linewidths=0)
        bottom.scatter(*grid.T, s=7 * np.array(part["grid_weights"]), color=style.BLUE, linewidths=0)
    top.set_title(f"{_rule(result)} (plane)")
    for panel in axes:
        panel.set(xlim=(-WIDE, WIDE), ylim=(-HIGH, HIGH), xticks=[], yticks=[], aspect="equal")
        panel.spines[["top", "right"]].set_visible(True)


def _rule(result: Result) -> str:
    return {"IRG": "IRG moves", "IWSG": "IWSG reweights"}[result.method]
