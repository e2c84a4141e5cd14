"""Look at beliefs while they are judged, and find out whether they are as sure as they should be."""

import torch

from mdpf.data.sequences import SequenceBatch
from mdpf.evaluation import calibration
from mdpf.evaluation.calibration import Calibration
from mdpf.filters import Trajectory
from mdpf.spaces import StateSpace

DRAWS = 200  # From each belief, to measure how much of it lies above the truth.


class Levels:
    """Where in the beliefs the truth lies, of every run; given to ``evaluate`` as ``look``.

    Args:
        space: The coordinates.
    """

    def __init__(self, space: StateSpace):
        self._names = space.names
        self._found: list[list[Calibration]] = []

    def __call__(self, part: SequenceBatch, trajectory: Trajectory) -> None:
        """Take note of a portion of the data: ``[n, T, ...]``, or ``[runs, n, T, ...]``."""
        known = part.targets[..., 1:]
        generator = torch.Generator(known.device).manual_seed(0)
        found = calibration.calibrate(trajectory.posterior, part.states[..., 1:, :], num_samples=DRAWS, generator=generator)
        runs = [known] if known.ndim == 2 else list(known)
        levels = [found.levels] if known.ndim == 2 else list(found.levels)
        transforms = [found.transforms] if known.ndim == 2 else list(found.transforms)
        if not self._found:
            self._found = [[] for _ in runs]
        for kept, mask, level, transform in zip(self._found, runs, levels, transforms, strict=True):
            kept.append(Calibration(level[mask].cpu(), transform[mask].cpu()))

    def summary(self, run: int) -> dict[str, float]:
        """How well calibrated one run is."""
        joined = Calibration(*(torch.cat(parts) for parts in zip(*self._found[run], strict=True)))
        return dict(calibration.summarise(joined, self._names))
