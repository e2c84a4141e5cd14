"""The figure of how samples follow a changing mixture."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from mdpf.evaluation.results import Result, load
from mdpf.report import style


@style.styled
def draw(folder: str | Path) -> Figure:
    """Draw the figure from the result files in ``folder``: samples above, the change of a grid of points below."""
    irg, iwsg = load(Path(folder) / "IRG.json"), load(Path(folder) / "IWSG.json")
    figure = style.figure(height=3.9)
    axes = figure.subplots(2, 4, gridspec_kw={"height_ratios": [1, 1.5]})
    before, after = irg.config["weight_before"], irg.config["weight_after"]
    figure.suptitle(f"The weight of the left component falls from {before} to {after}", fontsize=8)
    _line(axes[:, 0], irg, "grid_moved")
    _line(axes[:, 1], iwsg, "grid_weights")
    _plane(axes[:, 2], irg)
    _plane(axes[:, 3], iwsg)
    return figure


def _line(axes: np.ndarray, result: Result, key: str) -> None:
    top, bottom = axes
    part = result.runs[0]["examples"]["line"]
    points = np.array(part["points"])[:, 0]
    top.set_title(f"{_rule(result)} (line)")
    top.plot(points, np.ones_like(points), "|", color=style.GREY, markersize=8)
    grid, values = np.array(part["grid"])[:, 0], np.array(part[key])
    if result.method == "IRG":
        moved = np.array(part["moved"])[:, 0]
        for start, end in zip(points, moved, strict=True):
            jumped = abs(end - start) > 1
            top.plot([start, end], [1, 0], color=style.VERMILION if jumped else style.BLUE, linewidth=0.7)
        top.plot(moved, np.zeros_like(moved), "|", color=style.BLUE, markersize=8)
        bottom.plot(*_broken(grid, values[:, 0]), color=style.VERMILION)
        bottom.set_ylabel("moved to")
    else:
        top.scatter(points, np.zeros_like(points), s=24 * np.array(part["weights"]), color=style.BLUE, alpha=0.6, linewidths=0)
        bottom.plot(*_broken(grid, values), color=style.BLUE)
        bottom.set_ylim(0, 1.5)
        bottom.set_ylabel("weight")
    top.set(yticks=[1, 0], yticklabels=["before", "after"], ylim=(-0.4, 1.4), xlim=(-3.2, 3.2))
    bottom.set(xlabel="sample", xlim=(-3.2, 3.2))


def _broken(grid: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Break a curve where its argument or its value jumps, so that no line suggests what is not there."""
    jumps = np.flatnonzero((np.diff(grid) > 1) | (np.abs(np.diff(values)) > 1)) + 1
    return np.insert(grid, jumps, np.nan), np.insert(values, jumps, np.nan)


def _plane(axes: np.ndarray, result: Result) -> None:
    top, bottom = axes
    part = result.runs[0]["examples"]["plane"]
    points, grid = np.array(part["points"]), np.array(part["grid"])
    top.set_title(f"{_rule(result)} (plane)")
    if result.method == "IRG":
        moved, ends = np.array(part["moved"]), np.array(part["grid_moved"])
        for start, end in zip(points, moved, strict=True):
            jumped = np.linalg.norm(end - start) > 1
            top.plot(*zip(start, end, strict=True), color=style.VERMILION if jumped else style.BLUE, linewidth=0.7)
        top.plot(*points.T, ".", color=style.GREY, markersize=3)
        top.plot(*moved.T, ".", color=style.BLUE, markersize=3)
        arrows = ends - grid
        far = np.linalg.norm(arrows, axis=1) > 1
        colours = np.where(far, style.VERMILION, style.BLUE)
        bottom.quiver(*grid.T, *arrows.T, angles="xy", scale_units="xy", scale=1, color=colours, width=0.006)
    else:
        top.scatter(*points.T, s=16 * np.array(part["weights"]), color=style.BLUE, alpha=0.6, linewidths=0)
        bottom.scatter(*grid.T, s=6 * np.array(part["grid_weights"]), color=style.BLUE, linewidths=0)
    for panel in axes:
        panel.set(xlim=(-3.2, 3.2), ylim=(-2.7, 2.7), xticks=[], yticks=[], aspect="equal")


def _rule(result: Result) -> str:
    return {"IRG": "IRG moves", "IWSG": "IWSG reweights"}[result.method]
