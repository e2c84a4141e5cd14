"""The Epanechnikov kernel: compact support, for linear coordinates."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mdpf import noise
from mdpf.kernels.protocol import align, deviation, plain_space
from mdpf.kernels.support import inside, within
from mdpf.noise import Source
from mdpf.spaces import StateSpace


class Epanechnikov(NamedTuple):
    r"""The density :math:`\tfrac34 (1 - u^2) / h` of :math:`u = (x - \mu) / h` in :math:`(-1, 1)`, zero elsewhere.

    Args:
        halfwidth: Half the width of the support, ``[*batch, d]``, positive.

    Gradient:
        Outside the support the log-density is ``-inf`` and its gradients are zero, never NaN. Towards the edge the gradient of
        the log-density grows like :math:`1 / (1 - |u|)`, so that weights made from it have infinite variance where no other
        component covers the edge; ``Biweight`` is as compact and has not this defect.

    Example:
        >>> kernel = Epanechnikov(torch.tensor([0.5]))
        >>> kernel.log_prob(torch.tensor([[0.0], [0.6]]), torch.zeros(1)).exp()
        tensor([1.5000, 0.0000])
    """

    halfwidth: Tensor

    @property
    def state_dim(self) -> int:
        return self.halfwidth.shape[-1]

    @property
    def space(self) -> StateSpace:
        return plain_space(self.state_dim)

    def log_factors(self, x: Tensor, loc: Tensor) -> Tensor:
        delta, halfwidth = deviation("Epanechnikov.log_prob", x, loc, self.halfwidth)
        u, outside = inside(delta, halfwidth)
        log_density = ((1 - u) * (1 + u)).log() - halfwidth.log() + math.log(3 / 4)
        return torch.where(outside, -math.inf, log_density)

    def scores(self, x: Tensor, loc: Tensor) -> Tensor:
        delta, halfwidth = deviation("Epanechnikov.scores", x, loc, self.halfwidth)
        u, _ = inside(delta, halfwidth)
        return -2 * u / ((1 - u) * (1 + u) * halfwidth)

    def log_prob(self, x: Tensor, loc: Tensor) -> Tensor:
        return self.log_factors(x, loc).sum(-1)

    def cdf(self, x: Tensor, loc: Tensor) -> Tensor:
        delta, halfwidth = deviation("Epanechnikov.cdf", x, loc, self.halfwidth)
        u = (delta / halfwidth).clamp(-1, 1)
        return (1 + u).square() * (2 - u) / 4

    def sample(self, loc: Tensor, *, generator: Source = None) -> Tensor:
        halfwidth = align("Epanechnikov.sample", self.halfwidth, loc)
        shape = torch.broadcast_shapes(loc.shape, halfwidth.shape)
        level = noise.uniform(shape, loc, generator)
        # The cubic 2 + 3u - u^3 = 4 level, solved by the triple-angle formula.
        u = 2 * ((2 * level - 1).asin() / 3).sin()
        return loc + halfwidth * within(u, loc, halfwidth)

    def variance(self) -> Tensor:
        return self.halfwidth.square() / 5

    def select(self, dims: tuple[int, ...]) -> "Epanechnikov":
        return Epanechnikov(self.halfwidth[..., list(dims)])
