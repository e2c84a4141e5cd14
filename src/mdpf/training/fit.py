"""The loop: epochs of batches, validation, a checkpoint after each epoch."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mdpf.data.sequences import SequenceBatch, minibatches
from mdpf.training import adam, checkpoint, schedule
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
    state = _State(flat, num_runs)
    digest = _recipe(stage, seed, num_runs, train, validation)
    if path is not None and Path(path).exists():
        state.restore(checkpoint.load(path), digest, path)
    rates = flat.columns(stage.rates).expand(num_runs, -1)

    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        while state.epoch < stage.epochs and bool(state.progress.active.any()):
            began = time.monotonic()
            torch.manual_seed(_epoch_seed(seed, stage.name, state.epoch))
            trained, norm = _train_epoch(filter, flat, state, stage, train, rates)
            judged = _judge(filter, stage, validation, num_runs)
            state.note(judged, stage)
            entry = Epoch(
                stage.name,
                state.epoch,
                stage.epochs,
                *(row.tolist() for row in (trained, judged, norm, state.adam.skipped, state.progress.active)),
                round(time.monotonic() - began, 2),
            )
            state.history.append(entry._asdict())
            if path is not None:
                checkpoint.save(path, state.tensors(), {"recipe": digest, "epoch": state.epoch, "history": state.history})
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

    def restore(self, saved: checkpoint.Checkpoint, digest: str, path: str | Path) -> None:
        if saved.notes["recipe"] != digest:
            raise FileExistsError(
                f"fit needs a checkpoint of the same stage, data, seed and runs, got {str(path)!r} of another training. "
                "Choose another folder, or remove that file to start anew."
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
    batches = list(minibatches(train, stage.batch, runs=num_runs))
    active = state.progress.active.to(flat.values.device) > 0
    losses, norms = torch.zeros_like(state.adam.updates), torch.zeros_like(state.adam.updates)
    for index, batch in enumerate(batches):
        factor = schedule.batch_factor(stage.schedule, state.progress, state.epoch, index / len(batches), stage.epochs)
        loss = stage.objective(filter, batch)
        loss.sum().backward()
        scaled = rates * factor.to(rates).unsqueeze(-1)
        norms += adam.update(state.adam, flat.values, flat.collect_gradients(), scaled, active, stage.clip, stage.decay)
        losses += loss.detach()
    return losses / len(batches), norms / len(batches)


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


def _recipe(stage: Stage, seed: int, num_runs: int, *data: SequenceBatch) -> str:
    """What must be the same for a checkpoint to fit; the objective is a callable, whose name alone would say nothing reliable."""
    numbers = {name: value for name, value in vars(stage).items() if name != "objective"}
    shapes = [list(batch.states.shape) for batch in data]
    return hashlib.sha256(f"{numbers} {seed} {num_runs} {shapes}".encode()).hexdigest()


def _epoch_seed(seed: int, stage: str, epoch: int) -> int:
    digest = hashlib.sha256(f"{seed}/{stage}/{epoch}".encode()).digest()
    return int.from_bytes(digest[:4], "little")
