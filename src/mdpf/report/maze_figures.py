"""The figures of the maze study: box plots beside the authors' logged medians, panels over the map, localisation from nowhere.

Whatever part of the study is there is drawn.
"""

from collections.abc import Mapping
from pathlib import Path
from statistics import median

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from mdpf.evaluation import beliefs
from mdpf.evaluation.results import Result, load
from mdpf.report import animation, belief, style
from mdpf.report.published import MAZES

ORDER = ("LSTM", "TG-PF", "OT-PF", "SR-PF", "DIS-PF", "C-PF", "TG-MDPF", "IRG-MDPF", "MDPF", "A-MDPF")
NUMBERS = (1, 2, 3)
# What a panel shows, from which setting of methods that have it, up to which value.
PANELS = {
    "nll_paper": ("NLL as in the paper", "", 14.0),
    "position_rmse": ("position error", "-mse", 8.0),
    "angle_rmse": ("heading error (rad)", "-mse", 2.0),
}
FRAMES = tuple(range(2, 25, 2))  # The paper's: every second, twelve of them.


def found(folder: Path) -> dict[tuple[str, str], Result]:
    """All results by method and setting."""
    results = [load(path) for path in sorted(folder.glob("*@maze-*.json"))]
    return {(result.method, result.setting): result for result in results}


@style.styled
def boxes(folder: Path) -> Figure:
    """Draw every run of every method in the three mazes, with its median, and the authors' medians beside.

    Errors are those after refinement on the squared error, for methods that have such a stage, as in the paper. Open marks are runs
    whose measurement model was not trained first. Dotted lines are dead reckoning.
    """
    results = found(folder)
    mazes = [number for number in NUMBERS if any(setting.startswith(f"maze-{number}") for _, setting in results)]
    figure = style.figure(height=0.7 + 1.9 * len(mazes))
    rows = figure.subplots(len(mazes), len(PANELS), squeeze=False, sharex="col")
    for number, row in zip(mazes, rows, strict=True):
        for axes, (metric, (label, ending, limit)) in zip(row, PANELS.items(), strict=True):
            _panel(axes, results, number, metric, ending, limit)
            if number == mazes[-1]:
                axes.set_xlabel(label)
        row[0].set_ylabel(f"maze {number}")
    entries = [
        Patch(facecolor=style.BLUE, alpha=0.75, label="ours: runs, and their median as a line"),
        Line2D([], [], marker="o", linestyle="none", markerfacecolor="white", color=style.BLUE, label="without a first stage"),
        Line2D([], [], marker="D", linestyle="none", color=style.GREY, label="the authors' median (other images)"),
        Line2D([], [], linestyle=":", color=style.BLACK, label="dead reckoning"),
    ]
    figure.legend(handles=entries, loc="outside upper center", ncols=len(entries), fontsize=6)
    return figure


def _panel(axes: Axes, results: Mapping[tuple[str, str], Result], number: int, metric: str, ending: str, limit: float) -> None:
    for place, name in enumerate(reversed(ORDER)):
        logged = MAZES[number].get(metric, {}).get(name)
        if logged is not None:
            axes.plot(min(logged, limit), place, "D", color=style.GREY, markersize=3.5, alpha=0.8)
        plain = results.get((name, f"maze-{number}{ending}"), results.get((name, f"maze-{number}")))
        scratch = results.get((name, f"maze-{number}-scratch"))
        for result, shift, face in ((plain, 0.14, None), (scratch, -0.2, "white")):
            if result is not None and metric in result.runs[0]["metrics"]:
                _runs(axes, result.metric(metric), place + shift, limit, style.METHOD_COLOURS.get(name, style.BLUE), face)
    reckoning = results.get(("dead-reckoning", f"maze-{number}"))
    if reckoning is not None and metric in reckoning.runs[0]["metrics"]:
        axes.axvline(min(reckoning.metric(metric)[0], limit), color=style.BLACK, linestyle=":", linewidth=0.8)
    axes.set_yticks(range(len(ORDER)), list(reversed(ORDER)) if metric == "nll_paper" else [""] * len(ORDER))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#E5E5E5", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.set(xlim=(None, limit * 1.01), ylim=(-0.6, len(ORDER) - 0.4))


def _runs(axes: Axes, values: list[float], place: float, limit: float, colour: str, face: str | None) -> None:
    shown = np.nan_to_num(np.array(values, float), nan=1e9, posinf=1e9).clip(max=limit)
    look = {"markersize": 3, "markerfacecolor": face or colour, "markeredgecolor": colour, "alpha": 0.75}
    axes.plot(shown, [place] * len(shown), "o", **look)
    axes.plot([np.median(shown)] * 2, [place - 0.22, place + 0.22], color=style.BLACK, linewidth=1.2)


@style.styled
def panels(path: Path, frames: tuple[int, ...] = FRAMES) -> Figure:
    """Draw one method's belief over the map, frame after frame."""
    recorded = beliefs.read(path)
    columns = 4
    rows = (len(frames) + columns - 1) // columns
    left, right, bottom, top = recorded.scene["extent"]
    figure = style.figure(height=0.5 + rows * (0.25 + style.WIDTH / columns * (top - bottom) / (right - left)))
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel, frame in zip(axes, frames, strict=False):
        belief.draw(panel, recorded, 0, frame, scale=0.5)
        panel.set_title(f"frame {frame}", fontsize=7, pad=2)
    names = [name for name in belief.MEANINGS if name != "observation"]
    figure.legend(handles=belief.handles(*names, size=4), loc="outside upper center", ncols=len(names), title=path.stem)
    return figure


@style.styled
def searching(folder: Path) -> Figure:
    """Draw how often the truth is found and kept from nowhere, by the number of particles."""
    results = found(folder)
    figure = style.figure(height=2.4)
    row = figure.subplots(1, len(NUMBERS), sharey=True)
    for axes, number in zip(row, NUMBERS, strict=True):
        prefix = f"maze-{number}-anywhere-"
        for name in ORDER:
            points = {
                int(setting.removeprefix(prefix)): result.metric("found")[0]
                for (method, setting), result in results.items()
                if method == name and setting.startswith(prefix)
            }
            if points:
                counts = sorted(points)
                colour = style.METHOD_COLOURS.get(name, style.BLUE)
                axes.plot(counts, [points[count] for count in counts], "o-", color=colour, label=name, markersize=3)
        axes.set(xscale="log", xlabel="particles", title=f"maze {number}", ylim=(0, 1))
    row[0].set_ylabel("truth found and kept")
    handles = {line.get_label(): line for axes in row for line in axes.get_lines()}
    figure.legend(handles=list(handles.values()), loc="outside right center")
    return figure


def draw_study(folder: Path) -> list[Path]:
    """Draw everything that the results in a folder give, and return the files."""
    results = found(folder)
    if not results:
        raise FileNotFoundError(
            f"Drawing the study needs result files, got none in {str(folder)!r}. `mdpf reproduce maze` writes them."
        )
    written = [style.save(boxes(folder), folder / "boxes.png")]
    if any("-anywhere-" in setting for _, setting in results):
        written.append(style.save(searching(folder), folder / "anywhere.png"))
    return written + (draw_panels(folder) if (folder / "panels").is_dir() else [])


def draw_panels(folder: Path) -> list[Path]:
    """Draw panels and animations from the files of beliefs in ``folder/panels``."""
    written = []
    for path in sorted((folder / "panels").glob("*@maze-*.npz")):
        if path.stem.startswith("anywhere"):
            recorded = beliefs.read(path)
            pictures = animation.render(recorded, 0, range(min(60, recorded.length)), pixels=420)
            written.append(animation.save(pictures, path.with_suffix(".gif"), fps=6))
        else:
            written.append(style.save(panels(path), path.with_suffix(".png")))
    return written


def summary(folder: Path, number: int) -> dict[str, dict[str, float]]:
    """The medians over runs of every method in one maze, with the ratio of its position error to that of dead reckoning."""
    results = found(folder)
    reckoning = results.get(("dead-reckoning", f"maze-{number}"))
    rows: dict[str, dict[str, float]] = {}
    for (name, setting), result in results.items():
        if setting.startswith(f"maze-{number}") and "anywhere" not in setting:
            row = {metric: median(result.metric(metric)) for metric in result.runs[0]["metrics"]}
            if reckoning is not None:
                row["position_ratio"] = row["position_rmse"] / reckoning.metric("position_rmse")[0]
            rows[f"{name}{setting.removeprefix(f'maze-{number}')}"] = row
    return rows
