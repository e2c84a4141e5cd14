"""The figure of the synthetic problem: parameters and gradients over training, for every method."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mdpf.evaluation.results import Result, load
from mdpf.report import style

PARAMETERS = ("A", "B", "C1", "C2", "c1", "c2", "w1", "w2")
COLOURS = {"exact": style.BLACK, "IWSG": style.BLUE, "TG": style.ORANGE, "IRG": style.VERMILION}
NAMES = {"exact": "mixture Kalman filter", "IWSG": "IWSG-PF", "TG": "TG-PF", "IRG": "IRG-PF"}


@style.styled
def draw(folder: str | Path, parameters: Sequence[str] = PARAMETERS) -> Figure:
    """Draw the values above and their gradients below; lines are medians over seeds, bands their range.

    The band of a method ends where its seeds part for good.
    """
    results = {name: load(Path(folder) / f"{name}.json") for name in ("IRG", "TG", "IWSG", "exact")}
    figure = style.figure(height=1.45 * 2 * ((len(parameters) + 3) // 4))
    columns = min(4, len(parameters))
    rows = (len(parameters) + columns - 1) // columns
    axes = figure.subplots(2 * rows, columns, sharex=True, squeeze=False)
    truth = _truth(results["exact"])
    for index, parameter in enumerate(parameters):
        value, gradient = axes[2 * (index // columns), index % columns], axes[2 * (index // columns) + 1, index % columns]
        centre, reach = truth[parameter], 1.6 * abs(results["exact"].runs[0]["history"][parameter][0] - truth[parameter])
        for method, result in results.items():
            steps = np.arange(len(result.runs[0]["history"]["loss"])) * result.config["record_every"]
            _band(value, steps, _histories(result, parameter), COLOURS[method], widest=2 * reach)
            _band(gradient, steps, _histories(result, _gradient_name(parameter)), COLOURS[method])
        value.axhline(truth[parameter], color=style.GREY, linewidth=0.8, linestyle=":")
        value.set_title(f"${parameter[0]}_{parameter[1]}$" if len(parameter) == 2 else f"${parameter}$")
        value.set_ylim(centre - reach, centre + reach)
        gradient.set_yscale("symlog", linthresh=1.0)
    for row in range(rows):
        axes[2 * row, 0].set_ylabel("value")
        axes[2 * row + 1, 0].set_ylabel("gradient")
    for panel in axes[-1]:
        panel.set_xlabel("update")
    handles = [axes[0, 0].plot([], [], color=COLOURS[name], label=NAMES[name])[0] for name in COLOURS]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return figure


def _histories(result: Result, name: str) -> np.ndarray:
    return np.array([run["history"][name] for run in result.runs], dtype=float)


def _band(axes: Axes, steps: np.ndarray, values: np.ndarray, colour: str, widest: float = np.inf) -> None:
    """The range of the seeds, as long as it is narrower than the panel, and their median."""
    low, high = values.min(0), values.max(0)
    # Once the seeds have parted they part for good: the band ends there.
    together = np.logical_and.accumulate(high - low < widest)
    axes.fill_between(steps, low, high, where=together, color=colour, alpha=0.2, linewidth=0)
    axes.plot(steps, np.median(values, 0), color=colour)


def _gradient_name(parameter: str) -> str:
    """The weights of the modes are learned through one number, v."""
    return "dv" if parameter.startswith("w") else f"d{parameter}"


def _truth(result: Result) -> dict[str, float]:
    values = result.config["truth"]
    share = 1 / (1 + np.exp(values["logit"]))
    named = {"A": values["transition"], "B": values["control"], "w1": share, "w2": 1 - share}
    for index in (0, 1):
        named |= {f"C{index + 1}": values["emission"][index], f"c{index + 1}": values["offset"][index]}
    return named
