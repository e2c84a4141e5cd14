"""The few layers that networks here are made of.

Every layer with parameters accepts them with or without a leading run axis: ``[out, in]`` for one network, ``[runs, out, in]`` for
several independent ones evaluated at once on inputs ``[runs, ..., in]``. What users build has none; ``models.runs`` adds it.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn


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
        rows = x.reshape(x.shape[0], math.prod(x.shape[1:-1]), x.shape[-1])
        return torch.baddbmm(bias.unsqueeze(-2), rows, weight.mT).reshape(*x.shape[:-1], weight.shape[-2])


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
