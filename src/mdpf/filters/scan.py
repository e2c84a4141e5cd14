"""Take step after step and keep what is wanted of each."""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from mdpf import noise, trees
from mdpf.checks import check_batch, check_count, describe
from mdpf.filters.belief import Belief, StepInfo, Trajectory
from mdpf.filters.parts import blank, seen
from mdpf.filters.weights import effective_sample_size
from mdpf.models.protocol import Feature
from mdpf.noise import Source

Collect = Callable[[Belief, StepInfo], Any]


class Step(Protocol):
    """The ``step`` of a filter."""

    def __call__(
        self,
        belief: Belief,
        feature: Feature,
        action: Tensor | None = None,
        *,
        observed: Tensor | None = None,
        generator: Source = None,
    ) -> tuple[Belief, StepInfo]: ...


def collect_trajectory(belief: Belief, info: StepInfo) -> Trajectory:
    """Keep the whole posterior of every step."""
    return Trajectory(belief.posterior, info)


def scan(
    step: Step,
    belief: Belief,
    features: Feature,
    actions: Tensor | None = None,
    *,
    observed: Tensor | None = None,
    valid: Tensor | None = None,
    truncate: int | None = None,
    collect: Collect = collect_trajectory,
    generator: Source = None,
) -> tuple[Belief, Any]:
    """Call ``step`` for every frame of a sequence.

    Args:
        step: The step of a filter.
        belief: What is believed before the first frame.
        features: One feature for each frame, ``[*batch, T, ...]``.
        actions: The action that leads to each frame, ``[*batch, T, a]``.
        observed: Which frames have an observation, ``[*batch, T]``; all by default.
        valid: Which frames exist, ``[*batch, T]``; all by default. A belief stays as it is through frames that do not exist, so
            that sequences of different length share a batch: each has its frames first, and anything, NaN included, behind them.
        truncate: Cut the gradient on entering every ``truncate``-th step after the first.
        collect: What to keep of each step; it is stacked along the time axis.
        generator: The source of random numbers.
    """
    generator = noise.source(generator)
    batch = belief.posterior.batch_shape
    axis = len(batch)
    num_steps = _length(features, axis)
    _check_frames(num_steps, batch, features=features, actions=actions, observed=observed, valid=valid)
    if truncate is not None:
        check_count("scan", truncate, "truncate")
    observed = seen(observed, valid)
    actions = blank(valid, actions)

    def at(value: Feature, t: int) -> Feature:
        return trees.tree_map(lambda tensor: tensor.select(axis, t), value)

    kept = []
    for t in range(num_steps):
        if truncate is not None and t > 0 and t % truncate == 0:
            belief = trees.detach(belief)
        new, info = step(belief, at(features, t), at(actions, t), observed=at(observed, t), generator=generator)
        if valid is not None:
            new, info = _hold(at(valid, t), belief, new, info)
        belief = new
        kept.append(collect(belief, info))
    return belief, trees.stack(kept, axis)


def _hold(valid: Tensor, old: Belief, new: Belief, info: StepInfo) -> tuple[Belief, StepInfo]:
    """Keep the old belief where the frame does not exist."""
    if new.posterior.num_components != old.posterior.num_components:
        raise ValueError(
            f"scan(valid=...) needs the number of particles to stay the same, got {old.posterior.num_components} before the step "
            f"and {new.posterior.num_components} after it. Start with as many particles as the filter uses."
        )
    posterior = trees.where(valid, new.posterior, old.posterior)
    if new.resampling is new.posterior:
        resampling = posterior
    else:
        resampling = trees.where(valid, new.resampling, old.posterior if old.resampling is None else old.resampling)
    ess = effective_sample_size(old.posterior.log_weights)
    quiet = StepInfo(torch.zeros_like(info.log_evidence), ess, torch.zeros_like(info.degenerate))
    return Belief(posterior, resampling), trees.where(valid, info, quiet)


def _length(features: Feature, axis: int) -> int:
    first = next(trees.leaves(features), None)
    if first is None or first.ndim <= axis or first.shape[axis] == 0:
        raise ValueError(
            f"scan needs features with {axis} batch axes and at least one frame on the axis behind them, got {describe(first)}. "
            "The time axis stands right behind the batch axes of the belief."
        )
    return first.shape[axis]


def _check_frames(num_steps: int, batch: torch.Size, **inputs: Feature) -> None:
    for name, value in inputs.items():
        for tensor in trees.leaves(value):
            check_batch("scan", tensor, name, batch, "The batch axes are those of the belief; the time axis stands behind them.")
            if tensor.ndim <= len(batch) or tensor.shape[len(batch)] != num_steps:
                raise ValueError(
                    f"scan needs {name} with {num_steps} frames on axis {len(batch)}, as many as there are features, "
                    f"got {describe(tensor)}. A belief at frame 0 consumes the observations and actions of the frames after it: "
                    "observations[:, 1:], but all actions, for action t leads from frame t to t + 1."
                )
