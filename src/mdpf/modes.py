"""How many hypotheses are alive, where they are, and how heavy.

Every component climbs the density by mean shift; components that end on the same summit belong to the same hypothesis, whose
weight is the sum of theirs. The number of summits differs from one batch element to the next, so the answer has room for
``max_modes`` and says how many are used: no host synchronisation, fixed shapes.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from mdpf.checks import check_count, check_positive
from mdpf.mixture import Mixture
from mdpf.ops import log_sum_exp


class Modes(NamedTuple):
    """The live hypotheses of a mixture, heaviest first.

    Shapes:
        ``points``: ``[*batch, max_modes, d]``; ``weights``: ``[*batch, max_modes]``, zero where there is no further mode;
        ``count``: ``[*batch]``, the number of modes that weigh at least ``min_weight``; ``labels``: ``[*batch, n]``, the mode of
        each component, ``-1`` for components of modes beyond ``max_modes``.
    """

    points: Tensor
    weights: Tensor
    count: Tensor
    labels: Tensor


@torch.no_grad()
def find_modes(
    mixture: Mixture, *, max_modes: int = 10, min_weight: float = 0.01, num_steps: int = 50, radius: float = 1.0
) -> Modes:
    """Find the modes of a mixture by mean shift from every component.

    With compact kernels the shift climbs a slightly smoother density than the mixture's own, which merges bumps closer than a
    kernel's width.

    Args:
        mixture: What to look at.
        max_modes: Room for this many modes; lighter ones are left out.
        min_weight: A mode lighter than this is not counted as alive.
        num_steps: Steps of the climb.
        radius: Two summits closer than this, in kernel standard deviations, are one.

    Example:
        >>> import torch, mdpf
        >>> locs = torch.tensor([[-3.0], [-2.9], [3.0]])
        >>> mixture = mdpf.Mixture(locs, torch.full((3,), 1 / 3).log(), mdpf.kernels.Gaussian(torch.tensor([0.5])))
        >>> int(find_modes(mixture).count)
        2
    """
    mixture.check("find_modes")
    check_count("find_modes", max_modes, "max_modes")
    check_count("find_modes", num_steps, "num_steps")
    check_positive("find_modes", radius, "radius")
    kernel, space = mixture.kernel, mixture.space
    summits = mixture.locs
    for _ in range(num_steps):
        joint = mixture.log_weights.unsqueeze(-2) + kernel.log_prob(summits.unsqueeze(-2), mixture.locs.unsqueeze(-3))
        total = log_sum_exp(joint).unsqueeze(-1)
        # Where nothing covers a point (a component without weight, alone), nothing pulls it either.
        covered = total > -torch.inf
        pull = (joint - total.where(covered, 0.0)).exp()
        shifted = space.mean(mixture.locs.unsqueeze(-3).expand(*pull.shape, -1), pull)
        summits = torch.where(covered, shifted, summits)

    width = kernel.variance().sqrt()
    while width.ndim < summits.ndim:
        width = width.unsqueeze(-2)
    height = mixture.log_prob(summits)
    weights = mixture.log_weights.exp()
    labels = torch.full(weights.shape, -1, dtype=torch.long, device=weights.device)
    points, masses = [], []
    for label in range(max_modes):
        highest = height.where(labels < 0, -torch.inf).argmax(-1, keepdim=True)
        summit = summits.gather(-2, highest.unsqueeze(-1).expand(*highest.shape, mixture.state_dim))
        distance = (space.difference(summits, summit.expand_as(summits)) / width).norm(dim=-1)
        members = (labels < 0) & (distance <= radius)
        labels = torch.where(members, label, labels)
        points.append(summit.squeeze(-2))
        masses.append((weights * members).sum(-1))
    return _heaviest_first(torch.stack(points, -2), torch.stack(masses, -1), labels, min_weight)


def _heaviest_first(points: Tensor, masses: Tensor, labels: Tensor, min_weight: float) -> Modes:
    weights, order = masses.sort(dim=-1, descending=True, stable=True)
    points = points.gather(-2, order.unsqueeze(-1).expand_as(points))
    rank = order.argsort(-1)
    renamed = rank.gather(-1, labels.clamp_min(0))
    return Modes(points, weights, (weights >= min_weight).sum(-1), torch.where(labels < 0, labels, renamed))
