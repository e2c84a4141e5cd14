r"""The entropy-regularised transport plan from weighted to uniform points, and its derivative.

.. math:: P = \arg\min_P \sum_{ij} P_{ij} \Big( C_{ij} + \varepsilon \log \frac{m P_{ij}}{w_j} \Big), \qquad
          \sum_j P_{ij} = \tfrac{1}{m}, \quad \sum_i P_{ij} = w_j
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mdpf.ops import log_sum_exp

# Where Sinkhorn's iterations have come close, each Newton step squares what is left. More than three find only rounding errors.
NEWTON_STEPS = 3
# In units of the rounding error: keeps the linear system positive where the plan falls into parts that exchange nothing.
RIDGE = 4


class TransportPlan(NamedTuple):
    """How much of each particle goes to each point of the target, and how far that is from being a plan.

    Shapes:
        ``plan``: ``[*batch, m, n]``; each column sums to the particle's weight, up to rounding.
        ``residual``: ``[*batch]``, the distance in L1 of the row sums from ``1/m``, between 0 (converged) and 2.
    """

    plan: Tensor
    residual: Tensor


def transport_plan(
    cost: Tensor, log_weights: Tensor, *, regularization: float, num_iterations: int, scaling: float = 0.9
) -> TransportPlan:
    r"""Solve by a fixed number of Sinkhorn iterations in log space, from a large regularisation down to the wanted one.

    Rows and columns take turns, which converges faster than updating both at once and averaging. A few Newton steps follow, each
    kept only where it helps. Every batch element has its own schedule and none waits for another, so a batch gives what its
    elements give alone.

    Args:
        cost: Cost ``[*batch, m, n]`` of moving mass to target ``i`` from particle ``j``.
        log_weights: Log-weights ``[*batch, n]`` of the particles; normalised here.
        regularization: :math:`\varepsilon`.
        num_iterations: How many times the potentials of rows and columns are updated.
        scaling: The regularisation shrinks by its square at each iteration, faster where half the iterations would not suffice.

    Gradient:
        Of the exact plan, by the implicit function theorem: one linear solve, whose memory does not depend on the number of
        iterations. Accurate to about the residual. First derivatives only.
    """
    log_weights = log_weights.log_softmax(-1)
    with torch.no_grad():
        row = _anneal(cost, log_weights, regularization, num_iterations, scaling)
        for _ in range(NEWTON_STEPS):
            row = _refine(row, cost, log_weights, regularization)
        column = _answer_of_columns(row, cost, regularization)
    plan = _plan(row, column, cost, log_weights, regularization)
    residual = _residual(plan.detach())
    if torch.is_grad_enabled() and plan.requires_grad:
        plan = _hold_marginals(plan, log_weights.exp())
    return TransportPlan(plan, residual)


# Potentials keep the axes of the cost: those of the rows are [*batch, m, 1], those of the columns [*batch, 1, n].


def _plan(row: Tensor, column: Tensor, cost: Tensor, log_weights: Tensor, regularization: float) -> Tensor:
    return (log_weights.unsqueeze(-2) + (row + column - cost) / regularization).exp() / cost.shape[-2]


def _residual(plan: Tensor) -> Tensor:
    return (plan.sum(-1) - 1 / plan.shape[-2]).abs().sum(-1)


def _answer_of_columns(row: Tensor, cost: Tensor, level: Tensor | float) -> Tensor:
    """The potential that gives every column of the plan the right sum."""
    return -level * (log_sum_exp(((row - cost) / level).mT).unsqueeze(-2) - math.log(cost.shape[-2]))


def _answer_of_rows(column: Tensor, cost: Tensor, log_weights: Tensor, level: Tensor | float) -> Tensor:
    """The potential that gives every row of the plan the right sum."""
    return -level * log_sum_exp(log_weights.unsqueeze(-2) + (column - cost) / level).unsqueeze(-1)


def _anneal(cost: Tensor, log_weights: Tensor, regularization: float, num_iterations: int, scaling: float) -> Tensor:
    """The potential of the rows after Sinkhorn's iterations."""
    # Twice the largest half-squared distance is the squared diameter, at which everything is transported everywhere.
    start = (2 * cost.amax((-2, -1), keepdim=True)).clamp_min(regularization)
    decay = (regularization / start).pow(2 / num_iterations).clamp_max(scaling**2)
    row = torch.zeros_like(cost[..., :1])
    for iteration in range(num_iterations):
        level = (start * decay**iteration).clamp_min(regularization)
        row = _answer_of_rows(_answer_of_columns(row, cost, level), cost, log_weights, level)
    return row


def _refine(row: Tensor, cost: Tensor, log_weights: Tensor, regularization: float) -> Tensor:
    """Take one Newton step in each batch element in which it brings the marginals closer."""
    plan = _plan(row, _answer_of_columns(row, cost, regularization), cost, log_weights, regularization)
    change, _ = _balance(plan, plan.sum(-1) - 1 / cost.shape[-2], torch.zeros_like(log_weights))
    # A potential is trusted to change the plan by a factor, not by orders of magnitude.
    change = change / change.abs().amax(-1, keepdim=True).clamp_min(1)
    refined = row + regularization * change.unsqueeze(-1)
    after = _plan(refined, _answer_of_columns(refined, cost, regularization), cost, log_weights, regularization)
    better = _residual(after) < _residual(plan)
    return torch.where(better[..., None, None], refined, row)


def _hold_marginals(plan: Tensor, weights: Tensor) -> Tensor:
    """Leave the values of ``plan``; let its derivative respect the marginals."""
    row_sums, excess = plan.sum(-1), plan.sum(-2) - weights
    row_change, column_change = _balance(plan.detach(), row_sums - row_sums.detach(), excess - excess.detach())
    return plan * (1 + row_change.unsqueeze(-1) + column_change.unsqueeze(-2))


def _balance(plan: Tensor, row_excess: Tensor, column_excess: Tensor) -> tuple[Tensor, Tensor]:
    r"""The relative changes :math:`a` of the rows and :math:`b` of the columns that take small excesses from the marginals.

    .. math:: r_i a_i + \sum_j P_{ij} b_j = -\delta r_i, \qquad \sum_i P_{ij} a_i + c_j b_j = -\delta c_j

    with the row sums :math:`r` and the column sums :math:`c`. Eliminating :math:`a` leaves a symmetric system that is positive but
    for one direction, in which rows grow as much as columns shrink; that leaves the plan as it is, and is filled in.
    """
    tiny, eps = torch.finfo(plan.dtype).tiny, torch.finfo(plan.dtype).eps
    rows, columns = plan.sum(-1), plan.sum(-2)
    row_root, column_root = rows.clamp_min(tiny).rsqrt(), columns.clamp_min(tiny).rsqrt()
    share = plan * row_root.unsqueeze(-1) * column_root.unsqueeze(-2)
    unmoved = columns.sqrt()
    identity = torch.eye(plan.shape[-1], dtype=plan.dtype, device=plan.device)
    system = (1 + RIDGE * eps) * identity - share.mT @ share + unmoved.unsqueeze(-1) * unmoved.unsqueeze(-2)
    factor = torch.linalg.cholesky_ex(system).L  # unlike cholesky, asks the device for no verdict

    right = column_root * (_apply(plan.mT, row_excess * row_root.square()) - column_excess)
    # Twice a triangular solve: torch.cholesky_solve takes memory on the way, which no recording of a graph allows.
    halfway = torch.linalg.solve_triangular(factor, right.unsqueeze(-1), upper=False)
    column_change = column_root * torch.linalg.solve_triangular(factor.mT, halfway, upper=True).squeeze(-1)
    row_change = -row_root.square() * (row_excess + _apply(plan, column_change))
    return row_change, column_change


def _apply(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)
