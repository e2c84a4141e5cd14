"""Take step after step and keep what is wanted of each."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

import torch
from torch import Tensor

from mdpf import noise, trees
from mdpf.checks import check_batch, check_count, describe
from mdpf.filters.belief import Belief, StepInfo, Trajectory
from mdpf.filters.parts import blank, seen
from mdpf.filters.weights import effective_sample_size
from mdpf.mixture import Mixture
from mdpf.models.protocol import Feature
from mdpf.noise import Source

Collect = Callable[[Any, StepInfo], Any]


class AnyBelief(Protocol):
    """What every belief has; the rest is its filter's own business."""

    @property
    def posterior(self) -> Mixture: ...


State = TypeVar("State", bound=AnyBelief)


class Step(Protocol[State]):
    """The ``step`` of a filter."""

    def __call__(
        self,
        belief: State,
        feature: Feature,
        action: Tensor | None = None,
        *,
        observed: Tensor | None = None,
        generator: Source = None,
    ) -> tuple[State, StepInfo]: ...


def collect_trajectory(belief: AnyBelief, info: StepInfo) -> Trajectory:
    """Keep the whole posterior of every step."""
    return Trajectory(belief.posterior, info)


def scan(
    step: Step[State],
    belief: State,
    features: Feature,
    actions: Tensor | None = None,
    *,
    observed: Tensor | None = None,
    valid: Tensor | None = None,
    truncate: int | None = None,
    collect: Collect = collect_trajectory,
    generator: Source = None,
) -> tuple[State, Any]:
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


def _hold(valid: Tensor, old: State, new: State, info: StepInfo) -> tuple[State, StepInfo]:
    """Keep the old belief where the frame does not exist."""
    if new.posterior.num_components != old.posterior.num_components:
        raise ValueError(
            f"scan(valid=...) needs the number of particles to stay the same, got {old.posterior.num_components} before the step "
            f"and {new.posterior.num_components} after it. Start with as many particles as the filter uses."
        )
    ess = effective_sample_size(old.posterior.log_weights)
    quiet = StepInfo(torch.zeros_like(info.log_evidence), ess, torch.zeros_like(info.degenerate))
    held = _hold_belief(valid, old, new) if isinstance(old, Belief) and isinstance(new, Belief) else trees.where(valid, new, old)
    return cast(State, held), trees.where(valid, info, quiet)


def _hold_belief(valid: Tensor, old: Belief, new: Belief) -> Belief:
    posterior = trees.where(valid, new.posterior, old.posterior)
    if new.resampling is new.posterior:
        return Belief(posterior, posterior)
    return Belief(posterior, trees.where(valid, new.resampling, old.posterior if old.resampling is None else old.resampling))


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
