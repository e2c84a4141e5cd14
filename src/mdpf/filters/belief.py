"""What a filter carries from step to step, and what it gives back."""

from typing import NamedTuple

from torch import Tensor

from mdpf.mixture import Mixture


class Belief(NamedTuple):
    """What is believed at one frame.

    Args:
        posterior: What losses and users see.
        resampling: What the next step draws from; the same object as ``posterior`` in the plain filter. ``None`` right after
            ``init``: the first step does not resample. That is a fact of the type, not a value on a device.
    """

    posterior: Mixture
    resampling: Mixture | None

    @property
    def particles(self) -> Tensor:
        """Where the particles are, ``[*batch, n, d]``."""
        return self.posterior.locs


class StepInfo(NamedTuple):
    """What one step noticed; each ``[*batch]``.

    Args:
        log_evidence: The log-probability of the observation given those before it, up to the constant of the measurement's scores.
            Its sum over time is unbiased (as a probability) where the resampler is. For a step without observation it is the log
            of the total importance weight of the draw: zero, except for rules such as ``Soft`` whose weights sum to one only on
            average.
        ess: The effective sample size of the new weights.
        degenerate: Whether every particle was scored as impossible, or not as a number; the weights were carried on unchanged.
    """

    log_evidence: Tensor
    ess: Tensor
    degenerate: Tensor


class Trajectory(NamedTuple):
    """The posterior and the notes of every step, stacked along a time axis behind the batch axes."""

    posterior: Mixture
    info: StepInfo
