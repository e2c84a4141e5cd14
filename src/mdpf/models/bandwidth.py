"""Bandwidths: from particles to the kernel that smooths them."""

from collections.abc import Callable, Sequence
from itertools import groupby

import torch
from torch import Tensor, nn

from mdpf import trees
from mdpf.kernels import Gaussian, Product, VonMises
from mdpf.kernels.protocol import Kernel
from mdpf.spaces import StateSpace

Family = Callable[[Tensor], Kernel]


class FixedBandwidth(nn.Module):
    """The same kernel at every step, not learned.

    Args:
        kernel: A kernel whose parameters have shape ``[d]``.
    """

    def __init__(self, kernel: Kernel):
        super().__init__()
        self._kernel = kernel
        for index, tensor in enumerate(trees.leaves(kernel)):
            self.register_buffer(f"parameter_{index}", tensor.detach().clone())

    def forward(self, particles: Tensor) -> Kernel:
        buffers = iter(self.buffers())
        return trees.tree_map(lambda _: next(buffers), self._kernel)


class LearnedBandwidth(nn.Module):
    r"""One learned bandwidth for each coordinate, shared by all particles and times.

    .. math:: b = b_{\min} + e^{\lambda} \quad\text{or, with a maximum,}\quad
        b = b_{\min} + \frac{e^{\lambda}}{1 + e^{\lambda} / (b_{\max} - b_{\min})}

    It is the width of the kernel of a linear coordinate; for an angle it is the inverse of the concentration, so that a small
    bandwidth means a narrow kernel everywhere.

    Args:
        space: Which coordinates are angles.
        start: The bandwidths to start from, one for each coordinate.
        minimum: What they cannot fall below.
        linear: The kernel of linear coordinates, made from their bandwidths.
        maximum: What they cannot reach, infinite for coordinates without one; no bounds by default.
    """

    runs_allowed = True

    def __init__(
        self,
        space: StateSpace,
        start: Sequence[float],
        minimum: Sequence[float],
        linear: Family = Gaussian,
        maximum: Sequence[float] | None = None,
    ):
        super().__init__()
        if not len(start) == len(minimum) == space.dim or not all(0 <= low < b for b, low in zip(start, minimum, strict=True)):
            raise ValueError(
                f"LearnedBandwidth needs {space.dim} bandwidths to start from, each above its minimum of zero or more, "
                f"got {list(start)} and {list(minimum)}. The coordinates are {list(space.names)}; give one of each for every one."
            )
        self.space = space
        self.linear = linear
        self.minimum: Tensor
        self.register_buffer("minimum", torch.tensor(minimum), persistent=False)
        if maximum is not None and not (
            len(maximum) == space.dim and all(b < high for b, high in zip(start, maximum, strict=True))
        ):
            raise ValueError(
                f"LearnedBandwidth needs {space.dim} maxima, each above the bandwidth to start from, got {list(maximum)} for "
                f"{list(start)}. Give math.inf to coordinates without a maximum."
            )
        excess = torch.tensor(start) - torch.tensor(minimum)
        self.room: Tensor | None
        self.register_buffer("room", None if maximum is None else torch.tensor(maximum) - torch.tensor(minimum), persistent=False)
        if self.room is not None:
            excess = excess / (1 - excess / self.room)
        self.log_excess = nn.Parameter(excess.log())

    def bandwidths(self) -> Tensor:
        """The bandwidths themselves, ``[d]``, or ``[runs, d]`` if there is a run axis."""
        excess = self.log_excess.exp()
        if self.room is None:
            return self.minimum + excess
        # With an infinite maximum the divisor is one.
        return self.minimum + excess / (1 + excess / self.room)

    def forward(self, particles: Tensor) -> Kernel:
        return kernel_of(self.space, self.bandwidths(), self.linear)


def kernel_of(space: StateSpace, bandwidths: Tensor, linear: Family = Gaussian) -> Kernel:
    """The kernel with given bandwidths: ``linear`` for linear coordinates, von Mises with concentration ``1 / b`` for angles."""
    parts: list[Kernel] = []
    for angle, block in groupby(range(space.dim), key=lambda dim: space.coordinates[dim].angle):
        first, *rest = block
        # A list of indices would be copied to the device at every call.
        width = bandwidths.narrow(-1, first, 1 + len(rest))
        parts.append(VonMises(1 / width) if angle else linear(width))
    return parts[0] if len(parts) == 1 else Product(tuple(parts))
