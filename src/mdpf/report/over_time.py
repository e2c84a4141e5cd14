"""How beliefs develop over the frames of sequences: effective sample size, live hypotheses, error."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from mdpf.evaluation.beliefs import Beliefs
from mdpf.report import style


@style.styled
def draw(beliefs: Beliefs, counts: Tensor) -> Figure:
    """Draw medians over sequences, with the middle half of them dark and nine tenths light.

    Args:
        beliefs: What was believed.
        counts: How many hypotheses were alive, ``[n, frames]``, at evenly spaced frames.
    """
    error = position_error(beliefs)
    figure = style.figure(height=2.1)
    panels = figure.subplots(1, 2 if error is None else 3)
    valid = None if beliefs.data is None else beliefs.data.valid
    _bands(panels[0], _known(beliefs.ess, valid), "effective sample size")
    panels[0].set_ylim(0, 1.05 * beliefs.particles.shape[2])
    stride = -(-beliefs.length // counts.shape[1])
    shown = _known(counts.float(), None if valid is None else valid[:, ::stride])
    there = ~np.isnan(shown).all(0)
    frames, shown = (np.arange(counts.shape[1]) * stride)[there], shown[:, there]
    panels[1].plot(frames, np.nanmean(shown, 0), color=style.BLUE, label="mean")
    several = np.nanmean(np.where(np.isnan(shown), np.nan, shown > 1), 0)
    share = panels[1].twinx()
    share.fill_between(frames, 0, several, color=style.ORANGE, alpha=0.25, linewidth=0)
    share.set(ylim=(0, 1), yticks=[0, 0.5, 1])
    share.tick_params(colors=style.ORANGE)
    share.set_ylabel("share of sequences with several", color=style.ORANGE, fontsize=7)
    panels[1].set(ylabel="live modes, mean", ylim=(0, None))
    panels[1].set_zorder(share.get_zorder() + 1)
    panels[1].patch.set_visible(False)
    if error is not None:
        _bands(panels[2], error, "position error of the mean")
    for panel in panels:
        panel.set(xlabel="frame", xlim=(0, beliefs.length - 1))
    return figure


def position_error(beliefs: Beliefs) -> np.ndarray | None:
    """How far the mean is from the truth in the linear coordinates, or in all if there are none, ``[n, T]``."""
    if beliefs.data is None or not bool(beliefs.data.targets.any()):
        return None
    space = beliefs.space
    off = space.difference(beliefs.mean, beliefs.data.states)[..., list(space.linear or space.angular)]
    return _known(off.square().sum(-1).sqrt(), beliefs.data.targets)


def _known(values: Tensor, mask: Tensor | None) -> np.ndarray:
    return values.numpy() if mask is None else values.where(mask, float("nan")).numpy()


def _bands(axes: Axes, values: np.ndarray, label: str) -> None:
    present = ~np.isnan(values).all(0)
    frames = np.arange(values.shape[1])[present]
    lowest, lower, middle, upper, highest = np.nanpercentile(values[:, present], [5, 25, 50, 75, 95], axis=0)
    if len(values) > 1:
        axes.fill_between(frames, lowest, highest, color=style.SKY, alpha=0.25, linewidth=0)
        axes.fill_between(frames, lower, upper, color=style.SKY, alpha=0.6, linewidth=0)
    axes.plot(frames, middle, color=style.BLUE)
    axes.set(ylabel=label, ylim=(0, None))
