"""The figure of a calibration: coverage of credible regions, and the transforms of every coordinate."""

import numpy as np
import torch
from matplotlib.figure import Figure

from mdpf.evaluation.calibration import Calibration, coverage
from mdpf.report import style

BINS = 20


@style.styled
def draw(found: Calibration, names: tuple[str, ...]) -> Figure:
    """Draw how much credible regions cover, and a histogram for each coordinate; a calibrated belief follows the dotted lines."""
    columns = min(4, 1 + len(names))
    rows = (len(names) + columns) // columns
    figure = style.figure(height=1.9 * rows)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    nominal = torch.linspace(0, 1, 101, dtype=torch.float64)
    covered = coverage(found.levels, nominal)
    axes[0].plot([0, 1], [0, 1], color=style.GREY, linestyle=":", linewidth=0.8)
    axes[0].plot(nominal, covered, color=style.BLUE)
    axes[0].fill_between(nominal, nominal, covered, color=style.BLUE, alpha=0.2, linewidth=0)
    axes[0].set(xlabel="mass of the region", ylabel="truths in it", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    below, above = "not sure enough on the whole", "too sure on the whole"
    axes[0].set_title(above if float((covered - nominal).mean()) < 0 else below, fontsize=7)
    transforms = found.transforms.reshape(-1, len(names)).numpy()
    for index, (panel, name) in enumerate(zip(axes[1:], names, strict=False)):
        counts, edges = np.histogram(transforms[:, index], bins=BINS, range=(0, 1))
        heights = BINS * counts / max(1, counts.sum())
        panel.bar(edges[:-1], heights, width=1 / BINS, align="edge", color=style.SKY, edgecolor="white", linewidth=0.3)
        panel.axhline(1, color=style.GREY, linestyle=":", linewidth=0.8)
        panel.set(title=name, xlabel="CDF at the truth", xlim=(0, 1))
    for panel in axes[1 + len(names) :]:
        panel.set_visible(False)
    return figure
