"""The figures of the bearings study: box plots beside the authors' logged numbers, the number of particles, panels, an animation.

Whatever part of the study is there is drawn.
"""

from collections.abc import Mapping
from pathlib import Path
from statistics import median

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from mdpf.evaluation import beliefs
from mdpf.evaluation.results import Result, load
from mdpf.report import animation, belief, style
from mdpf.report.published import BEARINGS, BEARINGS_EPANECHNIKOV, Logged

# The paper's order.
ORDER = ("LSTM", "TG-PF", "OT-PF", "SR-PF", "DIS-PF", "C-PF", "TG-MDPF", "IRG-MDPF", "MDPF", "A-MDPF")
LIMITS = {"nll_paper": (5.3, 11.5), "rmse_paper": (2.5, 11.0)}  # As in the paper; what lies beyond is marked.
LABELS = {"nll_paper": "NLL as in the paper", "rmse_paper": "RMSE as in the paper"}
FRAMES = tuple(range(1, 48, 4))  # The paper's, which counts from one: 2, 6, 10, ...

ANIMATED = range(100)  # Frames of the animation.


def found(folder: Path, setting: str = "default") -> dict[str, Result]:
    """The results of one setting by method, in the paper's order, further ones behind."""
    results = [load(path) for path in sorted(folder.glob("[A-Z]*.json"))]
    results = {result.method: result for result in results if result.setting == setting}
    known = [name for name in ORDER if name in results]
    return {name: results[name] for name in [*known, *(name for name in results if name not in known)]}


@style.styled
def boxes(folder: Path, setting: str = "default", logged: Mapping[str, Mapping[str, Logged]] = BEARINGS) -> Figure:
    """Draw median, quartiles and range over runs of every method, the authors' in grey above ours.

    What a single run has is a line; what the oracle has goes through all rows.
    """
    results = found(folder, setting)
    oracle = found(folder).get("Oracle")
    names = [name for name in results if name != "Oracle"]
    names = [name for name in ORDER if name in names or name in logged["nll_paper"]] + [name for name in names if name not in ORDER]
    figure = style.figure(height=0.8 + 0.33 * len(names))
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (metric, limits) in zip(panels, LIMITS.items(), strict=True):
        for place, name in enumerate(reversed(names)):
            if name in logged[metric]:
                numbers = logged[metric][name]
                _box(axes, place + 0.18, numbers, limits, style.GREY)
            if name in results and metric in results[name].runs[0]["metrics"]:
                _box(
                    axes,
                    place - 0.18,
                    _statistics(results[name].metric(metric)),
                    limits,
                    style.METHOD_COLOURS.get(name, style.BLUE),
                )
        if oracle is not None:
            axes.axvline(median(oracle.metric(metric)), color=style.BLACK, linestyle="--", linewidth=0.8)
        axes.set(xlim=_widened(limits, oracle, metric), xlabel=LABELS[metric], ylim=(-0.6, len(names) - 0.4))
        axes.set_yticks(range(len(names)), reversed(names))
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color="#E5E5E5", linewidth=0.5)
        axes.set_axisbelow(True)
    entries = [
        Patch(facecolor=style.GREY, alpha=0.45, label="above: logged by the authors, 11 runs"),
        Patch(facecolor=style.BLUE, alpha=0.75, label=f"below, coloured: ours, {_runs(results)}"),
    ]
    if oracle is not None:
        (line,) = panels[0].plot(
            [], [], color=style.BLACK, linestyle="--", linewidth=0.8, label="the filter that knows the simulator"
        )
        entries.append(line)
    figure.legend(handles=entries, loc="outside upper center", ncols=len(entries))
    return figure


def _runs(results: Mapping[str, Result]) -> str:
    counts = sorted({len(result.runs) for name, result in results.items() if name != "Oracle"})
    if not counts:
        return "not computed yet"
    if counts[-1] == 1:
        return "1 run"
    return f"{counts[0]} runs" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} runs"


def _widened(limits: tuple[float, float], oracle: Result | None, metric: str) -> tuple[float, float]:
    return limits if oracle is None else (min(limits[0], median(oracle.metric(metric)) - 0.2), limits[1])


def _statistics(values: list[float]) -> Logged:
    # An infinite value is beyond every axis; quartiles next to it would not be numbers.
    finite = np.nan_to_num(np.array(values, dtype=float), nan=1e9, posinf=1e9)
    lower, middle, upper = np.percentile(finite, [25, 50, 75])
    return Logged(middle, lower, upper, finite.min(), finite.max())


def _box(axes: Axes, place: float, numbers: Logged, limits: tuple[float, float], colour: str) -> None:
    """Range as a line, quartiles as a bar, the median in it; an arrow where something lies beyond the axis."""
    height, right = 0.28, limits[1]
    axes.plot([numbers.smallest, numbers.largest], [place, place], color=colour, linewidth=0.9)
    width = numbers.upper_quartile - numbers.lower_quartile
    alpha = 0.45 if colour == style.GREY else 0.75
    axes.barh(place, width, left=numbers.lower_quartile, height=height, color=colour, alpha=alpha, linewidth=0)
    axes.plot([numbers.median] * 2, [place - height / 2, place + height / 2], color=style.BLACK, linewidth=1.4)
    if numbers.largest > right:
        axes.annotate(
            "", (right, place), (right - 0.02 * (right - limits[0]), place), arrowprops={"arrowstyle": "->", "color": colour}
        )
    if numbers.median > right:
        text = f"{numbers.median:.1f}" if numbers.median < 1e6 else "∞"
        axes.annotate(text, (right, place), (-8, 0), textcoords="offset points", ha="right", va="center", fontsize=6)


@style.styled
def sweep(folder: Path) -> Figure:
    """Draw how the median runs do with other numbers of particles than they were trained with."""
    curves = sweeps(folder)
    figure = style.figure(height=2.8)
    panels = figure.subplots(1, 2)
    for axes, metric in zip(panels, LIMITS, strict=True):
        for name, points in curves.items():
            counts = sorted(points)
            values = [points[count].metric(metric)[0] for count in counts]
            emphasis = {"linewidth": 1.8, "zorder": 3} if name.endswith("MDPF") else {}
            axes.plot(counts, values, "o-", color=style.METHOD_COLOURS.get(name, style.BLUE), label=name, markersize=3, **emphasis)
        axes.set(xscale="log", xlabel="particles in use (25 in training)", ylabel=LABELS[metric])
        ticks = sorted({count for points in curves.values() for count in points})
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks], rotation=45)
        axes.minorticks_off()
    figure.legend(handles=panels[0].get_lines(), loc="outside right center")
    return figure


def sweeps(folder: Path) -> dict[str, dict[int, Result]]:
    """For each method its results with other numbers of particles."""
    curves: dict[str, dict[int, Result]] = {}
    for path in sorted(folder.glob("[A-Z]*@n-*.json")):
        result = load(path)
        curves.setdefault(result.method, {})[int(result.setting.removeprefix("n-"))] = result
    return {name: curves[name] for name in [*ORDER, *sorted(set(curves) - set(ORDER))] if name in curves}


@style.styled
def panels(path: Path, frames: tuple[int, ...] = FRAMES) -> Figure:
    """Draw one method's belief about a car, frame after frame."""
    recorded = beliefs.read(path)
    columns = 4
    figure = style.figure(height=0.4 + 1.72 * ((len(frames) + columns - 1) // columns))
    axes = list(figure.subplots((len(frames) + columns - 1) // columns, columns, squeeze=False).flat)
    for panel, frame in zip(axes, frames, strict=False):
        belief.draw(panel, recorded, 0, frame, scale=0.55)
        panel.set_title(f"frame {frame}", fontsize=7, pad=2)
    for panel in axes[len(frames) :]:
        panel.set_visible(False)
    names = [*belief.MEANINGS]
    figure.legend(handles=belief.handles(*names, size=4), loc="outside upper center", ncols=len(names), title=path.stem)
    return figure


@style.styled
def comparison(paths: list[Path], frames: tuple[int, ...] = (9, 17, 29, 48)) -> Figure:
    """Draw the beliefs of several methods about the same car, a row for each."""
    figure = style.figure(height=0.4 + 1.35 * len(paths), width=1.35 * len(frames) + 0.5)
    axes = figure.subplots(len(paths), len(frames), squeeze=False)
    for row, path in zip(axes, paths, strict=True):
        recorded = beliefs.read(path)
        for panel, frame in zip(row, frames, strict=True):
            belief.draw(panel, recorded, 0, frame, scale=0.5)
        row[0].set_ylabel(path.stem, fontsize=7)
    for panel, frame in zip(axes[0], frames, strict=True):
        panel.set_title(f"frame {frame}", fontsize=7, pad=2)
    figure.legend(handles=belief.handles(size=4), loc="outside lower center", ncols=3)
    return figure


def draw_study(folder: Path) -> list[Path]:
    """Draw everything that the results in a folder give, and return the files."""
    if not found(folder):
        raise FileNotFoundError(
            f"Drawing the study needs result files, got none in {str(folder)!r}. `mdpf reproduce bearings` writes them."
        )
    written = [style.save(boxes(folder), folder / "boxes.png")]
    if sweeps(folder):
        written.append(style.save(sweep(folder), folder / "particles.png"))
    return written + (draw_panels(folder) if (folder / "panels").is_dir() else [])


def draw_kernels(folder: Path) -> list[Path]:
    """Draw the box plots of the kernels of compact support, as far as they are there."""
    kernels = [name for name in ("epanechnikov", "biweight") if found(folder, name)]
    # The authors had no biweight kernel: theirs of the other one stand beside it.
    return [style.save(boxes(folder, name, BEARINGS_EPANECHNIKOV), folder / f"boxes-{name}.png") for name in kernels]


def draw_panels(folder: Path) -> list[Path]:
    """Draw panels and animation from the files of beliefs in ``folder/panels``."""
    inside = folder / "panels"
    paths = [inside / f"{name}.npz" for name in ORDER]
    paths = [path for path in paths if path.exists()]
    written = [style.save(panels(path), path.with_suffix(".png")) for path in paths if path.stem in ("MDPF", "A-MDPF")]
    if len(paths) > 1:
        written.append(style.save(comparison(paths[::-1]), inside / "methods.png"))
    if (inside / "animation.npz").exists():
        pictures = animation.render(beliefs.read(inside / "animation.npz"), 0, ANIMATED, pixels=360)
        written.append(animation.save(pictures, inside / "animation.gif", fps=6))
    return written
