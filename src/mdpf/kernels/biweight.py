"""The biweight kernel: compact support with a soft edge, for linear coordinates."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mdpf import noise
from mdpf.kernels.protocol import align, deviation, plain_space
from mdpf.kernels.support import inside, within
from mdpf.noise import Source
from mdpf.spaces import StateSpace


class Biweight(NamedTuple):
    r"""The density :math:`\tfrac{15}{16} (1 - u^2)^2 / h` of :math:`u = (x - \mu) / h` in :math:`(-1, 1)`, zero elsewhere.

    Args:
        halfwidth: Half the width of the support, ``[*batch, d]``, positive.

    Gradient:
        Outside the support the log-density is ``-inf`` and its gradients are zero, never NaN. The gradient of the log-density
        grows towards the edge, but the density falls fast enough there for its square to have a finite mean.

    Example:
        >>> kernel = Biweight(torch.tensor([0.5]))
        >>> kernel.log_prob(torch.tensor([[0.0], [0.6]]), torch.zeros(1)).exp()
        tensor([1.8750, 0.0000])
    """

    halfwidth: Tensor

    @property
    def state_dim(self) -> int:
        return self.halfwidth.shape[-1]

    @property
    def space(self) -> StateSpace:
        return plain_space(self.state_dim)

    def log_factors(self, x: Tensor, loc: Tensor) -> Tensor:
        delta, halfwidth = deviation("Biweight.log_prob", x, loc, self.halfwidth)
        u, outside = inside(delta, halfwidth)
        log_density = 2 * ((1 - u) * (1 + u)).log() - halfwidth.log() + math.log(15 / 16)
        return torch.where(outside, -math.inf, log_density)

    def scores(self, x: Tensor, loc: Tensor) -> Tensor:
        delta, halfwidth = deviation("Biweight.scores", x, loc, self.halfwidth)
        u, _ = inside(delta, halfwidth)
        return -4 * u / ((1 - u) * (1 + u) * halfwidth)

    def log_prob(self, x: Tensor, loc: Tensor) -> Tensor:
        return self.log_factors(x, loc).sum(-1)

    def cdf(self, x: Tensor, loc: Tensor) -> Tensor:
        delta, halfwidth = deviation("Biweight.cdf", x, loc, self.halfwidth)
        u = (delta / halfwidth).clamp(-1, 1)
        return (1 + u) ** 3 * (8 - 9 * u + 3 * u.square()) / 16

    def sample(self, loc: Tensor, *, generator: Source = None) -> Tensor:
        halfwidth = align("Biweight.sample", self.halfwidth, loc)
        shape = torch.broadcast_shapes(loc.shape, halfwidth.shape)
        radius_level, turn = noise.uniform((*shape, 2), loc, generator).unbind(-1)
        # A point of the disc with density (1 - r^2)^(3/2), seen from the side, has density (1 - u^2)^2.
        radius = (-(0.4 * radius_level.log()).expm1()).sqrt()
        u = radius * (2 * math.pi * turn).cos()
        return loc + halfwidth * within(u, loc, halfwidth)

    def variance(self) -> Tensor:
        return self.halfwidth.square() / 7

    def select(self, dims: tuple[int, ...]) -> "Biweight":
        return Biweight(self.halfwidth[..., list(dims)])
