"""What a resampler is: a mixture in, weighted points out."""

from typing import NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from mdpf.mixture import Mixture
from mdpf.noise import Source


class Draw(NamedTuple):
    """Weighted points that stand for a mixture.

    ``exp(log_weights) @ f(points)`` estimates the mixture's expectation of ``f``; the log-weights are importance weights that
    contain ``-log n``, and need not sum to one.

    Shapes:
        ``points``: ``[*batch, n, d]``; ``log_weights``: ``[*batch, n]``.
    """

    points: Tensor
    log_weights: Tensor


@runtime_checkable
class Resampler(Protocol):
    """Represent a mixture by ``num_particles`` weighted points.

    A resampler is the one place where a gradient rule is decided. It may use the kernel of the mixture; a discrete rule need not.
    """

    def __call__(self, mixture: Mixture, num_particles: int, *, generator: Source = None) -> Draw: ...
