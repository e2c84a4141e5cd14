"""What a tracker for recorded sequences is built from: everything that the data decide before training starts.

Networks see standardised numbers, dynamics start from a least-squares fit of the recorded motion, kernels and initial clouds from
the size of that motion. All of it is numbers that JSON can hold, so that a file of weights says how to build its filter.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mdpf.data.sequences import SequenceBatch
from mdpf.models import MotionFeatures, ScaledSpace
from mdpf.spaces import StateSpace

NEVER_LESS = 1e-6  # Of a spread, relative to the size of the numbers: what never changes is not divided by nothing.
RIDGE = 1e-3  # Relative to the variance of a feature.
WORTH_LOOKING = 0.02  # A linear coordinate is shown to the dynamics if it explains this share of what the rest leaves open.
WIDEST_STEP = 4.0  # A step is bounded by so many times the largest that was recorded.
LOST = 0.1  # A track counts as lost if it ends further from the truth than this share of the recorded extent.
SMALLEST_ANGLE, LARGEST_ANGLE = 0.05, 0.5  # Of a starting cloud or kernel, in radians.
NARROWEST, WIDEST = 0.02, 0.15  # Of a starting cloud or kernel, relative to the spread of the recorded states.

Numbers = tuple[float, ...]


@dataclass(frozen=True)
class Blueprint:
    """Everything about a filter that the data decide; angles in radians, all else in the units of the file.

    Args:
        space: The coordinates, as JSON.
        observation: The shape of one observation.
        image: Whether that is an image in bytes.
        action_dim: Numbers per action.
        offset: The mean of each linear coordinate.
        scale: Its standard deviation.
        observation_mean: Of each number of an observation; empty for images.
        observation_scale: Its standard deviation.
        action_mean: Of each number of an action.
        action_scale: Its standard deviation.
        looks_at: Which linear coordinates help to predict the next step.
        step: The root mean square of the step of each coordinate; the unit of the dynamics.
        drift: The linear motion, one row for each coordinate, in that unit.
        drift_bias: Its constant.
        noise: What the linear motion leaves, in that unit.
        bound: The largest step of each coordinate.
        start: The width of the cloud around a known state; for an angle the inverse of its concentration.
        bandwidth: The width that the kernel starts with, likewise.
        low: The smallest recorded value of each coordinate.
        high: The largest.
        limit_lost: The final position error beyond which a track counts as lost.
    """

    space: str
    observation: tuple[int, ...]
    image: bool
    action_dim: int
    offset: Numbers
    scale: Numbers
    observation_mean: Numbers
    observation_scale: Numbers
    action_mean: Numbers
    action_scale: Numbers
    looks_at: tuple[int, ...]
    step: Numbers
    drift: tuple[Numbers, ...]
    drift_bias: Numbers
    noise: Numbers
    bound: Numbers
    start: Numbers
    bandwidth: Numbers
    low: Numbers
    high: Numbers
    limit_lost: float

    @property
    def state_space(self) -> StateSpace:
        return StateSpace.from_json(self.space)

    @property
    def scaled_space(self) -> ScaledSpace:
        return ScaledSpace(self.state_space, self.offset, self.scale)

    @property
    def features(self) -> MotionFeatures:
        """What the dynamics predict a step from."""
        return MotionFeatures(self.scaled_space, self.looks_at, self.action_dim)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> "Blueprint":
        """Read what ``to_json`` wrote."""

        def revived(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
            return tuple(revived(part) for part in value) if isinstance(value, list) else value

        try:
            return Blueprint(**{name: revived(value) for name, value in content.items()})
        except TypeError as error:
            raise ValueError(f"Blueprint.from_json needs what mdpf wrote, got {error}. It is of another version.") from error

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON holds it."""
        return json.loads(json.dumps(asdict(self)))


def derive(data: SequenceBatch, held_out: SequenceBatch, space: StateSpace) -> Blueprint:
    """Look at sequences to learn from, and at others to judge by, and decide.

    Args:
        data: Sequences to learn from, ``[n, T, ...]``.
        held_out: Sequences that judge which coordinates help to predict a step.
        space: The coordinates of their states.
    """
    known = data.states[data.targets].double()
    low, high = known.amin(0), known.amax(0)
    linear = list(space.linear)
    scale = known.std(0, unbiased=False)
    scale = torch.maximum(scale, NEVER_LESS * known.abs().amax(0).clamp_min(1))
    observation_mean, observation_scale = _observations(data)
    action_mean, action_scale = _actions(data)
    scaled = ScaledSpace(space, _numbers(known.mean(0)[linear]), _numbers(scale[linear]))
    standard = (action_mean, action_scale)

    steps, others = _steps(data, space), _steps(held_out, space)
    motion = _motion(scaled, standard, steps, others, data.actions is not None)
    angular = torch.tensor([coordinate.angle for coordinate in space.coordinates])

    def widths(wanted: Tensor) -> Numbers:
        least = torch.where(angular, torch.full_like(scale, SMALLEST_ANGLE), NARROWEST * scale)
        most = torch.where(angular, torch.full_like(scale, LARGEST_ANGLE), WIDEST * scale)
        width = torch.minimum(torch.maximum(wanted, least), most)
        return _numbers(torch.where(angular, width.square(), width))

    extent = (high - low)[linear]
    return Blueprint(
        space=space.to_json(),
        observation=tuple(data.observations.shape[2:]),
        image=data.observations.dtype == torch.uint8,
        action_dim=0 if data.actions is None else data.actions.shape[-1],
        offset=scaled.offset,
        scale=scaled.scale,
        observation_mean=observation_mean,
        observation_scale=observation_scale,
        action_mean=_numbers(action_mean),
        action_scale=_numbers(action_scale),
        looks_at=motion.looks_at,
        step=_numbers(motion.step),
        drift=tuple(_numbers(row) for row in motion.weight),
        drift_bias=_numbers(motion.bias),
        noise=_numbers(motion.noise),
        bound=_numbers(torch.where(angular, motion.largest.clamp_max(math.pi), motion.largest)),
        start=widths(motion.step),
        # Every resampling adds the kernel's variance to that of the motion: it should not outweigh what is known of that.
        bandwidth=widths(motion.step * motion.noise.clamp_max(1).sqrt()),
        low=_numbers(torch.where(angular, torch.full_like(low, -math.pi), low)),
        high=_numbers(torch.where(angular, torch.full_like(high, math.pi), high)),
        limit_lost=float(LOST * extent.norm()) if len(linear) else LOST,
    )


class _Steps(NamedTuple):
    """Recorded steps: from where, by how much, and the mean action in between, ``[m, ...]``; over how many frames."""

    start: Tensor
    step: Tensor
    action: Tensor | None
    frames: int


def _steps(data: SequenceBatch, space: StateSpace) -> _Steps:
    """The steps between known states as close to each other as there are; over several frames, their share of one."""
    known, length = data.targets, data.length
    for frames in range(1, length):
        both = known[:, frames:] & known[:, :-frames]
        if bool(both.any()):
            break
    else:
        nothing = data.states.new_zeros(0, space.dim).double()
        actions = None if data.actions is None else data.actions.new_zeros(0, data.actions.shape[-1]).double()
        return _Steps(nothing, nothing, actions, 1)
    start, end = data.states[:, :-frames][both].double(), data.states[:, frames:][both].double()
    action = None
    if data.actions is not None:
        total = data.actions.double().cumsum(1)
        total = torch.cat([torch.zeros_like(total[:, :1]), total], 1)
        action = ((total[:, frames:] - total[:, :-frames]) / frames)[both]
    return _Steps(start, space.difference(end, start) / frames, action, frames)


class _Motion(NamedTuple):
    looks_at: tuple[int, ...]
    step: Tensor
    weight: Tensor
    bias: Tensor
    noise: Tensor
    largest: Tensor


def _motion(space: ScaledSpace, standard: tuple[Tensor, Tensor], steps: _Steps, others: _Steps, acts: bool) -> _Motion:
    """Fit the linear motion, with those linear coordinates that help."""
    dim = space.dim
    if len(steps.step) == 0:
        raise ValueError(
            "Training needs two known states in some sequence, got at most one in each. Steps cannot be learned from single "
            "states; label more frames."
        )
    size = steps.step.square().mean(0).sqrt()
    unit = torch.maximum(size, NEVER_LESS * steps.start.abs().amax(0).clamp_min(1))
    action_dim = 0 if steps.action is None else steps.action.shape[-1]

    def rows(looks_at: tuple[int, ...], of: _Steps) -> Tensor:
        features = MotionFeatures(space, looks_at, action_dim)
        action = None if of.action is None else (of.action - standard[0]) / standard[1]
        found = features(of.start, action)
        return torch.cat([found, torch.ones(len(found), 1, dtype=found.dtype)], -1)

    def left(looks_at: tuple[int, ...]) -> Tensor:
        weight = _least_squares(rows(looks_at, steps), steps.step / unit)
        return (others.step / unit - rows(looks_at, others) @ weight).square().mean(0)

    looks_at: tuple[int, ...] = ()
    candidates = set(range(len(space.linear))) if len(others.step) else set()
    open_part = left(looks_at) if candidates else torch.ones(dim)
    # The most helpful first: what only goes along with it then has nothing left to explain.
    while candidates:
        shares = {place: (left((*looks_at, place)) / open_part).min() for place in candidates}
        best = min(candidates, key=lambda place: float(shares[place]))
        if float(shares[best]) >= 1 - WORTH_LOOKING:
            break
        candidates.remove(best)
        looks_at = (*looks_at, best)
        open_part = left(looks_at)
    looks_at = tuple(sorted(looks_at))
    features = rows(looks_at, steps)
    solved = _least_squares(features, steps.step / unit)
    residual = steps.step / unit - features @ solved
    # Over several frames noise adds up like a walk: one frame has its share of the variance.
    noise = residual.square().mean(0).sqrt() * math.sqrt(steps.frames)
    largest = WIDEST_STEP * torch.maximum(steps.step.abs().amax(0), unit)
    return _Motion(looks_at, unit, solved[:-1].mT, solved[-1], noise.clamp_min(1e-2), largest)


def _least_squares(features: Tensor, targets: Tensor) -> Tensor:
    """A ridge regression whose last feature is the constant, which is left free."""
    penalty = RIDGE * features.square().sum(0)
    penalty[-1] = 0.0
    gram = features.mT @ features + torch.diag(penalty + 1e-12)
    return torch.linalg.solve(gram, features.mT @ targets)


def _observations(data: SequenceBatch) -> tuple[Numbers, Numbers]:
    if data.observations.dtype == torch.uint8:
        return (), ()
    mask = torch.ones_like(data.targets) if data.valid is None else data.valid
    mask = mask if data.observed is None else mask & data.observed
    seen = data.observations[mask].flatten(1).double()
    if len(seen) == 0:
        raise ValueError(
            "Training needs observations, got none in any sequence. Check `observed`, `valid` and NaNs in observations."
        )
    scale = torch.maximum(seen.std(0, unbiased=False), NEVER_LESS * seen.abs().amax(0).clamp_min(1))
    return _numbers(seen.mean(0)), _numbers(scale)


def _actions(data: SequenceBatch) -> tuple[Tensor, Tensor]:
    if data.actions is None:
        return torch.zeros(0, dtype=torch.float64), torch.ones(0, dtype=torch.float64)
    mask = torch.ones_like(data.targets[:, 1:]) if data.valid is None else data.valid[:, 1:]
    done = data.actions[mask].double()
    # The middle stays where it is: without an action nothing should happen.
    scale = torch.maximum(done.square().mean(0).sqrt(), torch.full_like(done[0], NEVER_LESS))
    return torch.zeros_like(scale), scale


def _numbers(values: Tensor) -> Numbers:
    return tuple(float(value) for value in values)
