"""What training minimises: a posterior and the true state in, one number for each batch element and frame out."""

import math

import torch
from torch import Tensor

from mdpf.checks import check_batch, check_same_kind, check_tensor
from mdpf.mixture import Mixture


def negative_log_likelihood(posterior: Mixture, target: Tensor, *, background: float = 0.0) -> Tensor:
    r"""How surprising the truth is, :math:`-\log(m(x) + b)`.

    Args:
        posterior: The densities, ``[*batch, n]``; the posterior of a trajectory has batch axes ``[*batch, T]``.
        target: The true states, ``[*batch, d]``.
        background: A constant density :math:`b` that is added, in units of one over the volume of the state's units. Zero for
            kernels with infinite support. With compact kernels the loss of a truth that no kernel covers is infinite and has no
            gradient; a small background bounds it.

    Shapes:
        Returns ``[*batch]``, not reduced.

    Example:
        >>> from mdpf.kernels import Gaussian
        >>> posterior = Mixture(torch.zeros(4, 1, 1), torch.zeros(4, 1), Gaussian(torch.ones(1)))
        >>> negative_log_likelihood(posterior, torch.zeros(4, 1))
        tensor([0.9189, 0.9189, 0.9189, 0.9189])
    """
    check_target("negative_log_likelihood", posterior, target)
    if not 0 <= background < math.inf:
        raise ValueError(f"negative_log_likelihood needs a background of at least 0, got {background}. It is a density.")
    log_density = posterior.log_prob(target.unsqueeze(-2)).squeeze(-1)
    if background == 0:
        return -log_density
    return -torch.logaddexp(log_density, torch.full_like(log_density, math.log(background)))


def squared_error(posterior: Mixture, target: Tensor) -> Tensor:
    """The squared distance of the mean state from the truth, summed over coordinates; angles the short way round, in radians.

    Coordinates are not weighed against each other: a radian counts as much as a unit of length.

    Shapes:
        ``posterior``: batch axes ``[*batch]``; ``target``: ``[*batch, d]``; returns ``[*batch]``, not reduced.
    """
    check_target("squared_error", posterior, target)
    return posterior.space.difference(posterior.mean(), target).square().sum(-1)


def check_target(call: str, posterior: Mixture, target: Tensor) -> None:
    """Check that there is one true state for each posterior."""
    check_tensor(call, target, [posterior.state_dim], "One true state for each posterior.")
    check_batch(
        call, target, "target", posterior.batch_shape, "One true state for each frame after the initial one: states[:, 1:]."
    )
    if target.ndim != len(posterior.batch_shape) + 1:
        raise ValueError(
            f"{call} needs target of shape {[*posterior.batch_shape, posterior.state_dim]}, got {list(target.shape)}. "
            "One true state for each posterior; average over several yourself."
        )
    check_same_kind(call, posterior=posterior.locs, target=target)
