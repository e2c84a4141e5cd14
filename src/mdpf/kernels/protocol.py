r"""What a kernel is: a density :math:`K(x \mid \mu)` centred at ``loc`` and symmetric around it.

A kernel is a ``NamedTuple`` whose leaves are parameter tensors of shape ``[*batch, d]``. Parameters are *left-aligned* with
states ``[*batch, ..., d]``: the batch axes of the parameter are the leading axes of the states, and whatever axes the states have
in between (particles, samples, pairs of them) are inserted just before the last one. A parameter of shape ``[d]`` serves every
batch element.
"""

from typing import Protocol, runtime_checkable

from torch import Tensor

from mdpf.checks import describe
from mdpf.noise import Source
from mdpf.spaces import Coordinate, StateSpace


@runtime_checkable
class Kernel(Protocol):
    """A density centred at ``loc``; all that mixtures, filters and most resamplers need."""

    @property
    def space(self) -> StateSpace:
        """Which of the kernel's coordinates are angles."""
        ...

    @property
    def state_dim(self) -> int:
        """How many coordinates the kernel covers."""
        ...

    def log_prob(self, x: Tensor, loc: Tensor) -> Tensor:
        """The log-density: ``[..., d]`` and ``[..., d]`` to ``[...]``."""
        ...

    def sample(self, loc: Tensor, *, generator: Source = None) -> Tensor:
        """One draw per location, pathwise differentiable in the location and the parameters."""
        ...

    def variance(self) -> Tensor:
        """The variance ``[*batch, d]`` of the deviation from the location, the short way round for angles."""
        ...

    def select(self, dims: tuple[int, ...]) -> "Kernel":
        """The kernel of some of the coordinates, in the order given."""
        ...


@runtime_checkable
class KernelWithCdf(Kernel, Protocol):
    """A kernel whose coordinates are independent, each with a density and a distribution function."""

    def log_factors(self, x: Tensor, loc: Tensor) -> Tensor:
        """One log-density per coordinate, ``[..., d]``; ``log_prob`` is their sum."""
        ...

    def scores(self, x: Tensor, loc: Tensor) -> Tensor:
        """The derivative of every log-factor to its own coordinate of ``x``, ``[..., d]``; zero where there is none."""
        ...

    def cdf(self, x: Tensor, loc: Tensor) -> Tensor:
        """One distribution function per coordinate, ``[..., d]``; for angles continued over the full turns."""
        ...


def plain_space(state_dim: int, *, angle: bool = False) -> StateSpace:
    """The space of a kernel that knows its coordinates only by number."""
    return StateSpace(tuple(Coordinate(str(dim), angle) for dim in range(state_dim)))


def align(call: str, parameter: Tensor, states: Tensor) -> Tensor:
    """Insert the axes that states ``[*batch, ..., d]`` have and a parameter ``[*batch, d]`` has not, just before the last one."""
    if states.shape[-1:] != parameter.shape[-1:]:
        raise ValueError(
            f"{call} needs states of shape [..., {parameter.shape[-1]}], got {describe(states)}. "
            "The last axis of a kernel's parameter counts the coordinates; give one entry for each."
        )
    if parameter.ndim == 1:
        return parameter
    batch = parameter.shape[:-1]
    leading = states.shape[: len(batch)]
    missing = states.ndim - parameter.ndim
    if missing < 0 or any(1 not in (ours, theirs) and ours != theirs for ours, theirs in zip(batch, leading, strict=True)):
        raise ValueError(
            f"{call} needs states with leading axes {list(batch)}, got {describe(states)}. "
            "The batch axes of a kernel's parameter are the leading axes of the states; use a parameter of shape [d] for all."
        )
    return parameter[(..., *[None] * missing, slice(None))]


def deviation(call: str, x: Tensor, loc: Tensor, parameter: Tensor) -> tuple[Tensor, Tensor]:
    """``x - loc``, not wrapped, and the parameter aligned with it."""
    if x.shape[-1:] != loc.shape[-1:]:
        raise ValueError(
            f"{call} needs x and loc with the same last axis, got {list(x.shape)} and {list(loc.shape)}. "
            "The last axis counts the coordinates; insert missing axes before it."
        )
    delta = x - loc
    return delta, align(call, parameter, delta)
