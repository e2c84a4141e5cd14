"""Metrics of results: a dot for every run, a bar at their median."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np
from matplotlib.figure import Figure

from mdpf.evaluation.results import Result, load
from mdpf.report import style

SHOWN = {
    "nll": "NLL",
    "position_rmse": "position RMSE",
    "angle_rmse": "angle RMSE",
    "lost": "lost",
    "nll_paper": "NLL (paper)",
    "rmse_paper": "RMSE (paper)",
    "ess": "ESS",
    "outside": "outside",
    "coverage_0.9": "coverage at 90 %",
}
DRAWN = ("nll_paper", "rmse_paper", "lost")
MOST = 24  # Rows of a figure; a study with more shows its default settings.


def results(folder: Path) -> list[Result]:
    """The results in a folder and the folders in it, best likelihood first."""
    found = []
    for path in sorted([*folder.glob("*.json"), *folder.glob("*/*.json")]):
        try:
            result = load(path)
        except (ValueError, TypeError):
            continue  # A note of another kind.
        if result.runs and isinstance(result.runs[0].get("metrics"), dict):
            found.append(result)
    return sorted(found, key=_quality)


def label(result: Result) -> str:
    """A method, and its setting where that is not the default."""
    return result.method if result.setting == "default" else f"{result.method} ({result.setting})"


def table(found: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Every result as the header and the rows of a table: the median over runs, and their range."""
    names = [name for name in SHOWN if all(name in run["metrics"] for result in found for run in result.runs)]
    rows = [[label(result), str(len(result.runs)), *[_range(result.metric(name)) for name in names]] for result in found]
    return ["", "runs", *[SHOWN[name] for name in names]], rows


@style.styled
def draw(found: Sequence[Result]) -> Figure:
    """Draw every run of every result."""
    shown = [result for result in found if len(found) <= MOST or result.setting == "default"][:MOST]
    names = [name for name in DRAWN if all(name in run["metrics"] for result in shown for run in result.runs)] or ["nll"]
    figure = style.figure(height=0.7 + 0.26 * len(shown))
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for panel, name in zip(panels, names, strict=True):
        for place, result in enumerate(reversed(shown)):
            values = np.array(result.metric(name), dtype=float)
            if not np.isfinite(values).all():
                panel.annotate("∞", (1, place), xycoords=("axes fraction", "data"), ha="right", va="center")
                values = values[np.isfinite(values)]
            if not len(values):
                continue
            colour = style.METHOD_COLOURS.get(result.method, style.BLUE)
            spread = np.linspace(-0.18, 0.18, len(values)) if len(values) > 1 else np.zeros(1)
            panel.plot(values, place + spread, "o", color=colour, markersize=3.5, alpha=0.75, markeredgewidth=0)
            panel.plot([np.median(values)] * 2, [place - 0.3, place + 0.3], color=style.BLACK, linewidth=1.4)
        panel.set_xlabel(SHOWN.get(name, name))
        panel.set_yticks(range(len(shown)), [label(result) for result in reversed(shown)])
        panel.grid(axis="x", color="#E5E5E5", linewidth=0.5)
    return figure


def _quality(result: Result) -> float:
    metrics = result.runs[0]["metrics"]
    name = next((name for name in ("nll_paper", "nll") if name in metrics), None)
    return float("inf") if name is None else median(result.metric(name))


def _range(values: Sequence[float]) -> str:
    ordered = sorted(values)
    middle = f"{median(ordered):.2f}"
    return middle if len(ordered) == 1 else f"{middle} ({ordered[0]:.2f} to {ordered[-1]:.2f})"
