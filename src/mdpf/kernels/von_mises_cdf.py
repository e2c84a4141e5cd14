r"""The distribution function of the von Mises density, its derivatives, and the derivative of a draw.

Write :math:`v = 1 - \cos` and :math:`\bar v` for its mean. Everything here is an integral relative to the density at its own edge,

.. math:: \int_t^\pi g(s)\, e^{-\kappa (v(s) - v(t))}\, ds ,

with :math:`g = 1` for the mass beyond an angle and :math:`g = \bar v - v` for the derivative of that mass to the concentration.
Both integrals over the whole half circle are known (half the mass; zero), so each is taken on that side of ``t`` where it does
not cancel: from zero in the bulk, to pi in the tail. So it keeps its relative accuracy at every concentration and far out in the
tail.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mdpf.kernels.bessel import inverse_versine, log_i0e, mean_versine, versine
from mdpf.kernels.quadrature import integrate
from mdpf.spaces import TWO_PI

# How many factors of e the tail integral follows the density down.
DEPTH = {torch.float64: 40.0}
SHALLOW = 20.0


def log_density(delta: Tensor, concentration: Tensor) -> Tensor:
    """The log-density of a deviation, of period 2 pi."""
    return -concentration * versine(delta) - log_i0e(concentration) - math.log(TWO_PI)


def _is_bulk(angle: Tensor, concentration: Tensor) -> Tensor:
    return versine(angle.detach()) < mean_versine(concentration.detach())


def _relative_integral(weight: Callable[[Tensor], Tensor], angle: Tensor, concentration: Tensor, bulk: Tensor) -> Tensor:
    """Integrate ``weight`` times the density over that at ``angle``: from zero in the bulk, out to pi in the tail.

    ``weight`` is a function of how much larger the versine is than that at ``angle``.
    """
    depth = DEPTH.get(angle.dtype, SHALLOW)
    far = inverse_versine(versine(angle.detach()) + depth / concentration.detach())
    lower, upper = torch.where(bulk, 0.0, angle), torch.where(bulk, angle, far)

    def integrand(point: Tensor) -> Tensor:
        rise = 2 * ((point - angle) / 2).sin() * ((point + angle) / 2).sin()
        return weight(rise) * (-concentration * rise).exp()

    return integrate(integrand, lower, upper)


def _mass_beyond(angle: Tensor, concentration: Tensor) -> Tensor:
    """The mass between an angle in [0, pi] and pi."""
    bulk = _is_bulk(angle, concentration)
    part = log_density(angle, concentration).exp() * _relative_integral(torch.ones_like, angle, concentration, bulk)
    return torch.where(bulk, 0.5 - part, part)


def _quantile_slope(angle: Tensor, concentration: Tensor) -> Tensor:
    """How the angle in [0, pi] that has a given mass beyond it moves with the concentration."""
    bulk = _is_bulk(angle, concentration)
    deficit = mean_versine(concentration) - versine(angle)
    part = _relative_integral(lambda rise: deficit - rise, angle, concentration, bulk)
    return torch.where(bulk, -part, part)


class _Cdf(torch.autograd.Function):
    """The distribution function by quadrature, its derivatives by closed form and quadrature.

    The backward is made of differentiable operations, so it can be differentiated again.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(delta: Tensor, concentration: Tensor) -> Tensor:
        turns = (delta / TWO_PI).round()
        angle = delta - turns * TWO_PI
        beyond = _mass_beyond(angle.abs(), concentration)
        return turns + torch.where(angle < 0, beyond, 1 - beyond)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:  # noqa: ANN401
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:  # noqa: ANN401
        delta, concentration = ctx.saved_tensors
        flow = grads[0] * log_density(delta, concentration).exp()
        to_delta = flow.sum_to_size(delta.shape)
        if not ctx.needs_input_grad[1]:
            return to_delta, None
        angle = delta - (delta.detach() / TWO_PI).round() * TWO_PI
        slope = -angle.sign() * _quantile_slope(angle.abs(), concentration)
        return to_delta, (flow * slope).sum_to_size(concentration.shape)


class _Draw(torch.autograd.Function):
    """The identity on a drawn deviation; its gradient to the concentration is that of the quantile with the level held fixed."""

    generate_vmap_rule = True

    @staticmethod
    def forward(delta: Tensor, concentration: Tensor) -> Tensor:
        return delta.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:  # noqa: ANN401
        ctx.save_for_backward(output, inputs[1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor | None]:  # noqa: ANN401
        if not ctx.needs_input_grad[1]:
            return None, None
        delta, concentration = ctx.saved_tensors
        slope = delta.sign() * _quantile_slope(delta.abs(), concentration)
        return None, (grads[0] * slope).sum_to_size(concentration.shape)


def cdf(delta: Tensor, concentration: Tensor) -> Tensor:
    """The mass below a deviation, one half at zero and one more with every full turn."""
    return _Cdf.apply(delta, concentration)


def attach(delta: Tensor, concentration: Tensor) -> Tensor:
    """A drawn deviation in [-pi, pi], with its implicit derivative to the concentration attached."""
    return _Draw.apply(delta, concentration)


def variance(concentration: Tensor) -> Tensor:
    """The mean square of the deviation, the short way round."""
    start = torch.zeros_like(concentration)
    reach = inverse_versine(DEPTH.get(concentration.dtype, SHALLOW) / concentration.detach())
    moment = integrate(lambda angle: angle.square() * (-concentration * versine(angle)).exp(), start, reach)
    return moment / (math.pi * log_i0e(concentration).exp())
