"""What a folder holds that is worth showing: results, training curves, beliefs and their calibration."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor

from mdpf import trees
from mdpf.evaluation import beliefs, calibration
from mdpf.evaluation.beliefs import Beliefs
from mdpf.evaluation.calibration import Calibration
from mdpf.evaluation.results import Result
from mdpf.mixture import Mixture
from mdpf.modes import find_modes
from mdpf.report import calibration as calibration_figure
from mdpf.report import curves, over_time, spread

SAMPLES = 100  # Draws that measure a credible region.
JUDGED = 4_000_000  # Kernels whose draws are judged in a calibration; longer files are judged at evenly spaced frames.
CLIMBED = 3_000_000  # Pairs of particles among which modes are looked for.
CLIMBING = 150  # Particles of a belief from which modes are looked for.
LIVE = 0.05  # A hypothesis lighter than this does not count as alive.


class Tracked(NamedTuple):
    """A file of beliefs and what follows from it.

    Args:
        name: Of the file.
        beliefs: What is in it.
        counts: How many hypotheses were alive, ``[n, frames]``, at evenly spaced frames.
        calibration: Where the truth lies in the beliefs, if it is known.
    """

    name: str
    beliefs: Beliefs
    counts: Tensor
    calibration: Calibration | None


class Content(NamedTuple):
    """Everything that is shown."""

    results: Sequence[Result]
    histories: Sequence[curves.History]
    tracked: Sequence[Tracked]

    def figures(self) -> Mapping[str, Figure]:
        """All figures, by the name of the file to save each in."""
        found: dict[str, Figure] = {}
        if self.results:
            found["metrics"] = spread.draw(self.results)
        if self.histories:
            found["training"] = curves.draw(list(self.histories))
        for tracked in self.tracked:
            if tracked.calibration is not None:
                found[f"calibration-{tracked.name}"] = calibration_figure.draw(tracked.calibration, tracked.beliefs.space.names)
            found[f"over-time-{tracked.name}"] = over_time.draw(tracked.beliefs, tracked.counts)
        return found


def collect(folder: str | Path) -> Content:
    """Read everything in a folder, and in the folders in it, that is worth showing."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"A report needs a folder of results, got {str(folder)!r}, which is none. `mdpf train` writes such folders."
        )
    files = [path for path in sorted([*folder.glob("*.npz"), *folder.glob("*/*.npz")]) if beliefs.is_file_of_beliefs(path)]
    found = Content(spread.results(folder), curves.histories(folder), [_judge(path) for path in files])
    if not any(found):
        raise FileNotFoundError(
            f"A report needs results, checkpoints or files of beliefs, got none of them in {str(folder)!r}. "
            "`mdpf train` writes the former, `mdpf track` the latter."
        )
    return found


def thinned(beliefs: Beliefs, most: int) -> Beliefs:
    """Every belief with at most so many particles: chosen evenly through their weights, without chance, and then of one weight."""
    if beliefs.particles.shape[2] <= most:
        return beliefs
    below = beliefs.log_weights.double().exp().cumsum(-1)
    levels = (torch.arange(most, dtype=torch.float64) + 0.5) / most * below[..., -1:]
    kept = torch.searchsorted(below, levels).clamp_max(beliefs.particles.shape[2] - 1)
    particles = beliefs.particles.gather(2, kept.unsqueeze(-1).expand(*kept.shape, beliefs.space.dim))
    return beliefs._replace(particles=particles, log_weights=torch.full(kept.shape, -math.log(most)))


def _judge(path: Path) -> Tracked:
    recorded = beliefs.read(path)
    posterior = thinned(recorded, CLIMBING).posterior
    stride = _stride(posterior, CLIMBED // posterior.num_components)
    counts = find_modes(_every(posterior, stride), min_weight=LIVE).count
    return Tracked(path.stem, recorded, counts, _calibrate(recorded))


def _calibrate(recorded: Beliefs) -> Calibration | None:
    """The calibration at labelled frames after the initial one, at evenly spaced ones if there are many."""
    if recorded.data is None or not bool(recorded.data.targets[:, 1:].any()):
        return None
    posterior = recorded.posterior
    stride = _stride(posterior, JUDGED)
    known = recorded.data.targets[:, 1::stride]
    if not bool(known.any()):
        stride, known = 1, recorded.data.targets[:, 1:]
    chosen = trees.tree_map(lambda tensor: tensor[:, 1::stride][known], posterior)
    generator = torch.Generator().manual_seed(0)
    truth = recorded.data.states[:, 1::stride][known]
    return calibration.calibrate(chosen, truth, num_samples=SAMPLES, generator=generator)


def _stride(posterior: Mixture, most: int) -> int:
    """Every how-manieth frame to look at, so that at most so many components are."""
    num_sequences, length = posterior.batch_shape
    frames = max(1, most // max(1, num_sequences * posterior.num_components))
    return max(1, -(-length // frames))


def _every(posterior: Mixture, stride: int) -> Mixture:
    return trees.tree_map(lambda tensor: tensor[:, ::stride], posterior)
