"""Training curves: loss and validation loss of every stage, as the checkpoints remember them."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mdpf.report import style
from mdpf.training import checkpoint


class History(NamedTuple):
    """One stage of one training: losses ``[epochs, runs]``."""

    method: str
    stage: str
    train: np.ndarray
    validation: np.ndarray


def histories(folder: Path) -> list[History]:
    """What the checkpoints below a folder remember; the folder a checkpoint lies in is named after its method."""
    found = []
    for path in sorted(folder.rglob("*.safetensors")):
        try:
            epochs = checkpoint.notes(path).get("history")
        except ValueError:
            continue
        if epochs:
            losses = (np.array([epoch[name] for epoch in epochs], dtype=float) for name in ("train", "validation"))
            found.append(History(path.parent.name, epochs[0]["stage"], *losses))
    return found


@style.styled
def draw(found: list[History]) -> Figure:
    """Draw a row for each method, a panel for each stage; lines are medians over runs, bands their range."""
    methods = list(dict.fromkeys(history.method for history in found))
    rows = [[history for history in found if history.method == method] for method in methods]
    columns = max(len(row) for row in rows)
    figure = style.figure(height=0.4 + 1.6 * len(rows))
    axes = figure.subplots(len(rows), columns, squeeze=False)
    for panels, row in zip(axes, rows, strict=True):
        for panel in panels[len(row) :]:
            panel.set_visible(False)
        for panel, history in zip(panels, row, strict=False):
            epochs = np.arange(1, len(history.train) + 1)
            for values, colour, label in ((history.train, style.GREY, "training"), (history.validation, style.BLUE, "validation")):
                there = np.isfinite(values).any(1)
                shown, when = np.where(np.isfinite(values), values, np.nan)[there], epochs[there]
                panel.fill_between(when, np.nanmin(shown, 1), np.nanmax(shown, 1), color=colour, alpha=0.2, linewidth=0)
                panel.plot(when, np.nanmedian(shown, 1), color=colour, label=label, marker="." if len(epochs) == 1 else "")
            title = history.stage if history.method == history.stage else f"{history.method}, {history.stage}"
            panel.set(title=title, xlabel="epoch")
            panel.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
        panels[0].set_ylabel("loss")
    figure.legend(handles=axes[0, 0].get_lines(), loc="outside upper center", ncols=2)
    return figure
