"""The figure of a diagnosis: what every estimator makes of every gradient."""

import numpy as np
from matplotlib.figure import Figure

from mdpf.evaluation.diagnose import Diagnosis
from mdpf.report import style


@style.styled
def draw(diagnosis: Diagnosis) -> Figure:
    """Draw bias (dots, with three standard errors) and spread (bars) of each estimator, in units of the true gradient."""
    parameters = list(dict.fromkeys(row.parameter for row in diagnosis.rows))
    estimators = list(dict.fromkeys(row.estimator for row in diagnosis.rows))
    columns = 2 if len(parameters) in (2, 4) else min(3, len(parameters))
    rows = -(-len(parameters) // columns)
    figure = style.figure(height=1.0 + 0.16 * len(estimators) * rows)
    axes = list(figure.subplots(rows, columns, sharey=True, squeeze=False).flat)
    places = np.arange(len(estimators))[::-1]
    for panel, parameter in zip(axes, parameters, strict=False):
        found = [row for row in diagnosis.rows if row.parameter == parameter]
        unit = abs(found[0].truth) or 1.0
        panel.barh(
            places,
            [2 * row.spread / unit for row in found],
            left=[-row.spread / unit for row in found],
            color=style.SKY,
            height=0.7,
        )
        for place, row in zip(places, found, strict=True):
            colour = style.VERMILION if row.is_biased else style.BLACK
            sign = np.sign(row.truth) or 1.0
            panel.errorbar(
                sign * row.bias / unit, place, xerr=3 * row.bias_error / unit, fmt="o", color=colour, markersize=3, linewidth=1
            )
        panel.axvline(0, color=style.GREY, linewidth=0.8)
        panel.axvline(-1, color=style.GREY, linewidth=0.8, linestyle=":")
        panel.set_xscale("symlog", linthresh=1)
        panel.xaxis.get_major_locator().set_params(numticks=5)  # pyright: ignore[reportAttributeAccessIssue] - of this scale
        panel.set(title=parameter, yticks=places, yticklabels=estimators)
    for panel in axes[len(parameters) :]:
        panel.set_visible(False)
    figure.supxlabel("error, in units of the true gradient", fontsize=8)
    note = "dots: bias, red where it counts, at the dotted line nothing is left of the gradient; bars: spread"
    figure.suptitle(f"{diagnosis.num_replicates} runs with {diagnosis.num_particles} particles; {note}", fontsize=7)
    return figure
