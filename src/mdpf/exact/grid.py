"""The grid filter: the belief of any scalar model, by the trapezoid rule.

For smooth densities that vanish at both ends of the grid the trapezoid rule converges faster than any power of the spacing, so a
few points per standard deviation give many digits. It assumes nothing about the model and serves as the truth for those that do.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from mdpf.checks import check_batch, check_tensor
from mdpf.ops.logsumexp import log_sum_exp

LogTransition = Callable[[Tensor, Tensor, Tensor | None], Tensor]
LogLikelihood = Callable[[Tensor, Tensor], Tensor]


class GridTrajectory(NamedTuple):
    """Log-densities [*batch, T, g] of the filtered beliefs of frames 1 to T, their means and the log-evidence, both [*batch, T]."""

    log_densities: Tensor
    means: Tensor
    log_evidence: Tensor


def grid_filter(
    grid: Tensor,
    log_prior: Tensor,
    log_transition: LogTransition,
    log_likelihood: LogLikelihood,
    observations: Tensor,
    actions: Tensor | None = None,
) -> GridTrajectory:
    """Filter by numerical integration.

    Args:
        grid: Points in increasing order; wide enough that the belief vanishes at both ends, fine enough to resolve it.
        log_prior: Log-density of the belief at frame 0 at the points of the grid.
        log_transition: ``(arrival, departure, action) -> log p(arrival | departure, action)``, called with arrivals [g, 1],
            departures [1, g] and the action [*batch, 1, 1, a], so that ``action[..., 0]`` broadcasts against both.
        log_likelihood: ``(points, observation) -> log p(observation | point)``, called with points [g] and the observation
            [*batch, 1, k].
        observations: What was measured at frames 1 to T.
        actions: What led to frames 1 to T.

    Shapes:
        grid [g], log_prior [*batch, g] or [g], observations [*batch, T, k], actions [*batch, T, a].

    Gradient:
        That of the integrals, through whatever the two callables depend on.
    """
    check_tensor("grid_filter", observations, ("T", "k"))
    batch, num_steps = observations.shape[:-2], observations.shape[-2]
    if actions is not None:
        check_tensor("grid_filter", actions, (num_steps, "a"), "One action leads to each observation.")
        check_batch("grid_filter", actions, "actions", batch)
    log_spacing = trapezoid_weights(grid).log()
    log_density = log_prior.expand(*batch, -1)
    densities, evidence = [], []
    for t in range(num_steps):
        action = None if actions is None else actions[..., t, None, None, :]
        log_kernel = log_transition(grid[:, None], grid[None, :], action)
        predicted = log_sum_exp(log_kernel + (log_density + log_spacing)[..., None, :])
        log_joint = predicted + log_likelihood(grid, observations[..., t, None, :])
        log_evidence = log_sum_exp(log_joint + log_spacing)
        log_density = log_joint - log_evidence[..., None]
        densities.append(log_density)
        evidence.append(log_evidence)
    log_densities = torch.stack(densities, -2)
    means = ((log_densities + log_spacing).exp() * grid).sum(-1)
    return GridTrajectory(log_densities, means, torch.stack(evidence, -1))


def trapezoid_weights(grid: Tensor) -> Tensor:
    """The weight of each point in the trapezoid rule.

    Example:
        >>> trapezoid_weights(torch.tensor([0.0, 1.0, 3.0]))
        tensor([0.5000, 1.5000, 1.0000])
    """
    check_tensor("trapezoid_weights", grid, ("g",))
    steps = grid.diff()
    zero = grid.new_zeros(1)
    return (torch.cat((steps, zero)) + torch.cat((zero, steps))) / 2
