"""The few layers that networks here are made of.

Every layer with parameters accepts them with or without a leading run axis: ``[out, in]`` for one network, ``[runs, out, in]`` for
several independent ones evaluated at once on inputs ``[runs, ..., in]``. What users build has none; ``models.runs`` adds it.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

SMALL_LAYER = 64 * 64
TINY_LAYER = 16 * 16


class Linear(nn.Module):
    """An affine map, one for each run if there is a run axis. Starts as torch's own layer does."""

    runs_allowed = True

    def __init__(self, in_dim: int, out_dim: int):
        super().__init__()
        bound = 1 / math.sqrt(in_dim)
        self.weight = nn.Parameter(torch.empty(out_dim, in_dim).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(out_dim).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = matching(self.weight, x), matching(self.bias, x)
        if weight.ndim == 2:
            return nn.functional.linear(x, weight, bias)
        if is_fused(weight):
            return _products(x, weight, bias)
        if has_shares(x, weight):
            return AffineInShares.apply(x, weight, bias)
        return _affine(x, weight, bias)


def _affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    rows = x.reshape(x.shape[0], math.prod(x.shape[1:-1]), x.shape[-1])
    return torch.baddbmm(bias.unsqueeze(-2), rows, weight.mT).reshape(*x.shape[:-1], weight.shape[-2])


def is_fused(weight: Tensor) -> bool:
    """Whether a compiler is at work that makes one loop of a tiny layer and what surrounds it; a call of a library costs more."""
    return weight[0].numel() <= TINY_LAYER and torch.compiler.is_compiling() and not torch.compiler.is_exporting()


def _products(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """An affine map as a sum of products, which a compiler can put into the loops before and after it."""
    alike = (len(x), *[1] * (x.ndim - 2))
    return (x.unsqueeze(-2) * weight.reshape(*alike, *weight.shape[1:])).sum(-1) + bias.reshape(*alike, -1)


def has_shares(x: Tensor, weight: Tensor) -> bool:
    """Whether the gradient of the weights is better added up over batch elements: of small layers of several runs, on a GPU."""
    return x.is_cuda and x.ndim > 3 and x.shape[0] > 1 and weight[0].numel() <= SMALL_LAYER


class AffineInShares(torch.autograd.Function):
    """An affine map for each run, whose weights' gradient is computed for every batch element by itself and then added up.

    With small layers and very many rows, one product for each run keeps one processor of a GPU busy with all rows one after the
    other, while the rest has nothing to do; many small products are done side by side.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return _affine(x, weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:  # noqa: ANN401
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:  # noqa: ANN401
        x, weight = ctx.saved_tensors
        (grad,) = grads
        (runs, batch), rows = x.shape[:2], math.prod(x.shape[2:-1])
        to_x = None
        if ctx.needs_input_grad[0]:
            to_x = torch.bmm(grad.reshape(runs, batch * rows, grad.shape[-1]), weight).reshape(x.shape)
        shares = grad.reshape(runs * batch, rows, grad.shape[-1]), x.reshape(runs * batch, rows, x.shape[-1])
        to_weight = torch.bmm(shares[0].mT, shares[1]).reshape(runs, batch, *weight.shape[1:]).sum(1)
        return to_x, to_weight, grad.reshape(runs, batch * rows, grad.shape[-1]).sum(1)


class PReLU(nn.Module):
    """A rectifier with one learned slope for negative inputs."""

    runs_allowed = True

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(0.25))

    def forward(self, x: Tensor) -> Tensor:
        slope = matching(self.slope, x)
        slope = slope.reshape(slope.shape + (1,) * (x.ndim - slope.ndim))
        return torch.where(x > 0, x, slope * x)


def matching(parameter: Tensor, x: Tensor) -> Tensor:
    """A parameter in the precision of what it is applied to, if that is a reduced one; else as it is."""
    return parameter.to(x.dtype) if x.dtype in (torch.bfloat16, torch.float16) else parameter


def mlp(sizes: Sequence[int], activation: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    """Affine maps with an activation between them and none after the last."""
    layers: list[nn.Module] = []
    for index, (in_dim, out_dim) in enumerate(pairwise(sizes)):
        if index > 0:
            layers.append(activation())
        layers.append(Linear(in_dim, out_dim))
    return nn.Sequential(*layers)
