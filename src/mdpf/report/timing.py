"""The figure of time and memory against the number of particles, for every method: a training step and an inference step."""

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mdpf.evaluation.measurements import Measurements, load, path_of
from mdpf.report import style

PART = "timing"
# The unit that tells best what a step costs: on a processor, whose other users would disturb the clock, its own time.
TIMES = {"cuda": "ms", "cpu": "ms of processor"}
PANELS = (("training step", "time"), ("inference step", "time"), ("training step", "memory"), ("inference step", "memory"))
FRONT = ("MDPF", "A-MDPF")  # Drawn last, and thicker.


@style.styled
def draw(folder: str | Path) -> Figure:
    """Draw a row of panels for each kind of device that was measured, from ``timing@cuda.json`` and ``timing@cpu.json``."""
    found = {device: load(path) for device in TIMES if (path := path_of(Path(folder), PART, device)).exists()}
    if not found:
        raise FileNotFoundError(
            f"Drawing the times needs measurements, got none in {str(folder)!r}. `mdpf reproduce timing` makes them."
        )
    figure = style.figure(height=0.4 + 1.8 * len(found))
    axes: Any = figure.subplots(len(found), len(PANELS), squeeze=False)
    methods: dict[str, None] = {}
    for row, (device, measured) in zip(axes, found.items(), strict=True):
        # What is of one kind is compared at one scale.
        row[1].sharey(row[0])
        row[3].sharey(row[2])
        for panel, (step, quantity) in zip(row, PANELS, strict=True):
            methods |= dict.fromkeys(_panel(panel, measured, device, step, quantity))
            panel.set_title(f"{step}, {quantity}")
        row[0].set_ylabel(f"{_name(measured, device)}\nmilliseconds")
        row[2].set_ylabel("megabytes")
    for panel in axes[-1]:
        panel.set_xlabel("particles")
    handles = [axes[0, 0].plot([], [], **_look(method), label=method)[0] for method in sorted(methods, key=_order)]
    figure.legend(handles=handles, loc="outside lower center", ncols=5)
    return figure


def _panel(panel: Axes, measured: Measurements, device: str, step: str, quantity: str) -> list[str]:
    """One line for each method; says whose."""
    unit = "MB" if quantity == "memory" else TIMES[device]
    rows = measured.all(step, unit)
    methods = sorted({row.params["method"] for row in rows}, key=_order)
    for method in reversed(methods):
        panel.plot(*_curve(measured, step, unit, method), **_look(method))
    panel.set(xscale="log", yscale="log")
    counts = sorted({row.params["particles"] for row in rows})
    panel.set_xticks(counts, [str(count) for count in counts])
    panel.minorticks_off()
    panel.grid(axis="y", color=style.GREY, alpha=0.25, linewidth=0.5)
    return methods


def _curve(measured: Measurements, step: str, unit: str, method: str) -> tuple[list[int], list[float]]:
    """The values of a method over the number of particles: recorded where that was possible, else as they come."""
    rows = measured.all(step, unit, method=method)
    best: dict[int, float] = {}
    for row in sorted(rows, key=lambda row: row.params["execution"]):  # Eager first; a later one takes its place.
        if row.value == row.value:
            best[row.params["particles"]] = row.value
    return sorted(best), [best[count] for count in sorted(best)]


def _look(method: str) -> dict[str, Any]:
    front = method in FRONT
    line = "--" if method == "A-MDPF" else "-"
    return {"color": style.METHOD_COLOURS[method], "linewidth": 1.8 if front else 1.0, "linestyle": line, "marker": "."}


def _order(method: str) -> int:
    return FRONT.index(method) if method in FRONT else len(style.METHOD_COLOURS) - list(style.METHOD_COLOURS).index(method) + 2


def _name(measured: Measurements, device: str) -> str:
    return "one processor core" if device == "cpu" else measured.provenance.device
