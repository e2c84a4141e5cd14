"""The loop: epochs of batches, validation, a checkpoint after each epoch."""

import hashlib
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mdpf.data.sequences import SequenceBatch, minibatches
from mdpf.training import adam, checkpoint, schedule
from mdpf.training.doors import check_data
from mdpf.training.fingerprint import fingerprint
from mdpf.training.flat import FlatParameters
from mdpf.training.stages import Stage

Watch = Callable[["Epoch"], None]


class Epoch(NamedTuple):
    """What is known after an epoch; losses ``[R]``."""

    stage: str
    number: int
    epochs: int
    train: list[float]
    validation: list[float]
    norm: list[float]
    skipped: list[float]
    active: list[float]
    seconds: float


class Fitted(NamedTuple):
    """The end of a stage: the best parameters of every run, ``[R, P]``, their validation losses, and the history."""

    values: Tensor
    validation: Tensor
    history: list[dict[str, Any]]


def fit(
    filter: nn.Module,
    stage: Stage,
    train: SequenceBatch,
    validation: SequenceBatch,
    *,
    num_runs: int,
    seed: int,
    path: str | Path | None = None,
    watch: Watch | None = None,
) -> Fitted:
    """Train every run of a stacked filter for one stage; leaves the best parameters of each run in the filter.

    The random numbers of an epoch depend on seed, stage and epoch alone, and a checkpoint holds all the rest: a training that was
    interrupted goes on from the last whole epoch and ends with the numbers of an undisturbed one.

    Args:
        filter: A filter with a run axis (``models.stack_runs``).
        stage: What to do.
        train: Sequences to learn from.
        validation: Sequences that choose the best epoch.
        num_runs: How many runs the filter holds.
        seed: Of the random numbers.
        path: The checkpoint file; training goes on from it if it is there.
        watch: Is told about every epoch.
    """
    flat = FlatParameters(filter, num_runs)
    for name, data in (("training", train), ("validation", validation)):
        check_data("fit", name, data, flat.values)
    columns = flat.columns(stage.rates)
    state = _State(flat, num_runs)
    recipe = _recipe(filter, stage, seed, flat.values, train, validation)
    if path is not None and Path(path).exists():
        state.restore(checkpoint.load(path), recipe, path)
    rates = columns.expand(num_runs, -1)

    with flat.learning(columns), torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        while state.epoch < stage.epochs and bool(state.progress.active.any()):
            began = time.monotonic()
            torch.manual_seed(_epoch_seed(seed, stage.name, state.epoch))
            trained, norm = _train_epoch(filter, flat, state, stage, train, rates)
            judged = _judge(filter, stage, validation, num_runs)
            state.note(judged, stage)
            entry = Epoch(
                stage=stage.name,
                number=state.epoch,
                epochs=stage.epochs,
                train=trained.tolist(),
                validation=judged.tolist(),
                norm=norm.tolist(),
                skipped=state.adam.skipped.tolist(),
                active=state.progress.active.tolist(),
                seconds=round(time.monotonic() - began, 2),
            )
            state.history.append(entry._asdict())
            if path is not None:
                checkpoint.save(path, state.tensors(), {"recipe": recipe, "epoch": state.epoch, "history": state.history})
            if watch is not None:
                watch(entry)
    flat.values.copy_(state.best)
    return Fitted(state.best, state.progress.best, state.history)


class _State:
    """What changes while a stage is trained."""

    def __init__(self, flat: FlatParameters, num_runs: int):
        self.values = flat.values
        self.best = flat.values.clone()
        self.adam = adam.start(flat.values)
        self.progress = schedule.start(num_runs)
        self.epoch = 0
        self.history: list[dict[str, Any]] = []

    def note(self, losses: Tensor, stage: Stage) -> None:
        better = (losses.cpu().double() < self.progress.best) & (self.progress.active > 0)
        self.best = torch.where(better.to(self.best.device).unsqueeze(-1), self.values, self.best)
        self.progress = schedule.advance(stage.schedule, self.progress, losses.cpu(), self.epoch)
        self.epoch += 1

    def tensors(self) -> dict[str, Tensor]:
        parts = {"values": self.values, "best": self.best}
        parts |= {f"adam.{name}": tensor for name, tensor in self.adam._asdict().items()}
        return parts | {f"progress.{name}": tensor for name, tensor in self.progress._asdict().items()}

    def restore(self, saved: checkpoint.Checkpoint, recipe: dict[str, str], path: str | Path) -> None:
        theirs = saved.notes.get("recipe", {})
        other = [name for name, digest in recipe.items() if theirs.get(name) != digest]
        if other:
            raise FileExistsError(
                f"fit needs a checkpoint of the same training, got {str(path)!r} of another one: the {' and the '.join(other)} "
                "differ. Choose another folder, or remove that file to start anew."
            )
        tensors = saved.tensors
        self.values.copy_(tensors["values"])
        self.best = tensors["best"].to(self.best.device)
        for name, tensor in self.adam._asdict().items():
            tensor.copy_(tensors[f"adam.{name}"])
        self.progress = schedule.Progress(*(tensors[f"progress.{name}"] for name in schedule.Progress._fields))
        self.epoch, self.history = saved.notes["epoch"], saved.notes["history"]


def _train_epoch(
    filter: nn.Module, flat: FlatParameters, state: _State, stage: Stage, train: SequenceBatch, rates: Tensor
) -> tuple[Tensor, Tensor]:
    filter.train()
    num_runs = len(flat.values)
    num_batches = math.ceil(train.num_sequences / stage.batch)
    active = state.progress.active.to(flat.values.device) > 0
    losses, norms = torch.zeros_like(state.adam.updates), torch.zeros_like(state.adam.updates)
    for index, batch in enumerate(minibatches(train, stage.batch, runs=num_runs)):
        factor = schedule.batch_factor(stage.schedule, state.progress, state.epoch, index / num_batches, stage.epochs)
        loss = stage.objective(filter, batch)
        if not loss.requires_grad:
            raise ValueError(
                f"fit needs an objective that depends on what learns, got one in stage {stage.name!r} that does not depend on "
                f"{sorted(stage.rates)}. Give rates to the parts that the objective uses."
            )
        loss.sum().backward()
        scaled = rates * factor.to(rates).unsqueeze(-1)
        norms += adam.update(state.adam, flat.values, flat.collect_gradients(), scaled, active, stage.clip, stage.decay)
        losses += loss.detach()
    return losses / num_batches, norms / num_batches


@torch.no_grad()
def _judge(filter: nn.Module, stage: Stage, validation: SequenceBatch, num_runs: int) -> Tensor:
    """The objective on the validation data: every run sees all of it."""
    filter.eval()
    total, count = 0.0, 0
    for batch in minibatches(validation, stage.validation_batch, shuffle=False, runs=num_runs):
        size = batch.num_sequences
        total = total + stage.objective(filter, batch) * size
        count += size
    return torch.as_tensor(total / count)


def _recipe(filter: nn.Module, stage: Stage, seed: int, start: Tensor, *data: SequenceBatch) -> dict[str, str]:
    """What must be the same for a checkpoint to fit, in digests."""
    parts = {"stage": stage, "filter": filter, "seed": seed, "start of the parameters": start, "data": data}
    return {name: fingerprint(part) for name, part in parts.items()}


def _epoch_seed(seed: int, stage: str, epoch: int) -> int:
    digest = hashlib.sha256(f"{seed}/{stage}/{epoch}".encode()).digest()
    return int.from_bytes(digest[:4], "little")
