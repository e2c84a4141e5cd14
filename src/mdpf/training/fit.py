"""The loop: epochs of batches, validation, a checkpoint after each epoch."""

import hashlib
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mdpf.checks import DegenerateWeightsError, MdpfWarning
from mdpf.data.sequences import SequenceBatch, epoch_order
from mdpf.recording import Pace, own_stream
from mdpf.training import adam, checkpoint, processes, schedule
from mdpf.training.deadline import Deadline, OutOfTime
from mdpf.training.doors import check_data
from mdpf.training.fingerprint import fingerprint
from mdpf.training.flat import FlatParameters
from mdpf.training.stages import Stage
from mdpf.training.step import PREPARING, Execution, Judgement, Update, choose
from mdpf.training.threads import threads, worthwhile

# Writing a checkpoint is long if it takes more than so many seconds; then this many times as long passes before the next.
LONG_WRITE, SPARING = 0.1, 10.0
# Preparing a stage (compiling, recording) is not begun with fewer seconds left; what is cut off in it is lost.
PREPARATION = {"eager": 0.0, "compiled": 30.0, "captured": 30.0}

# So many degenerate places of an epoch are named.
MOST_PLACES = 100

Watch = Callable[["Epoch"], None]


class Epoch(NamedTuple):
    """What is known after an epoch; losses ``[R]``.

    ``degenerate`` names places where every particle was scored as impossible, as (run, sequence, frame), the first of them only.
    """

    stage: str
    number: int
    epochs: int
    train: list[float]
    validation: list[float]
    norm: list[float]
    skipped: list[float]
    active: list[float]
    seconds: float
    degenerate: list[list[int]]


class Fitted(NamedTuple):
    """The end of a stage: the best parameters of every run, ``[R, P]``, their validation losses, and the history.

    ``preparing`` and ``learning`` are the seconds it took, all calls together.
    """

    values: Tensor
    validation: Tensor
    history: list[dict[str, Any]]
    preparing: float
    learning: float


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
    execution: Execution = "auto",
    until: Deadline | None = None,
    strict: bool = False,
) -> Fitted:
    """Train every run of a stacked filter for one stage; leaves the best parameters of each run in the filter.

    The random numbers of an epoch depend on seed, stage and epoch alone, and a checkpoint holds all the rest: a training that was
    interrupted goes on from the last whole epoch and ends with the numbers of an undisturbed one.

    Where several processes share the work (``training.processes``), each is called with all the data and learns from its share; a
    batch is then as many times as large, and no process may end before the others: leave ``until`` alone.

    Args:
        filter: A filter with a run axis (``models.stack_runs``).
        stage: What to do.
        train: Sequences to learn from.
        validation: Sequences that choose the best epoch.
        num_runs: How many runs the filter holds.
        seed: Of the random numbers.
        path: The checkpoint file; training goes on from it if it is there.
        watch: Is told about every epoch.
        execution: How an update is carried out: ``"eager"``, ``"compiled"`` or ``"captured"``, which give the same numbers up to
            rounding; by default captured on a CUDA device, eager elsewhere.
        until: When time is over by it, the last whole epoch is written and ``OutOfTime`` is raised; the same call goes on.
        strict: Raise after an epoch in which every particle of some frame was scored as impossible, instead of warning once.
    """
    flat = FlatParameters(filter, num_runs)
    device = flat.values.device
    execution = choose(execution, device)
    for name, data in (("training", train), ("validation", validation)):
        check_data("fit", name, data, flat.values)
    state = _State(flat, num_runs)
    recipe = _recipe(filter, stage, seed, flat.values, train, validation)
    processes.wait()
    if path is not None and Path(path).exists():
        state.restore(checkpoint.load(path), recipe, path)

    notes = _Notes(recipe, path, watch, strict)
    if state.goes_on(stage):
        # The stream is this call's own, as recording needs.
        size = (num_runs, min(stage.batch, train.num_sequences), flat.values.shape[1])
        count = worthwhile(*size) if device.type == "cpu" else torch.get_num_threads()
        with own_stream(device), threads(count):
            _train(filter, flat, stage, state, processes.share(train), validation, seed, execution, notes, until or Deadline())
    flat.values.copy_(state.best)
    learning = sum(epoch["seconds"] for epoch in state.history)
    return Fitted(state.best, state.progress.best, state.history, state.preparing, learning)


def _train(
    filter: nn.Module,
    flat: FlatParameters,
    stage: Stage,
    state: "_State",
    train: SequenceBatch,
    validation: SequenceBatch,
    seed: int,
    execution: Execution,
    notes: "_Notes",
    until: Deadline,
) -> None:
    generator = torch.Generator(flat.values.device)
    # The lock is taken here already, so that waiting for others counts neither as preparation nor for nothing.
    with PREPARING:
        until.require(PREPARATION[execution], f"preparing stage {stage.name}")
        began = time.monotonic()
        update = Update(filter, flat, stage, train, state.adam, flat.columns(stage.rates), generator, execution)
        judge = Judgement(filter, stage, validation, len(flat.values), generator, execution)
        state.preparing += time.monotonic() - began
    longest = 0.0
    while state.goes_on(stage):
        if until.left() < longest:
            notes.write(state)
            raise OutOfTime(f"Stage {stage.name} is to go on after epoch {state.epoch} of {stage.epochs}.")
        began = time.monotonic()
        generator.manual_seed(_epoch_seed(seed, stage.name, state.epoch, processes.rank()))
        trained, norm = _train_epoch(update, state, stage, train.num_sequences, generator)
        judged = processes.average(judge())
        trained = processes.average(trained)
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
            degenerate=_places(update.degenerate),
        )
        notes.take(entry, state, last=not state.goes_on(stage))
        longest = max(longest, time.monotonic() - began)


class _Notes:
    """What is written down after an epoch, and who is told.

    Where writing takes long (a large model, a slow disk) not every epoch is written, but so many that writing takes at most a tenth
    of the time.
    """

    def __init__(self, recipe: dict[str, str], path: str | Path | None, watch: Watch | None, strict: bool):
        self._recipe, self._path, self._watch, self._strict = recipe, path, watch, strict
        self._due = 0.0
        self._warned = False

    def take(self, entry: Epoch, state: "_State", *, last: bool) -> None:
        state.history.append(entry._asdict())
        if last or time.monotonic() >= self._due:
            began = time.monotonic()
            self.write(state, finished=last)
            took = time.monotonic() - began
            self._due = time.monotonic() + (SPARING * took if took > LONG_WRITE else 0.0)
        if self._watch is not None:
            self._watch(entry)
        if entry.degenerate:
            self._tell(entry)

    def _tell(self, entry: Epoch) -> None:
        """Say where nothing was possible: as an error, or as a warning, once."""
        run, sequence, frame = entry.degenerate[0]
        text = (
            f"fit needs at least one possible particle at every frame, got none at run {run}, sequence {sequence}, frame {frame}, "
            f"in epoch {entry.number} of stage {entry.stage!r}. The measurement scored every particle as impossible; look at the "
            "observation there, or widen the prior."
        )
        if self._strict:
            raise DegenerateWeightsError(text)
        if not self._warned:
            self._warned = True
            warnings.warn(f"{text} The weights were carried on.", MdpfWarning, stacklevel=5)

    def write(self, state: "_State", *, finished: bool = False) -> None:
        """Write the checkpoint: all that is needed to go on; of a finished stage that is what it found."""
        if self._path is not None and state.epoch and processes.rank() == 0:
            notes = {"recipe": self._recipe, "epoch": state.epoch, "history": state.history, "preparing": state.preparing}
            checkpoint.save(self._path, state.tensors(finished=finished), notes | {"finished": finished})


class _State:
    """What changes while a stage is trained."""

    def __init__(self, flat: FlatParameters, num_runs: int):
        self.values = flat.values
        self.best = flat.values.clone()
        self.adam = adam.start(flat.values)
        self.progress = schedule.start(num_runs)
        self.epoch = 0
        self.history: list[dict[str, Any]] = []
        self.preparing = 0.0

    def goes_on(self, stage: Stage) -> bool:
        return self.epoch < stage.epochs and bool(self.progress.active.any())

    def note(self, losses: Tensor, stage: Stage) -> None:
        better = (losses.cpu().double() < self.progress.best) & (self.progress.active > 0)
        self.best = torch.where(better.to(self.best.device).unsqueeze(-1), self.values, self.best)
        self.progress = schedule.advance(stage.schedule, self.progress, losses.cpu(), self.epoch)
        self.epoch += 1

    def tensors(self, *, finished: bool) -> dict[str, Tensor]:
        parts = {"best": self.best} | {f"progress.{name}": tensor for name, tensor in self.progress._asdict().items()}
        if finished:
            return parts
        return parts | {"values": self.values} | {f"adam.{name}": tensor for name, tensor in self.adam._asdict().items()}

    def restore(self, saved: checkpoint.Checkpoint, recipe: dict[str, str], path: str | Path) -> None:
        theirs = saved.notes.get("recipe", {})
        other = [name for name, digest in recipe.items() if theirs.get(name) != digest]
        if other:
            raise FileExistsError(
                f"fit needs a checkpoint of the same training, got {str(path)!r} of another one: the {' and the '.join(other)} "
                "differ. Choose another folder, or remove that file to start anew."
            )
        tensors = saved.tensors
        self.best = tensors["best"].to(self.best.device)
        self.progress = schedule.Progress(*(tensors[f"progress.{name}"] for name in schedule.Progress._fields))
        self.epoch, self.history, self.preparing = (saved.notes[name] for name in ("epoch", "history", "preparing"))
        if not saved.notes["finished"]:
            self.values.copy_(tensors["values"])
            for name, tensor in self.adam._asdict().items():
                tensor.copy_(tensors[f"adam.{name}"])


def _train_epoch(
    update: Update, state: _State, stage: Stage, num_sequences: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Pass once over the data; every batch is of one size, the last one filled up with sequences that do not count."""
    device, dtype, num_runs = state.values.device, state.values.dtype, len(state.values)
    size = min(stage.batch, num_sequences)
    num_batches = math.ceil(num_sequences / size)
    order = epoch_order(num_sequences, runs=num_runs, generator=generator)
    places = torch.arange(num_batches * size, device=device)
    chosen, counted = order[:, places % num_sequences], places < num_sequences
    shares = [index / num_batches for index in range(num_batches)]
    factors = torch.stack(
        [schedule.batch_factor(stage.schedule, state.progress, state.epoch, share, stage.epochs) for share in shares]
    ).to(device, dtype)
    update.start(state.progress.active.to(device) > 0)
    pace = Pace(device)
    for batch in zip(chosen.split(size, -1), counted.split(size), factors, strict=True):
        update(*batch)
        pace.keep()
    return update.losses / num_batches, update.norms / num_batches


def _places(degenerate: Tensor) -> list[list[int]]:
    """The first places ``(run, sequence, frame)`` of a mask over the frames after the first."""
    found = degenerate.nonzero()[:MOST_PLACES].tolist()
    return [[run, sequence, step + 1] for run, sequence, step in found]


def _recipe(filter: nn.Module, stage: Stage, seed: int, start: Tensor, *data: SequenceBatch) -> dict[str, str]:
    """What must be the same for a checkpoint to fit, in digests."""
    parts = {"stage": stage, "filter": filter, "seed": seed, "start of the parameters": start, "data": data}
    return {name: fingerprint(part) for name, part in parts.items()}


def _epoch_seed(seed: int, stage: str, epoch: int, rank: int) -> int:
    # Processes that share the work need noise of their own; one alone has the numbers it always had.
    share = f"/{rank}" if rank else ""
    digest = hashlib.sha256(f"{seed}/{stage}/{epoch}{share}".encode()).digest()
    return int.from_bytes(digest[:4], "little")
