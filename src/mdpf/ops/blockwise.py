"""Blocks of pairs in the cache: memory for one block, whatever the number of pairs.

Forward, a block costs a matrix product for the scores, their largest, an exponential and a sum. The backward pass computes scores
relative to the known outcome, so that their exponentials are the responsibilities, and one more product, their moments. Only at
queries so far out that the outcome has no digits left for that is the largest score of each looked for again.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mdpf.ops import deviations, features
from mdpf.ops.binary import LN_2, LOG2_E, units
from mdpf.ops.blocks import Block
from mdpf.ops.operator import Gradients, register
from mdpf.ops.pairs import Pairs

# So many powers of two above the smallest normal number, a product with a gradient or a coordinate is still a normal one.
HEADROOM = 26


def _forward(x: Tensor, locs: Tensor, log_weights: Tensor, parameters: Tensor, kinds: str) -> Tensor:
    pairs = Pairs.of(x, locs, log_weights, parameters, kinds)
    peak, total = x.new_empty(x.shape[:2]), x.new_empty(x.shape[:2])
    for block in pairs.buffers.walk():
        scores = pairs.scores(block)
        highest = torch.amax(scores, -1, out=peak[block])
        # Subtracting minus infinity would leave NaN where no kernel covers the query.
        highest.clamp_min_(torch.finfo(x.dtype).min)
        torch.sum(_power_of_two_(scores.sub_(highest.unsqueeze(-1))), -1, out=total[block])
    return total.log2_().add_(peak).mul_(LN_2)


def _power_of_two_(scores: Tensor) -> Tensor:
    """Exponentiate scores of at most about zero, in place; what is too small to count in any sum becomes zero.

    A denormal number, even in a product, costs a processor fifty times as much as another.
    """
    lowest = math.log2(torch.finfo(scores.dtype).tiny) + HEADROOM
    return torch.threshold_(scores, lowest, -torch.inf).exp2_()


class Sums(NamedTuple):
    """What the backward pass adds up, block by block.

    Args:
        weights: The gradient of every query, divided by what its responsibilities sum to after rounding, ``[b, m]``. Only so do the
            large terms of the expansion cancel.
        moments: Of the query's rows under gradient and responsibility, ``[b, k, n]``.
        means: Of the component's rows under the responsibilities, ``[b, m, k]``; empty without a gradient to the queries.
        to_locs: ``[b, d, n]``.
        to_parameters: ``[b, d]``.
        to_x: ``[b, d, m]``, or empty.
    """

    weights: Tensor
    moments: Tensor
    means: Tensor
    to_locs: Tensor
    to_parameters: Tensor
    to_x: Tensor

    @staticmethod
    def start(pairs: Pairs, grad: Tensor, with_x: bool) -> "Sums":
        query, component = pairs.expanded.query, pairs.expanded.component
        means = query.new_empty(query.mT.shape if with_x else 0)
        to_x = pairs.x.new_zeros(pairs.x.shape if with_x else 0)
        zeros = (torch.zeros_like(each) for each in (component, pairs.locs, pairs.parameters))
        moments, to_locs, to_parameters = zeros
        return Sums(grad.to(query.dtype, copy=True), moments, means, to_locs, to_parameters, to_x)


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
    pairs = Pairs.of(x, locs, log_weights, parameters, kinds)
    defined = outcome.isfinite()
    grad = torch.where(defined, grad, 0) * LN_2
    rows = pairs.expanded.query.clone()
    pairs.expanded.query[:, -2].sub_(torch.where(defined, outcome * LOG2_E, torch.inf))
    sums = Sums.start(pairs, grad, with_x)
    rough = _is_rough(outcome, defined)
    for block in pairs.buffers.walk():
        scores = pairs.scores(block)
        if rough:
            scores.sub_(scores.amax(-1, keepdim=True).clamp_min_(torch.finfo(x.dtype).min))
        probabilities = _power_of_two_(scores)
        _add_expanded(sums, pairs, block, probabilities, rows, with_x)
        for dim in pairs.direct:
            _add_direct(sums, pairs, block, dim, probabilities, with_x)
    _finish_expanded(sums, pairs, rows, grad, with_x)
    to_log_weights = sums.moments[:, -1].to(x.dtype) * LOG2_E
    to_x = sums.to_x.mT.contiguous() if with_x else sums.to_x
    return to_x, sums.to_locs.mT.contiguous(), to_log_weights, sums.to_parameters * units(kinds, like=x)


def _is_rough(outcome: Tensor, defined: Tensor) -> bool:
    """Whether outcomes are so large that rounding moves them by whole powers of two; always where looking would wait for a device.

    Scores relative to such an outcome are relative to nothing: their exponentials overflow, or vanish altogether, until the largest
    of each query is set to zero.
    """
    if outcome.device.type != "cpu" or outcome.numel() == 0:
        return True
    return outcome.where(defined, 0.0).abs().amax().item() > 1 / torch.finfo(outcome.dtype).eps


def _add_expanded(sums: Sums, pairs: Pairs, block: Block, probabilities: Tensor, rows: Tensor, with_x: bool) -> None:
    if pairs.is_mixed:
        probabilities = pairs.buffers.views(block)[3].copy_(probabilities)
    weights = sums.weights[block].div_(probabilities.sum(-1).clamp_min_(torch.finfo(pairs.x.dtype).tiny))
    sums.moments[block.batch].baddbmm_(rows[block.batch, :, block.rows] * weights.unsqueeze(1), probabilities)
    if with_x:
        torch.bmm(probabilities, pairs.expanded.component[block.batch].mT, out=sums.means[block])


def _add_direct(sums: Sums, pairs: Pairs, block: Block, dim: int, probabilities: Tensor, with_x: bool) -> None:
    slopes, weights = pairs.buffers.views(block)[2], sums.weights[block].to(pairs.x.dtype)
    by_parameter = deviations.pull_back(pairs.kinds[dim], *pairs.deviation(block, dim), probabilities, slopes)
    sums.to_parameters[block.batch, dim] += (by_parameter * weights).sum(-1)
    sums.to_locs[block.batch, dim, None].baddbmm_(weights.unsqueeze(1), slopes, alpha=-1)
    if with_x:
        torch.mul(slopes.sum(-1), weights, out=sums.to_x[block.batch, dim, block.rows])


def _finish_expanded(sums: Sums, pairs: Pairs, rows: Tensor, grad: Tensor, with_x: bool) -> None:
    expanded = pairs.expanded
    squares = (rows.square() * grad.unsqueeze(1)).sum(-1)
    for dim, (to_locs, to_parameter) in features.pull_back(expanded, sums.moments, squares, pairs.parameters, pairs.kinds).items():
        sums.to_locs[:, dim] = to_locs
        sums.to_parameters[:, dim] = to_parameter
    if with_x:
        for dim, to_x in features.pull_back_to_queries(expanded, sums.means, sums.weights, pairs.parameters, pairs.kinds).items():
            sums.to_x[:, dim] = to_x


relative_log_prob = register("mixture_blockwise", _forward, _backward)
