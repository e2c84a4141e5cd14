"""How learning rates change from epoch to epoch, for every run on its own."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mdpf.training.stages import Cosine, Plateau


class Progress(NamedTuple):
    """What a schedule remembers of each run; every tensor ``[R]``, in double precision.

    ``factor``: the learning rate relative to the first. ``best``: the lowest validation loss so far. ``reference``, ``bad``,
    ``cooldown``: of the reduction on a plateau. ``stop_best``, ``stop_bad``, ``restarts``: of the early end. ``active``: one while
    the run still learns.
    """

    factor: Tensor
    best: Tensor
    reference: Tensor
    bad: Tensor
    cooldown: Tensor
    stop_best: Tensor
    stop_bad: Tensor
    restarts: Tensor
    active: Tensor


def start(num_runs: int) -> Progress:
    """The state before the first epoch."""
    zero, infinite = torch.zeros(num_runs, dtype=torch.float64), torch.full((num_runs,), math.inf, dtype=torch.float64)
    one = torch.ones(num_runs, dtype=torch.float64)
    return Progress(one, infinite, infinite, zero, zero, infinite, zero, zero, one)


def batch_factor(schedule: Plateau | Cosine, progress: Progress, epoch: int, share: float, epochs: int) -> Tensor:
    """The learning rate of every run relative to the first, ``share`` of the way through an epoch: ``[R]``."""
    if isinstance(schedule, Plateau):
        return progress.factor
    time = epoch + share
    rise = min(1.0, (time + 1e-3) / schedule.warmup) if schedule.warmup > 0 else 1.0
    fall = schedule.final + (1 - schedule.final) * (1 + math.cos(math.pi * min(1.0, time / epochs))) / 2
    return torch.full_like(progress.factor, rise * fall)


def advance(schedule: Plateau | Cosine, progress: Progress, losses: Tensor, epoch: int) -> Progress:
    """Take note of the validation losses ``[R]`` after an epoch. A loss that is not a number counts as no improvement."""
    losses = losses.to(torch.float64)
    losses = torch.where(losses.isnan(), math.inf, losses)
    active = progress.active > 0
    best = torch.where(active, torch.minimum(progress.best, losses), progress.best)
    if isinstance(schedule, Cosine):
        return progress._replace(best=best)

    improved = losses < progress.reference - schedule.threshold * progress.reference.abs().nan_to_num(posinf=0.0)
    improved |= torch.isinf(progress.reference) & torch.isfinite(losses)
    cooling = progress.cooldown > 0
    bad = torch.where(improved | cooling, 0.0, progress.bad + 1)
    drop = bad > schedule.patience
    factor = torch.where(drop, (progress.factor * schedule.factor).clamp_min(schedule.minimum), progress.factor)

    counts = epoch >= schedule.stop_offset
    better = losses < progress.stop_best
    stop_bad = torch.where(better, 0.0, progress.stop_bad + 1) if counts else progress.stop_bad
    stop_best = torch.minimum(progress.stop_best, losses) if counts else progress.stop_best
    granted = drop & (progress.restarts < schedule.restarts)
    stop_bad = torch.where(granted, 0.0, stop_bad)
    new = Progress(
        factor=factor,
        best=best,
        reference=torch.where(improved, losses, progress.reference),
        bad=torch.where(drop, 0.0, bad),
        cooldown=torch.where(drop, float(schedule.cooldown), (progress.cooldown - 1).clamp_min(0)),
        stop_best=stop_best,
        stop_bad=stop_bad,
        restarts=progress.restarts + granted,
        active=(stop_bad < schedule.stop_patience).to(torch.float64) * progress.active,
    )
    return Progress(*(torch.where(active, after, before) for after, before in zip(new, progress, strict=True)))
