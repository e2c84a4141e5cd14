"""The von Mises kernel, for angles."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mdpf import noise
from mdpf.kernels.bessel import circle_limit, log_i0e
from mdpf.kernels.protocol import align, deviation, plain_space
from mdpf.kernels.quadrature import integrate
from mdpf.noise import Source
from mdpf.spaces import StateSpace, wrap

LOG_TWO_PI = math.log(2 * math.pi)
ROUNDS = 14


class VonMises(NamedTuple):
    r"""The density proportional to :math:`e^{\kappa \cos(x - \mu)}` on the circle.

    Args:
        concentration: Concentrations ``[*batch, d]``, positive; 1e-6 (uniform) to 1e6 (a normal of scale 1e-3) are exact and finite.

    Gradient:
        Densities and distribution functions are smooth in everything and have period 2 pi (the latter up to whole turns).

    Example:
        >>> kernel = VonMises(torch.tensor([10.0]))
        >>> kernel.log_prob(torch.tensor([7.0]), torch.tensor([7.0 - 2 * math.pi])).exp()
        tensor(1.2454)
    """

    concentration: Tensor

    @property
    def state_dim(self) -> int:
        return self.concentration.shape[-1]

    @property
    def space(self) -> StateSpace:
        return plain_space(self.state_dim, angle=True)

    def log_factors(self, x: Tensor, loc: Tensor) -> Tensor:
        delta, concentration = deviation("VonMises.log_prob", x, loc, self.concentration)
        return -2 * concentration * (delta / 2).sin().square() - log_i0e(concentration) - LOG_TWO_PI

    def log_prob(self, x: Tensor, loc: Tensor) -> Tensor:
        return self.log_factors(x, loc).sum(-1)

    def sample(self, loc: Tensor, *, generator: Source = None) -> Tensor:
        concentration = align("VonMises.sample", self.concentration, loc)
        shape = torch.broadcast_shapes(loc.shape, concentration.shape)
        return wrap(loc + draw_deviation(concentration.detach(), shape, loc, generator))

    def variance(self) -> Tensor:
        """The mean square of the deviation, the short way round."""
        concentration = self.concentration
        limit = circle_limit(concentration)

        def moment(angle: Tensor) -> Tensor:
            return angle.square() * (-2 * concentration * (angle / 2).sin().square()).exp()

        mass = math.pi * log_i0e(concentration).exp()
        return integrate(moment, torch.zeros_like(limit), limit) / mass

    def select(self, dims: tuple[int, ...]) -> "VonMises":
        return VonMises(self.concentration[..., list(dims)])


@torch.no_grad()
def draw_deviation(concentration: Tensor, shape: tuple[int, ...], like: Tensor, generator: Source) -> Tensor:
    angle, level = noise.uniform((*shape, 2, ROUNDS), like, generator).unbind(-2)
    h = 0.5 / concentration
    spread = (h + h.square() / (1 + (1 + h.square()).sqrt()))[..., None]
    turn = angle - 0.5
    sine = (math.pi * turn).sin().square()
    proposal = 2 * spread * sine / (spread + 2 * (1 - sine))
    score = concentration[..., None] * (spread + proposal)
    accepted = level < score * (1 - score).exp()
    first = accepted.to(torch.uint8).argmax(-1, keepdim=True)
    versine = proposal.gather(-1, first).squeeze(-1)
    deviation = 2 * (versine / 2).sqrt().clamp_max(1).asin()
    return torch.copysign(deviation, turn.gather(-1, first).squeeze(-1))
