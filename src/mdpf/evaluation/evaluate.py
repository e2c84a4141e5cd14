"""How good a filter is on sequences whose states are known."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from mdpf import metrics, noise
from mdpf.checks import DegenerateWeightsError, check_count, check_finite, check_tensor
from mdpf.data.sequences import SequenceBatch, minibatches
from mdpf.filters import AdaptiveParticleFilter, ParticleFilter, RecurrentFilter, Trajectory
from mdpf.metrics import Frames
from mdpf.noise import Source
from mdpf.training.doors import check_inputs

Filter = ParticleFilter | AdaptiveParticleFilter | RecurrentFilter
Look = Callable[[SequenceBatch, Trajectory], None]


class Evaluation(NamedTuple):
    """What an evaluation found.

    Args:
        metrics: The numbers of ``mdpf.metrics`` by name, each ``[*runs]``.
        curves: The same over time, each ``[*runs, T]``.
        degenerate: Where every particle was scored as impossible, as (sequence, frame) or (run, sequence, frame).
        frames: What was measured at every frame of every sequence, ``[*runs, sequence, T]``.
    """

    metrics: dict[str, Tensor]
    curves: dict[str, Tensor]
    degenerate: list[tuple[int, ...]]
    frames: Frames


@torch.no_grad()
def evaluate(
    filter: Filter,
    data: SequenceBatch,
    *,
    prior: Callable[..., Tensor],
    num_particles: int,
    runs: int | None = None,
    limit_lost: float | None = None,
    batch: int = 1000,
    units: Tensor | None = None,
    strict: bool = False,
    look: Look | None = None,
    generator: Source = None,
) -> Evaluation:
    """Filter every sequence from particles around its true start and compare with the truth.

    Args:
        filter: A filter; with a run axis if ``runs`` is given.
        data: Sequences with states, ``[n, T, ...]``.
        prior: Draws initial particles: ``(states, num_particles, *, generator)``.
        num_particles: How many particles to use; any number, whatever the filter was trained with.
        runs: How many runs the filter holds; ``None`` for a filter without a run axis.
        limit_lost: A track whose final position error exceeds this is lost.
        batch: Sequences at a time.
        units: What coordinates are multiplied by before anything is measured, ``[d]``: the units of the metrics and the limit.
        strict: Raise where all weights vanish, instead of carrying on and saying where.
        look: Is shown every portion of the data with its trajectory, which begins at frame 1.
        generator: The source of random numbers.

    Frames without a label, or that do not exist, take no part in the numbers. Every sequence needs a label at frame 0.
    """
    check_tensor("evaluate", data.states, ["sequence", "frame", "state"])
    check_finite("evaluate", data.states, "states")
    check_inputs("evaluate", "", data)
    check_count("evaluate", num_particles, "num_particles")
    generator = noise.source(generator)
    filter.eval()
    parts, degenerate, offset = [], [], 0
    for part in minibatches(data, batch, shuffle=False, runs=runs):
        later = part.frames(1, part.length)
        belief = filter.init(prior(part.states[..., 0, :], num_particles, generator=generator))
        _, trajectory = filter(
            belief, later.observations, part.actions, observed=later.observed, valid=later.valid, generator=generator
        )
        initial, posterior, states = belief.posterior, trajectory.posterior, part.states
        if units is not None:
            initial, posterior, states = metrics.rescaled(initial, units), metrics.rescaled(posterior, units), states * units
        parts.append(metrics.measure(initial, posterior, states))
        for *run, sequence, step in trajectory.info.degenerate.nonzero().tolist():
            degenerate.append((*run, sequence + offset, step + 1))
        if look is not None:
            look(part, trajectory)
        offset += part.num_sequences
    if strict and degenerate:
        *_, sequence, frame = degenerate[0]
        raise DegenerateWeightsError(
            f"evaluate needs at least one possible particle at every frame, got none at sequence {sequence}, frame {frame}. "
            "The measurement scored every particle as impossible; widen the prior, or look at the observation there."
        )
    frames = Frames(*(torch.cat(tensors, -2) for tensors in zip(*parts, strict=True)))
    known = None if data.valid is None and data.labelled is None else data.targets.expand(frames.nll.shape)
    found = metrics.summarise(frames, valid=known, limit=limit_lost)
    return Evaluation(found, metrics.curves(frames, valid=known), degenerate, frames)
