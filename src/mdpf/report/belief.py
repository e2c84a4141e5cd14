"""One belief as a picture: its density, particles sized by weight, mean and modes, the truth, and what was observed."""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path
from torch import Tensor

from mdpf.evaluation.beliefs import Beliefs
from mdpf.mixture import Mixture
from mdpf.modes import find_modes
from mdpf.report import style

CLOUD = LinearSegmentedColormap.from_list("cloud", [to_rgba("white"), to_rgba(style.SKY), to_rgba(style.BLUE)])
SHADES = 9  # Few shades: a picture that is read at a glance, and an animation that stays small.
GRID = 160
TRUTH, MEAN, MODE, SEEN = style.VERMILION, style.BLACK, style.YELLOW, style.ORANGE
ARROW = Path([(-0.8, -0.65), (1.2, 0.0), (-0.8, 0.65), (-0.35, 0.0), (-0.8, -0.65)], closed=True)
LIVE = 0.05  # A hypothesis lighter than this is not marked.
MEANINGS: dict[str, dict[str, Any]] = {
    "truth": {"color": TRUTH, "marker": ARROW, "linestyle": "none", "markeredgewidth": 0, "markersize": 9},
    "mean": {"color": MEAN, "marker": ARROW, "linestyle": "none", "markeredgewidth": 0, "markersize": 9},
    "mode": {"color": MODE, "marker": "D", "linestyle": "none", "markeredgecolor": style.BLACK, "markeredgewidth": 0.6},
    "particle": {"color": style.BLUE, "marker": "o", "linestyle": "none"},
    "posterior": {"color": style.SKY, "linewidth": 5},
    "observation": {"color": SEEN, "linewidth": 1.2},
}


class View(NamedTuple):
    """What part of the plane is shown, and which coordinates span it: ``down`` is None for a state of one coordinate."""

    across: int
    down: int | None
    extent: tuple[float, float, float, float]


def view(beliefs: Beliefs) -> View:
    """The plane of the first two linear coordinates, as large as the scene says or as what happens in it."""
    order = [*beliefs.space.linear, *beliefs.space.angular]
    across, down = order[0], order[1] if len(order) > 1 else None
    if "extent" in beliefs.scene:
        left, right, bottom, top = map(float, beliefs.scene["extent"])
        return View(across, down, (left, right, bottom, top))
    spans = [span(beliefs, dim) if dim is not None else (0.0, 1.0) for dim in (across, down)]
    return View(across, down, (*spans[0], *spans[1]))


def span(beliefs: Beliefs, dim: int) -> tuple[float, float]:
    """From where to where a coordinate runs, with some room; angles run around."""
    if dim in beliefs.space.angular:
        return -math.pi, math.pi
    few = beliefs.particles[..., dim].flatten()
    few = few[:: max(1, len(few) // 100_000)]
    values = [beliefs.mean[..., dim].flatten(), few.quantile(torch.tensor([0.01, 0.99]))]
    if beliefs.data is not None:
        values.append(beliefs.data.states[..., dim][beliefs.data.targets])
    walls = torch.tensor(beliefs.scene.get("walls", ())).reshape(-1, 2, 2)
    if dim in beliefs.space.linear[:2] and len(walls):
        values.append(walls[..., beliefs.space.linear.index(dim)].flatten().to(few.dtype))
    low, high = torch.cat(values).min().item(), torch.cat(values).max().item()
    margin = 0.12 * (high - low) or 1.0
    return low - margin, high + margin


def draw(axes: Axes, beliefs: Beliefs, sequence: int, frame: int, shown: View | None = None, *, scale: float = 1.0) -> None:
    """Draw one frame of one sequence on axes.

    Args:
        axes: Where to.
        beliefs: What was believed.
        sequence: Which sequence,
        frame: which frame of it.
        shown: What part of the plane; by default all that happens.
        scale: Of all marks.
    """
    shown = shown or view(beliefs)
    posterior = beliefs.at(sequence, frame)
    if shown.down is None:
        _draw_line(axes, posterior, beliefs, sequence, frame, shown)
        return
    _density(axes, posterior, shown)
    _scene(axes, beliefs, sequence, frame, scale)
    pair = [shown.across, shown.down]
    points, weights = posterior.locs[:, pair].numpy(), posterior.log_weights.exp().numpy()
    sizes = 26 * scale**2 * np.sqrt(weights * len(weights)).clip(0.15, 4)
    axes.scatter(*points.T, s=sizes, color=style.BLUE, alpha=0.7, linewidths=0.4, edgecolors="white", zorder=3)
    modes = find_modes(posterior, min_weight=LIVE)
    tops = modes.points[: int(modes.count)][:, pair].numpy()
    axes.plot(*tops.T, **{**MEANINGS["mode"], "markersize": 5 * scale}, zorder=4)
    _pose(axes, posterior.mean(), beliefs, shown, MEAN, scale)
    if (truth := truth_at(beliefs, sequence, frame)) is not None:
        _pose(axes, truth, beliefs, shown, TRUTH, scale)
    left, right, bottom, top = shown.extent
    flat = {shown.across, shown.down} <= set(beliefs.space.linear)
    axes.set(xlim=(left, right), ylim=(bottom, top), xticks=[], yticks=[], aspect="equal" if flat else "auto")
    axes.spines[["top", "right"]].set_visible(True)


def handles(*names: str, size: float = 5) -> list[Line2D]:
    """What the marks mean, for a legend; all of them by default."""
    chosen = names or tuple(MEANINGS)
    sizes = {name: size * (2 if MEANINGS[name].get("marker") is ARROW else 1) for name in chosen}
    return [Line2D([], [], label=name, **{**MEANINGS[name], "markersize": sizes[name]}) for name in chosen]


def truth_at(beliefs: Beliefs, sequence: int, frame: int) -> Tensor | None:
    """The true state, where it is known."""
    data = beliefs.data
    return data.states[sequence, frame] if data is not None and bool(data.targets[sequence, frame]) else None


def ray_at(beliefs: Beliefs, sequence: int, frame: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Where the sensor is and in which direction it saw something, if the scene has one and it did."""
    data = beliefs.data
    if data is None or "sensor" not in beliefs.scene or frame == 0:
        return None
    if data.observed is not None and not bool(data.observed[sequence, frame]):
        return None
    sine, cosine = data.observations[sequence, frame].tolist()
    return np.array(beliefs.scene["sensor"], dtype=float), np.array([cosine, sine])


def _density(axes: Axes, posterior: Mixture, shown: View) -> None:
    """The density of two coordinates, in shades from a fiftieth of its summit."""
    left, right, bottom, top = shown.extent
    across, down = torch.linspace(left, right, GRID), torch.linspace(bottom, top, GRID)
    pair = (shown.across, shown.down)
    grid = torch.stack(torch.meshgrid(across, down, indexing="xy"), -1).reshape(-1, 2)
    height = posterior.marginal(tuple(dim for dim in pair if dim is not None)).log_prob(grid).exp().view(GRID, GRID)
    if (summit := float(height.max())) > 0:
        levels = np.linspace(math.sqrt(0.02), 1.0, SHADES + 1) ** 2
        axes.contourf(across, down, height / summit, levels=levels, cmap=CLOUD, antialiased=True, zorder=0)


def _scene(axes: Axes, beliefs: Beliefs, sequence: int, frame: int, scale: float) -> None:
    for left, bottom, right, top in beliefs.scene.get("walls", ()):
        axes.plot([left, right], [bottom, top], color=style.GREY, linewidth=0.8 * scale, zorder=1)
    if "sensor" in beliefs.scene:
        if (ray := ray_at(beliefs, sequence, frame)) is not None:
            origin, direction = ray
            end = origin + 100 * direction
            axes.plot(*zip(origin, end, strict=True), color=SEEN, linewidth=1.2 * scale, zorder=2, scalex=False, scaley=False)
        axes.plot(*beliefs.scene["sensor"], "^", color=style.BLACK, markersize=6 * scale, zorder=2)
    data = beliefs.data
    if data is not None and data.observations.ndim == 5:
        inset = axes.inset_axes((0.68, 0.68, 0.31, 0.31))
        inset.imshow(data.observations[sequence, frame].numpy())
        inset.set(xticks=[], yticks=[])


def _pose(axes: Axes, state: Tensor, beliefs: Beliefs, shown: View, colour: str, scale: float) -> None:
    """An arrow where the state has a heading, a cross where it has none."""
    place = state[[dim for dim in (shown.across, shown.down) if dim is not None]].tolist()
    headed = bool(beliefs.space.angular) and shown.down not in beliefs.space.angular
    turn = float(state[beliefs.space.angular[0]]) if headed else 0.0
    marker = MarkerStyle(ARROW).rotated(rad=turn) if headed else "P"
    axes.plot(*place, marker=marker, color=colour, markersize=15 * scale, markeredgecolor="white", markeredgewidth=0.5, zorder=6)


def _draw_line(axes: Axes, posterior: Mixture, beliefs: Beliefs, sequence: int, frame: int, shown: View) -> None:
    """The belief about a single coordinate: a curve, its particles below it."""
    left, right, *_ = shown.extent
    grid = torch.linspace(left, right, 4 * GRID)
    height = posterior.log_prob(grid[:, None]).exp()
    axes.fill_between(grid, height, color=style.SKY, linewidth=0)
    weights = posterior.log_weights.exp().numpy()
    axes.scatter(posterior.locs[:, 0], 0 * weights, s=26 * (weights * len(weights)).clip(0.15, 9), color=style.BLUE, alpha=0.7)
    axes.axvline(float(posterior.mean()[0]), color=MEAN)
    if (truth := truth_at(beliefs, sequence, frame)) is not None:
        axes.axvline(float(truth[0]), color=TRUTH)
    axes.set(xlim=(left, right), ylim=(-0.05 * float(height.max()), None), yticks=[], xlabel=beliefs.space.names[0])
