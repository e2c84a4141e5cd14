r"""Which components are drawn: log-weights to ancestor indices.

Every rule gives component :math:`i` an expected count of :math:`n w_i`; they differ in the variance of the counts. All of them
invert the cumulative weights, so a draw is a search and needs no loop, no host synchronisation and no gradient.

``multinomial`` draws independently, as in the paper's experiments; ``stratified`` puts one draw in each of ``n`` equal strata,
``systematic`` uses one number for all strata, ``residual`` keeps the whole part of :math:`n w_i` and draws the rest.
"""

from typing import Protocol

import torch
from torch import Tensor

from mdpf import noise
from mdpf.checks import check_count, check_tensor
from mdpf.noise import Source


class Selection(Protocol):
    """``[*batch, n]`` log-weights to ``[*batch, num_samples]`` indices."""

    def __call__(self, log_weights: Tensor, num_samples: int, *, generator: Source = None) -> Tensor: ...


def _probabilities(name: str, log_weights: Tensor, num_samples: int) -> Tensor:
    check_tensor(f"selection.{name}", log_weights, ["component"])
    check_count(f"selection.{name}", num_samples, "num_samples")
    return log_weights.detach().softmax(-1).contiguous()


def _invert(weights: Tensor, levels: Tensor) -> Tensor:
    """The first component whose cumulative weight exceeds each level in [0, 1).

    Rounding can leave the last cumulative weight below a level, and trailing components may weigh nothing; scaling by the total
    and clamping to the last component of positive weight keep an impossible component from ever being drawn.
    """
    cumulative = weights.cumsum(-1)
    total = cumulative[..., -1:]
    index = torch.searchsorted(cumulative, (levels * total).contiguous(), right=True)
    last = (cumulative >= total).to(torch.uint8).argmax(-1, keepdim=True)
    return torch.minimum(index, last)


def multinomial(log_weights: Tensor, num_samples: int, *, generator: Source = None) -> Tensor:
    """Draw every component independently."""
    weights = _probabilities("multinomial", log_weights, num_samples)
    levels = noise.uniform((*weights.shape[:-1], num_samples), weights, generator)
    return _invert(weights, levels)


def stratified(log_weights: Tensor, num_samples: int, *, generator: Source = None) -> Tensor:
    """Draw one component from each of ``num_samples`` equal strata."""
    weights = _probabilities("stratified", log_weights, num_samples)
    jitter = noise.uniform((*weights.shape[:-1], num_samples), weights, generator)
    return _invert(weights, _strata(jitter, num_samples))


def systematic(log_weights: Tensor, num_samples: int, *, generator: Source = None) -> Tensor:
    """Draw with one random offset shared by all strata."""
    weights = _probabilities("systematic", log_weights, num_samples)
    jitter = noise.uniform((*weights.shape[:-1], 1), weights, generator)
    return _invert(weights, _strata(jitter, num_samples))


def _strata(jitter: Tensor, num_samples: int) -> Tensor:
    starts = torch.arange(num_samples, dtype=jitter.dtype, device=jitter.device)
    return (starts + jitter) / num_samples


def residual(log_weights: Tensor, num_samples: int, *, generator: Source = None) -> Tensor:
    r"""Keep :math:`\lfloor n w_i \rfloor` copies of each component and draw the rest from what is left."""
    weights = _probabilities("residual", log_weights, num_samples)
    levels = noise.uniform((*weights.shape[:-1], num_samples), weights, generator)
    scaled = weights * num_samples
    # n * w is often a whole number up to rounding; just below one it must not lose its copy.
    copies = (scaled * (1 + 8 * torch.finfo(weights.dtype).eps)).floor()
    kept = copies.cumsum(-1)
    positions = torch.arange(num_samples, dtype=weights.dtype, device=weights.device).expand_as(levels).contiguous()
    fixed = torch.searchsorted(kept, positions, right=True)
    rest = (scaled - copies).clamp_min(0)
    # Where nothing is left to draw, the drawn indices are not used; the weights stand in to keep them defined.
    rest = torch.where(rest.sum(-1, keepdim=True) > 0, rest, weights)
    return torch.where(positions < kept[..., -1:], fixed.clamp_max(weights.shape[-1] - 1), _invert(rest, levels))
