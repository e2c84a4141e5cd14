"""The Gaussian kernel, for linear coordinates."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mdpf import noise
from mdpf.kernels.protocol import align, deviation, plain_space
from mdpf.noise import Source
from mdpf.spaces import StateSpace

LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)


class Gaussian(NamedTuple):
    """Independent normal deviations.

    Args:
        scale: Standard deviations ``[*batch, d]``, positive.

    Gradient:
        Densities, distribution functions and draws are smooth in everything; a draw moves by one with its location and by its own
        standardised deviation with the scale.

    Example:
        >>> kernel = Gaussian(torch.tensor([1.0, 2.0]))
        >>> kernel.log_prob(torch.zeros(5, 2), torch.zeros(2)).shape
        torch.Size([5])
    """

    scale: Tensor

    @property
    def state_dim(self) -> int:
        return self.scale.shape[-1]

    @property
    def space(self) -> StateSpace:
        return plain_space(self.state_dim)

    def log_factors(self, x: Tensor, loc: Tensor) -> Tensor:
        delta, scale = deviation("Gaussian.log_prob", x, loc, self.scale)
        return -0.5 * (delta / scale).square() - scale.log() - LOG_SQRT_TWO_PI

    def scores(self, x: Tensor, loc: Tensor) -> Tensor:
        delta, scale = deviation("Gaussian.scores", x, loc, self.scale)
        return -delta / scale.square()

    def log_prob(self, x: Tensor, loc: Tensor) -> Tensor:
        return self.log_factors(x, loc).sum(-1)

    def cdf(self, x: Tensor, loc: Tensor) -> Tensor:
        delta, scale = deviation("Gaussian.cdf", x, loc, self.scale)
        return torch.special.ndtr(delta / scale)

    def sample(self, loc: Tensor, *, generator: Source = None) -> Tensor:
        scale = align("Gaussian.sample", self.scale, loc)
        shape = torch.broadcast_shapes(loc.shape, scale.shape)
        return loc + scale * noise.normal(shape, loc, generator)

    def variance(self) -> Tensor:
        return self.scale.square()

    def select(self, dims: tuple[int, ...]) -> "Gaussian":
        return Gaussian(self.scale[..., list(dims)])
