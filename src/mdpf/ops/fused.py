"""The fused implementation for CUDA: a few Triton programs, memory linear in the number of points.

Both sides are packed and the density evaluated in one pass; the backward pass recomputes the responsibilities and takes the
gradients of the components, and those of the queries if they are wanted. Nothing waits for the host, so a step that calls this can
be captured.
"""

from typing import Any

import torch
from torch import Tensor

from mdpf.ops import programs
from mdpf.ops.binary import LN_2, LOG2_E, units
from mdpf.ops.operator import Gradients, register

# How many points a program owns at most, how many of the other side it takes at a time, and with how many warps.
OWN = 256
GROUP = 16
POINTS_PER_WARP = 64


def _padded(count: int) -> int:
    """Room for a whole number of groups, and for a whole program where there are fewer points than one owns."""
    own = _own(count)
    return -(-max(count, 1) // own) * own


def _own(count: int) -> int:
    return max(32, min(OWN, 1 << (max(count, 1) - 1).bit_length()))


def _code(kinds: str) -> int:
    return sum(programs.CODES[kind] << (2 * dim) for dim, kind in enumerate(kinds))


def _pack(points: Tensor, first: Tensor, second: Tensor, first_default: float, kinds: str) -> Tensor:
    batch, count, dims = points.shape
    padded = _padded(count)
    rows = points.new_empty(batch, 2 * dims + 2, padded)
    if batch:
        pack: Any = programs.pack
        launch = pack[(batch * -(-padded // OWN),)]
        arguments = (points.contiguous(), first.contiguous(), second.contiguous(), rows, count, padded, first_default)
        launch(*arguments, D=dims, KINDS=_code(kinds), BLOCK=OWN, enable_fp_fusion=True)
    return rows


def _launch(program: Any, owners: Tensor, *arguments: Tensor | int, kinds: str) -> None:  # noqa: ANN401
    """Run one program for every ``OWN`` packed points of the owning side."""
    padded = owners.shape[-1]
    own = _own(padded)
    if len(owners):
        launch = program[(len(owners) * (padded // own),)]
        shape = {"OWN": own, "GROUP": GROUP, "num_warps": max(1, own // POINTS_PER_WARP)}
        launch(*arguments, D=len(kinds), KINDS=_code(kinds), **shape, enable_fp_fusion=True)


def _forward(x: Tensor, locs: Tensor, log_weights: Tensor, parameters: Tensor, kinds: str) -> Tensor:
    parameters = parameters * units(kinds, like=x)
    out = x.new_empty(x.shape[:2])
    queries = _pack(x, out, out, 0.0, kinds)
    components = _pack(locs, log_weights * LOG2_E, log_weights, -torch.inf, kinds)
    sizes = (x.shape[1], queries.shape[-1], components.shape[-1])
    _launch(programs.log_prob, queries, queries, components, parameters, out, *sizes, kinds=kinds)
    return out


def _backward(
    grad: Tensor,
    outcome: Tensor,
    x: Tensor,
    locs: Tensor,
    log_weights: Tensor,
    parameters: Tensor,
    kinds: str,
    with_x: bool,
) -> Gradients:
    unit = units(kinds, like=x)
    scaled = parameters * unit
    defined = outcome.isfinite()
    # The share of minus infinity: queries without a density, and those that only fill the last group, weigh nothing.
    outcome, grad = torch.where(defined, outcome * LOG2_E, torch.inf), torch.where(defined, grad * LN_2, 0)
    queries = _pack(x, outcome, grad, torch.inf, kinds)
    components = _pack(locs, log_weights * LOG2_E, log_weights, -torch.inf, kinds)
    to_locs, to_log_weights = torch.empty_like(locs), torch.empty_like(log_weights)
    padded = (queries.shape[-1], components.shape[-1])
    partial = parameters.new_empty(len(x), padded[1] // _own(padded[1]), len(kinds))
    targets = (to_locs, to_log_weights, partial)
    _launch(programs.to_components, components, queries, components, scaled, *targets, locs.shape[1], *padded, kinds=kinds)
    to_x = torch.empty_like(x) if with_x else x.new_empty(0)
    if with_x:
        _launch(programs.to_queries, queries, queries, components, scaled, to_x, x.shape[1], *padded, kinds=kinds)
    return to_x, to_locs, to_log_weights * LOG2_E, partial.sum(1) * unit


relative_log_prob = register("mixture_fused", _forward, _backward)
