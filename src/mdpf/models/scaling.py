"""Units: what comes in any unit leaves in one that networks like, and states keep theirs outside."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mdpf.checks import check_tensor
from mdpf.spaces import StateSpace

FARTHEST = 10.0  # In standard deviations; what lies beyond is absurd, and more absurd is not more informative.


class Standardise(nn.Module):
    """Subtract a mean, divide by a standard deviation, and bound the outcome.

    An observation axis of any shape becomes one of numbers: ``[*batch, *shape]`` to ``[*batch, prod(shape)]``.

    Args:
        mean: One for each number.
        scale: One for each number, positive.
        ndim: How many axes an observation has.
    """

    def __init__(self, mean: Sequence[float], scale: Sequence[float], ndim: int = 1):
        super().__init__()
        if len(mean) != len(scale) or not all(width > 0 for width in scale):
            raise ValueError(f"Standardise needs a mean and a positive scale for each number, got {list(mean)} and {list(scale)}.")
        self.ndim = ndim
        self.mean: Tensor
        self.scale: Tensor
        self.register_buffer("mean", torch.tensor(mean), persistent=False)
        self.register_buffer("scale", torch.tensor(scale), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        check_tensor("Standardise", x.flatten(-self.ndim) if x.ndim >= self.ndim else x, [len(self.mean)])
        return ((x.flatten(-self.ndim) - self.mean) / self.scale).clamp(-FARTHEST, FARTHEST)


@dataclass(frozen=True)
class ScaledSpace:
    """A state space whose linear coordinates a network sees in units of their own spread.

    Args:
        space: The space.
        offset: What is subtracted, one for each linear coordinate.
        scale: What is divided by, one for each linear coordinate.

    Example:
        >>> space = ScaledSpace(StateSpace.of("x", theta="angle"), offset=(100.0,), scale=(10.0,))
        >>> space.encode(torch.tensor([120.0, 0.0]))
        tensor([2., 0., 1.])
    """

    space: StateSpace
    offset: tuple[float, ...]
    scale: tuple[float, ...]

    def __post_init__(self) -> None:
        num_linear = len(self.space.linear)
        if not len(self.offset) == len(self.scale) == num_linear or not all(width > 0 for width in self.scale):
            raise ValueError(
                f"ScaledSpace needs an offset and a positive scale for each of {num_linear} linear coordinates, "
                f"got {self.offset} and {self.scale}."
            )

    @property
    def dim(self) -> int:
        return self.space.dim

    @property
    def encoded_dim(self) -> int:
        return self.space.encoded_dim

    @property
    def linear(self) -> tuple[int, ...]:
        return self.space.linear

    @property
    def angular(self) -> tuple[int, ...]:
        return self.space.angular

    @property
    def names(self) -> tuple[str, ...]:
        return self.space.names

    def encode(self, state: Tensor) -> Tensor:
        """Linear coordinates in their own units, then (sin, cos) of each angle."""
        columns = self.space.encode(state).unbind(-1)
        # Numbers of the host, one at a time: a tensor of them would have to be copied to the device at every call.
        scaled = [(column - low) / width for column, low, width in zip(columns, self.offset, self.scale, strict=False)]
        return torch.stack([*scaled, *columns[len(scaled) :]], -1)

    def decode(self, encoded: Tensor) -> Tensor:
        """The inverse of ``encode``; the (sin, cos) pairs need not have length one."""
        columns = encoded.unbind(-1)
        plain = [column * width + low for column, low, width in zip(columns, self.offset, self.scale, strict=False)]
        return self.space.decode(torch.stack([*plain, *columns[len(plain) :]], -1))
