r"""The numbers people report: errors of every frame first, sums over frames and sequences last.

``measure`` looks at beliefs and keeps a few numbers per frame, so that a data set can be gone through in batches; ``summarise``
makes the reported metrics of them.

=================  ============================================================================================================
name               what it is
=================  ============================================================================================================
``nll``            :math:`-\log m(x)`, mean over all frames after the initial one; infinite if any truth is covered by no kernel
``nll_paper``      :math:`-\log(m(x) + 10^{-8})`, frame 0 included, there with bandwidth 0.001; mean over frames, then sequences
``rmse``           root of the mean squared error over all frames after the initial one, angle in radians included
``rmse_paper``     the same root for each sequence, frame 0 included; then the mean over sequences
``position_rmse``  as ``rmse``, linear coordinates alone
``angle_rmse``     as ``rmse``, angles alone, in radians
``lost``           share of sequences whose final position error exceeds a limit
``ess``            mean effective sample size of the weights after the initial frame
``outside``        share of frames after the initial one at which no kernel covers the truth
=================  ============================================================================================================
"""

from typing import NamedTuple

import torch
from torch import Tensor

from mdpf.checks import check_batch, check_tensor, describe
from mdpf.filters.weights import effective_sample_size
from mdpf.kernels import Product, VonMises
from mdpf.kernels.protocol import Kernel
from mdpf.losses import check_target, negative_log_likelihood
from mdpf.mixture import Mixture

FLOOR = 1e-8
INITIAL_BANDWIDTH = 1e-3


class Frames(NamedTuple):
    """What was measured at every frame, the initial one included; each ``[*batch, T]``.

    Args:
        nll: Negative log-density of the truth.
        nll_paper: The same with the density's floor, and with a narrow kernel at frame 0.
        squared_position_error: Over the linear coordinates, of the mean state.
        squared_angle_error: Over the angles, in radians squared, of the mean state.
        ess: The effective sample size.
        outside: Whether no kernel covers the truth.
    """

    nll: Tensor
    nll_paper: Tensor
    squared_position_error: Tensor
    squared_angle_error: Tensor
    ess: Tensor
    outside: Tensor

    @property
    def squared_error(self) -> Tensor:
        """Over all coordinates: position and angle added up as they are."""
        return self.squared_position_error + self.squared_angle_error


@torch.no_grad()
def measure(initial: Mixture, posterior: Mixture, states: Tensor) -> Frames:
    """Compare beliefs with the truth, frame by frame.

    Args:
        initial: The belief at frame 0, ``[*batch]``.
        posterior: The posterior of a trajectory, ``[*batch, T - 1]``: frames 1 to T - 1.
        states: The true states of all frames, ``[*batch, T, d]``.

    Example:
        >>> from mdpf.kernels import Gaussian
        >>> kernel = Gaussian(torch.ones(1))
        >>> initial = Mixture(torch.zeros(1, 1), torch.zeros(1), kernel)
        >>> posterior = Mixture(torch.ones(2, 1, 1), torch.zeros(2, 1), kernel)
        >>> measure(initial, posterior, torch.zeros(3, 1)).squared_error
        tensor([0., 1., 1.])
    """
    check_tensor("measure", states, ["frame", posterior.state_dim], "The true states of all frames, the initial one included.")
    check_target("measure", initial, states[..., 0, :])
    check_target("measure", posterior, states[..., 1:, :])
    start = _measure(initial, states[..., 0, :])
    narrow = initial._replace(kernel=narrowed(initial.kernel))
    start = start._replace(nll_paper=negative_log_likelihood(narrow, states[..., 0, :], background=FLOOR))
    later = _measure(posterior, states[..., 1:, :])
    return Frames(*(torch.cat([first.unsqueeze(-1), rest], -1) for first, rest in zip(start, later, strict=True)))


def _measure(posterior: Mixture, target: Tensor) -> Frames:
    squares = posterior.space.difference(posterior.mean(), target).square().unbind(-1)
    zero = torch.zeros_like(squares[0])
    nll = negative_log_likelihood(posterior, target)
    return Frames(
        nll=nll,
        nll_paper=-torch.logaddexp(-nll, torch.full_like(nll, FLOOR).log()),
        squared_position_error=sum((squares[dim] for dim in posterior.space.linear), zero),
        squared_angle_error=sum((squares[dim] for dim in posterior.space.angular), zero),
        ess=effective_sample_size(posterior.log_weights),
        outside=(nll == torch.inf).to(nll.dtype),
    )


def narrowed(kernel: Kernel) -> Kernel:
    """The same kernel with a bandwidth of 0.001 in every coordinate, as a scale; as a concentration it is the inverse."""
    if isinstance(kernel, Product):
        return Product(tuple(narrowed(part) for part in kernel.parts))
    value = 1 / INITIAL_BANDWIDTH if isinstance(kernel, VonMises) else INITIAL_BANDWIDTH
    return type(kernel)(*(torch.full_like(parameter, value) for parameter in kernel))  # type: ignore[call-arg,attr-defined]


def rescaled(posterior: Mixture, factors: Tensor) -> Mixture:
    """The same belief in other units: every coordinate multiplied by its factor, ``[d]``; that of an angle is one."""

    def kernel(part: Kernel, factor: Tensor) -> Kernel:
        if isinstance(part, VonMises):
            return part
        return type(part)(*(parameter * factor for parameter in part))  # type: ignore[call-arg,attr-defined]

    if isinstance(posterior.kernel, Product):
        sizes = [part.state_dim for part in posterior.kernel.parts]
        parts = zip(posterior.kernel.parts, factors.split(sizes), strict=True)
        return posterior._replace(locs=posterior.locs * factors, kernel=Product(tuple(kernel(*part) for part in parts)))
    return posterior._replace(locs=posterior.locs * factors, kernel=kernel(posterior.kernel, factors))


def summarise(frames: Frames, *, valid: Tensor | None = None, limit: float | None = None) -> dict[str, Tensor]:
    """Reduce sequences and frames to the metrics of the table above.

    Args:
        frames: What ``measure`` found, ``[*batch, sequence, T]``; join batches along the sequence axis before.
        valid: Which frames exist and count, ``[*batch, sequence, T]``; all by default. Every sequence has its frame 0 and another.
        limit: The position error at the last frame beyond which a sequence counts as lost; without it there is no ``lost``.

    Shapes:
        Every metric is ``[*batch]``.
    """
    check_tensor("summarise", frames.nll, ["sequence", "frame"], "Give frames of several sequences, [sequence, T].")
    valid = _mask(valid, frames.nll)
    after = valid.clone()
    after[..., 0] = False

    def over_frames(values: Tensor) -> Tensor:
        return _mean(values, after, (-2, -1))

    found = {
        "nll": over_frames(frames.nll),
        "nll_paper": _mean(frames.nll_paper, valid, -1).mean(-1),
        "rmse": over_frames(frames.squared_error).sqrt(),
        "rmse_paper": _mean(frames.squared_error, valid, -1).sqrt().mean(-1),
        "position_rmse": over_frames(frames.squared_position_error).sqrt(),
        "angle_rmse": over_frames(frames.squared_angle_error).sqrt(),
        "ess": over_frames(frames.ess),
        "outside": over_frames(frames.outside),
    }
    if limit is not None:
        final = (valid * torch.arange(valid.shape[-1], device=valid.device)).argmax(-1, keepdim=True)
        error = frames.squared_position_error.gather(-1, final).squeeze(-1).sqrt()
        found["lost"] = (error > limit).to(error.dtype).mean(-1)
    return found


def curves(frames: Frames, *, valid: Tensor | None = None) -> dict[str, Tensor]:
    """Reduce sequences alone: how error, likelihood and effective sample size go over time, ``[*batch, T]`` each."""
    valid = _mask(valid, frames.nll)
    squares = {
        "rmse": frames.squared_error,
        "position_rmse": frames.squared_position_error,
        "angle_rmse": frames.squared_angle_error,
    }
    means = {"nll": frames.nll, "nll_paper": frames.nll_paper, "ess": frames.ess, "outside": frames.outside}
    return {name: _mean(values, valid, -2).sqrt() for name, values in squares.items()} | {
        name: _mean(values, valid, -2) for name, values in means.items()
    }


def _mean(values: Tensor, mask: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    """The mean of what the mask admits; what it does not may be anything."""
    return values.where(mask, 0.0).sum(dim) / mask.sum(dim)


def _mask(valid: Tensor | None, like: Tensor) -> Tensor:
    if valid is None:
        return torch.ones_like(like, dtype=torch.bool)
    check_batch("summarise", valid, "valid", tuple(like.shape))
    if valid.dtype != torch.bool:
        raise TypeError(f"summarise needs valid to be a bool tensor, got {describe(valid)}. Convert it with .bool().")
    return valid
