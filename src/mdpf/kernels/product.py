"""Kernels over consecutive blocks of coordinates."""

from collections.abc import Callable
from itertools import groupby
from typing import NamedTuple, TypeGuard

import torch
from torch import Tensor

from mdpf import noise
from mdpf.checks import describe
from mdpf.kernels.protocol import Kernel, KernelWithCdf
from mdpf.noise import Source
from mdpf.spaces import Coordinate, StateSpace


class Product(NamedTuple):
    """Independent kernels, each over its own consecutive block of coordinates.

    Args:
        parts: The kernels, in the order of their coordinates.

    Gradient:
        That of the parts.

    Example:
        >>> from mdpf.kernels import Gaussian, VonMises
        >>> kernel = Product((Gaussian(torch.ones(2)), VonMises(torch.tensor([10.0]))))
        >>> kernel.state_dim, kernel.space.angular
        (3, (2,))
        >>> kernel.select((2, 0)).space.angular
        (0,)
    """

    parts: tuple[Kernel, ...]

    @property
    def state_dim(self) -> int:
        return sum(part.state_dim for part in self.parts)

    @property
    def space(self) -> StateSpace:
        angles = [coordinate.angle for part in self.parts for coordinate in part.space.coordinates]
        return StateSpace(tuple(Coordinate(str(dim), angle) for dim, angle in enumerate(angles)))

    def log_prob(self, x: Tensor, loc: Tensor) -> Tensor:
        terms = [part.log_prob(*pair) for part, pair in zip(self.parts, self._split("log_prob", x, loc), strict=True)]
        return torch.stack(terms).sum(0) if len(terms) > 1 else terms[0]

    def log_factors(self, x: Tensor, loc: Tensor) -> Tensor:
        return self._per_coordinate("log_factors", lambda part, *pair: part.log_factors(*pair), x, loc)

    def scores(self, x: Tensor, loc: Tensor) -> Tensor:
        return self._per_coordinate("scores", lambda part, *pair: part.scores(*pair), x, loc)

    def cdf(self, x: Tensor, loc: Tensor) -> Tensor:
        return self._per_coordinate("cdf", lambda part, *pair: part.cdf(*pair), x, loc)

    def sample(self, loc: Tensor, *, generator: Source = None) -> Tensor:
        generator = noise.source(generator)
        blocks = self._split("sample", loc)
        return torch.cat([part.sample(*block, generator=generator) for part, block in zip(self.parts, blocks, strict=True)], -1)

    def variance(self) -> Tensor:
        variances = [part.variance() for part in self.parts]
        axes = max(variance.ndim for variance in variances)
        aligned = [variance[(..., *[None] * (axes - variance.ndim), slice(None))] for variance in variances]
        batch = torch.broadcast_shapes(*(variance.shape[:-1] for variance in aligned))
        return torch.cat([variance.expand(*batch, -1) for variance in aligned], -1)

    def select(self, dims: tuple[int, ...]) -> Kernel:
        homes = [(index, dim) for index, part in enumerate(self.parts) for dim in range(part.state_dim)]
        runs = groupby((homes[dim] for dim in dims), key=lambda home: home[0])
        parts = tuple(self.parts[index].select(tuple(dim for _, dim in run)) for index, run in runs)
        return parts[0] if len(parts) == 1 else Product(parts)

    def _split(self, call: str, *states: Tensor) -> list[tuple[Tensor, ...]]:
        """For each part, its block of every one of the states."""
        widths = [part.state_dim for part in self.parts]
        for state in states:
            if state.shape[-1:] != (sum(widths),):
                raise ValueError(
                    f"Product.{call} needs states of shape [..., {sum(widths)}], got {describe(state)}. "
                    f"The parts cover {widths} coordinates; give one entry for each."
                )
        return list(zip(*(state.split(widths, -1) for state in states), strict=True))

    def _per_coordinate(self, call: str, evaluate: Callable[..., Tensor], x: Tensor, loc: Tensor) -> Tensor:
        blocks = self._split(call, x, loc)
        return torch.cat([evaluate(part, *pair) for part, pair in zip(self.parts, blocks, strict=True)], -1)


def has_cdf(kernel: Kernel) -> TypeGuard[KernelWithCdf]:
    """Whether a kernel, with all the parts of a product, offers ``log_factors``, ``scores`` and ``cdf``."""
    if isinstance(kernel, Product):
        return all(has_cdf(part) for part in kernel.parts)
    return isinstance(kernel, KernelWithCdf)
