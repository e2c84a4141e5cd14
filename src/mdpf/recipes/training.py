"""From the name of a method to its trained filter: what every study and every file of sequences has in common.

A method says which stages it goes through (``methods.METHODS``); here is what these stages are, given networks, data, a place to
start from, and a preset that says how long and how fast.
"""

import copy
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mdpf import losses
from mdpf.data.sequences import SequenceBatch
from mdpf.evaluation.evaluate import Filter
from mdpf.models import stack_runs, take_run
from mdpf.recipes.methods import METHODS, Networks
from mdpf.training.deadline import Deadline
from mdpf.training.fit import Fitted, Watch, fit
from mdpf.training.objectives import Disturbed, Loss, Scoring, Tracking
from mdpf.training.stages import Cosine, Objective, Plateau, Stage
from mdpf.training.step import PREPARING

Prior = Callable[..., Tensor]

# What several methods that are trained at once have in common is made by one of them, while the others wait.
SHARING = threading.RLock()
_FOLDERS: dict[Path, threading.RLock] = {}  # A lock for each folder with a first stage.


@dataclass(frozen=True)
class Preset:
    """How long and how fast to train.

    Args:
        rate: The learning rate of a full stage on the likelihood; refinement uses a fifth of it, bandwidths a share of their own.
        error_rate: The same on the squared error.
        bandwidth_share: The learning rate of bandwidths, relative to that of networks.
        epochs: Passes over the data in a full stage.
        measurement_epochs: In the first stage of the measurement model alone.
        measurement_rate: Its learning rate.
        short_epochs: In the stages that refine, or fit only the bandwidth.
        schedule: How rates fall.
        recurrent_rate: The learning rate of the recurrent network on the squared error, by default that of everybody: deep layers
            stand smaller steps than the small networks of a filter.
        starts: In the first stage each run has so many random starts, and goes on from the one with the lowest validation loss: of
            networks a few numbers wide many do not get far.
    """

    rate: float
    error_rate: float
    bandwidth_share: float
    epochs: int
    measurement_epochs: int
    measurement_rate: float
    short_epochs: int
    schedule: Plateau | Cosine
    recurrent_rate: float | None = None
    starts: int = 1


@dataclass(frozen=True)
class Training:
    """Every choice of a training but its data.

    Args:
        method: One of ``methods.METHODS``.
        networks: What its filter is made of.
        prior: Draws initial particles: ``(states, num_particles, *, generator)``.
        scoring: What the first stage, of the measurement model alone, minimises.
        preset: How long and how fast.
        runs: How many independent runs, trained at once.
        seed: Of everything random.
        particles: How many.
        truncate: Steps between cuts of the gradient.
        batch: Sequences in a batch.
        background: A density that is added to every likelihood that is learned from; compact kernels need one.
        clip: The largest norm of a run's gradient, but in the first stage.
        disturb: Changes every batch at random, ``(batch, *, generator)``, before it is learned from.
        pretrained: Whether there is a first stage of the measurement model alone, for methods that have one.
        decay: Weight decay in the first stage.
        first_runs: Runs of the first stage, of which the first ones go on; as many as ``runs`` by default. So methods with fewer
            runs have the first stage of the others.
        held_out_bandwidth: Fit the bandwidth of trained networks on the sequences that choose the best epoch. Where there are few
            sequences networks err less on those they learned from, and a bandwidth fitted there is too narrow for all others.
    """

    method: str
    networks: Networks
    prior: Prior
    scoring: Scoring
    preset: Preset
    runs: int = 1
    seed: int = 0
    particles: int = 25
    truncate: int | None = 4
    batch: int = 64
    background: float = 0.0
    clip: float = 100.0
    disturb: Callable[..., SequenceBatch] | None = None
    pretrained: bool = True
    decay: float = 1e-3
    first_runs: int | None = None
    held_out_bandwidth: bool = False


def stages(training: Training) -> dict[str, Stage]:
    """All stages that methods are made of, by name."""
    preset = training.preset
    likelihood: Loss = losses.negative_log_likelihood
    if training.background:
        likelihood = partial(likelihood, background=training.background)

    def seen(objective: Objective) -> Objective:
        return objective if training.disturb is None else Disturbed(objective, training.disturb)

    def tracking(loss: Loss, name: str, rate: float, epochs: int) -> Stage:
        objective = seen(Tracking(loss, training.prior, training.particles, training.truncate))
        bandwidth = rate * preset.bandwidth_share
        rates = {"": rate, "bandwidth": bandwidth}
        if METHODS[training.method].starts_from is not None:
            rates["resampling_bandwidth"] = bandwidth
        return Stage(name, objective, rates, epochs, preset.schedule, training.batch, clip=training.clip)

    first = {"encoder": preset.measurement_rate, "measurement": preset.measurement_rate}
    schedule = preset.schedule
    if isinstance(schedule, Plateau):
        schedule = replace(schedule, cooldown=5, minimum=1e-3, stop_patience=26, stop_offset=60)
    # Alone a bandwidth can learn faster than networks do; the published schedule has it learn as fast.
    alone = 1 if isinstance(preset.schedule, Plateau) else 5
    error_rate = preset.error_rate
    if training.method == "LSTM" and preset.recurrent_rate is not None:
        error_rate = preset.recurrent_rate
    fitted = tracking(likelihood, "bandwidth", preset.error_rate, preset.short_epochs)
    return {
        "measurement": Stage(
            "measurement", seen(training.scoring), first, preset.measurement_epochs, schedule, training.batch, decay=training.decay
        ),
        "likelihood": tracking(likelihood, "likelihood", preset.rate, preset.epochs),
        "refinement": tracking(losses.squared_error, "refinement", preset.rate / 5, preset.short_epochs),
        "error": replace(
            tracking(losses.squared_error, "error", error_rate, preset.epochs),
            rates={"": error_rate, "bandwidth": 0.0},
        ),
        "bandwidth": replace(fitted, rates={"bandwidth": alone * preset.error_rate}),
    }


class Trained(NamedTuple):
    """A method's filter after every stage, with all runs, and what each stage took: preparing it and learning, in seconds."""

    filters: dict[str, Filter]
    seconds: dict[str, float]


def build(training: Training, *, device: str | torch.device = "cpu") -> Filter:
    """The untrained filter with all its runs; each run's parameters depend on its own seed alone."""
    runs = []
    # Layers are initialised from the one generator that belongs to everybody: nobody else may draw meanwhile.
    with PREPARING, torch.random.fork_rng(devices=()):
        for run in range(training.runs):
            torch.default_generator.manual_seed(1000 * training.seed + run)
            runs.append(METHODS[training.method].build(training.networks))
    return stack_runs(runs).to(device)


def train(
    training: Training,
    data: SequenceBatch,
    validation: SequenceBatch,
    work: Path,
    *,
    last: str | None = None,
    watch: Watch | None = None,
    until: Deadline | None = None,
) -> Trained:
    """Train a method on the device of the data.

    Args:
        training: What to train, and how.
        data: Sequences to learn from.
        validation: Sequences that choose the best epoch.
        work: For checkpoints, from which an interrupted training goes on: one folder for each method.
        last: The stage to end with; the last one of the method by default.
        watch: Is told about every epoch.
        until: Where this time does not suffice, all is written and ``OutOfTime`` is raised.
    """
    method, device, known = METHODS[training.method], data.states.device, stages(training)
    seconds: dict[str, float] = {}

    def learn(filter: Filter, name: str, folder: str, runs: int = training.runs) -> Fitted:
        path = work / folder / f"{name}.safetensors"
        options: dict[str, Any] = {"num_runs": runs, "seed": training.seed, "path": path}
        parts = data, validation
        if name == "measurement":
            # It looks at single frames.
            parts = data.labelled_frames(), validation.labelled_frames()
        if name == "bandwidth" and training.held_out_bandwidth:
            # As many updates as on all the data.
            more = math.ceil(known[name].epochs * data.num_sequences / validation.num_sequences)
            known[name], parts = replace(known[name], epochs=more), (validation, validation)
        found = fit(filter, known[name], *parts, watch=watch, until=until, **options)
        seconds.update({f"{name}, preparing": found.preparing, name: found.learning})
        return found

    filter = build(training, device=device)
    if method.starts_from is not None:
        first = replace(training, method=method.starts_from)
        stage = METHODS[method.starts_from].reported["default"]
        earlier = train(first, data, validation, work, last=stage, watch=watch, until=until)
        adopt(filter, earlier.filters[stage])
    done: dict[str, Filter] = {}
    for name in method.stages:
        if name == "measurement" and not training.pretrained:
            continue
        if name == "measurement":
            # With one seed it comes out the same for every method: it is learned once, by the first who needs it.
            with _sharing(work):
                common = training.first_runs or training.runs
                tried = replace(training, method="TG-PF", runs=training.preset.starts * common)
                other = build(tried, device=device)
                found = learn(other, name, "measurement", tried.runs)
            adopt_measurement(filter, _best_starts(other, found.validation.view(-1, common)[:, : training.runs]))
        else:
            learn(filter, name, training.method)
        done[name] = copy.deepcopy(filter)
        if name == last:
            break
    return Trained(done, seconds)


def _best_starts(filter: Filter, validation: Tensor) -> Filter:
    """Of the starts of every run the best, by losses ``[starts, runs]``; start ``s`` of run ``r`` is number ``s * common + r``."""
    starts, runs = validation.shape
    count = next(filter.parameters()).shape[0]
    if starts == 1 and runs == count:
        return filter
    best = validation.argmin(0) * (count // starts) + torch.arange(runs)
    return stack_runs([take_run(filter, index) for index in best.tolist()])


def _sharing(folder: Path) -> threading.RLock:
    """The lock of what is made in a folder for several methods; elsewhere others may do the same meanwhile."""
    with SHARING:
        return _FOLDERS.setdefault(folder.resolve(), threading.RLock())


def adopt_measurement(filter: Filter, other: Filter) -> None:
    """Start from the encoder, and the measurement model if there is one, of a filter of which these parts are trained."""
    for part in ("encoder", "measurement"):
        if hasattr(filter, part):
            filter.get_submodule(part).load_state_dict(other.get_submodule(part).state_dict())


def adopt(filter: Filter, plain: Filter) -> None:
    """Start an ``AdaptiveParticleFilter`` from a trained plain one: shared parts as they are, head and bandwidth twice."""
    learned = plain.state_dict()
    copied = {name.replace("measurement.heads.0.", "measurement.heads.1."): tensor for name, tensor in learned.items()}
    copied |= {f"resampling_{name}": tensor for name, tensor in learned.items() if name.startswith("bandwidth.")}
    filter.load_state_dict(learned | copied)
