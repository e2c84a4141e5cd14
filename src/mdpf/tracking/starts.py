"""Where a filter may start: around a state, or anywhere in a region."""

from dataclasses import dataclass

import torch
from torch import Tensor

from mdpf import noise
from mdpf.checks import check_count, check_tensor
from mdpf.models.bandwidth import kernel_of
from mdpf.noise import Source
from mdpf.spaces import StateSpace


@dataclass(frozen=True)
class Around:
    """A cloud around a state: normal in linear coordinates, von Mises in angles.

    Args:
        space: The coordinates.
        widths: One for each: a standard deviation, for an angle the inverse of the concentration.
    """

    space: StateSpace
    widths: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.widths) != self.space.dim or not all(0 < width < float("inf") for width in self.widths):
            raise ValueError(f"Around needs a positive width for each of {list(self.space.names)}, got {list(self.widths)}.")

    def __call__(self, states: Tensor, num_particles: int, *, generator: Source = None) -> Tensor:
        """Draw particles around states: ``[*batch, d]`` to ``[*batch, num_particles, d]``."""
        check_tensor("Around", states, [self.space.dim], f"The coordinates are {list(self.space.names)}.")
        check_count("Around", num_particles, "num_particles")
        # Filled on the device: numbers of the host would have to be copied there in every step of a training.
        kernel = kernel_of(self.space, torch.stack([states.new_full((), width) for width in self.widths]))
        around = states[..., None, :].expand(*states.shape[:-1], num_particles, -1)
        return kernel.sample(around, generator=generator)


@dataclass(frozen=True)
class Box:
    """Anywhere between two corners, each place as likely as the next.

    Args:
        space: The coordinates.
        low: The lower corner.
        high: The upper corner.
    """

    space: StateSpace
    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        fits = len(self.low) == len(self.high) == self.space.dim
        if not fits or not all(-float("inf") < a <= b < float("inf") for a, b in zip(self.low, self.high, strict=True)):
            raise ValueError(
                f"Box needs a lower and an upper bound for each of {list(self.space.names)}, got {list(self.low)} and "
                f"{list(self.high)}."
            )

    def __call__(self, states: Tensor, num_particles: int, *, generator: Source = None) -> Tensor:
        """Draw particles for as many batch elements as there are states ``[*batch, d]``, whose values do not matter."""
        check_tensor("Box", states, [self.space.dim], f"The coordinates are {list(self.space.names)}.")
        check_count("Box", num_particles, "num_particles")
        levels = noise.uniform((*states.shape[:-1], num_particles, self.space.dim), states, generator)
        columns = zip(levels.unbind(-1), self.low, self.high, strict=True)
        return self.space.wrap(torch.stack([low + (high - low) * level for level, low, high in columns], -1))
