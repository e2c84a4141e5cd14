"""What a filter asks of the models it is made of."""

from typing import Any, Protocol, TypeAlias

from torch import Tensor

from mdpf.kernels.protocol import Kernel
from mdpf.noise import Source

# Whatever an encoder makes and a measurement understands: a tensor, or a tuple of tensors, or None where nothing was observed.
Feature: TypeAlias = Any


class Dynamics(Protocol):
    """Move particles one frame on: ``[*batch, n, d]`` and an action ``[*batch, a]`` to ``[*batch, n, d]``.

    The noise is drawn inside, and the move differentiable in the particles and in the parameters.
    """

    def __call__(self, points: Tensor, action: Tensor | None = None, *, generator: Source = None) -> Tensor: ...


class Measurement(Protocol):
    """Score particles against a feature: unnormalised log-scores ``[*batch, n]``.

    For ``AdaptiveParticleFilter`` they are ``[*batch, n, 2]``: for the posterior, and for resampling.
    """

    def __call__(self, particles: Tensor, feature: Feature) -> Tensor: ...


class Bandwidth(Protocol):
    """The kernel that smooths particles ``[*batch, n, d]``; its parameters are ``[*batch, d]`` or ``[d]``."""

    def __call__(self, particles: Tensor) -> Kernel: ...


class Encoder(Protocol):
    """Turn observations into features, for a whole sequence at once: ``[*batch, time, ...]`` to ``[*batch, time, ...]``."""

    def __call__(self, observations: Tensor) -> Feature: ...


class Encoding(Protocol):
    """How networks see a state: a ``StateSpace``, or a ``ScaledSpace`` whose units are the networks' own.

    Encoded states have the linear coordinates first, then a pair (sin, cos) for each angle.
    """

    @property
    def encoded_dim(self) -> int: ...

    @property
    def linear(self) -> tuple[int, ...]: ...

    @property
    def angular(self) -> tuple[int, ...]: ...

    def encode(self, state: Tensor) -> Tensor: ...

    def decode(self, encoded: Tensor) -> Tensor: ...
