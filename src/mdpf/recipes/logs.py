"""Recorded sequences of one's own: how any method is built for them, trained, and found again in a file of weights."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mdpf.data import cutting, files
from mdpf.data.sequences import SequenceBatch
from mdpf.kernels import Kernel
from mdpf.models import kernel_of
from mdpf.recipes import training
from mdpf.recipes.blueprint import Blueprint, derive
from mdpf.recipes.log_networks import LogNetworks
from mdpf.recipes.training import Preset, Trained, Training
from mdpf.tracking import Around, Box
from mdpf.training.deadline import Deadline
from mdpf.training.fit import Watch
from mdpf.training.objectives import Scoring
from mdpf.training.stages import Cosine, Plateau

# Rates and schedules; how many epochs that makes depends on how much data there is.
PRESETS = {
    "paper": Preset(5e-4, 5e-4, 0.1, 800, 400, 1e-4, 800, Plateau()),
    "fast": Preset(3e-3, 3e-3, 0.5, 0, 0, 5e-3, 0, Cosine()),
    "quick": Preset(6e-3, 6e-3, 0.5, 0, 0, 1e-2, 0, Cosine()),
}


class Updates(NamedTuple):
    """So many steps of the optimiser in a full stage, in that of the measurement model alone, in one that refines."""

    full: int
    measurement: int
    short: int


UPDATES = {"fast": Updates(5000, 4000, 1000), "quick": Updates(500, 800, 100)}

# Spreads of the clouds that the measurement model is first trained on, and of the kernel that judges it there, relative to the
# spread of the states; for an angle, inverses of concentrations.
CENTRE, CLOUD, JUDGING = 0.4, 0.6, 0.2
ANGLE_CLOUD, ANGLE_JUDGING = 0.3, 0.1
STARTS = ("around", "box")


@dataclass(frozen=True)
class Config:
    """Every choice of a training on recorded sequences.

    Args:
        method: One of ``methods.METHODS``.
        runs: How many independent runs, trained at once.
        seed: Of everything random, the split of the sequences included.
        particles: How many, in training and evaluation.
        preset: One of ``PRESETS``.
        start: Where filters start: ``"around"`` the known first state, or anywhere in the ``"box"`` of all recorded states.
        window: Frames of the pieces that sequences are cut into for training, at most. A filter that never saw more than a few of
            them loses its track later on, and nothing told it not to be too sure.
        truncate: Steps between cuts of the gradient.
        batch: Windows in a batch.
        hidden_dim: The width of every layer.
    """

    method: str
    runs: int = 1
    seed: int = 0
    particles: int = 25
    preset: str = "fast"
    start: str = "around"
    window: int = 61
    truncate: int = 4
    batch: int = 32
    hidden_dim: int = 32

    def __post_init__(self) -> None:
        if self.start not in STARTS:
            raise ValueError(f"Training needs a known start, got {self.start!r}. Known are: {', '.join(STARTS)}.")
        if self.window < 2:
            raise ValueError(f"Training needs windows of at least two frames, got {self.window}.")


class Prepared(NamedTuple):
    """Sequences ready to be learned from and judged by, and what they decide."""

    train: SequenceBatch
    validation: SequenceBatch
    test: SequenceBatch
    blueprint: Blueprint
    cut: bool

    def to(self, device: str) -> "Prepared":
        """Move the sequences."""
        return self._replace(train=self.train.to(device), validation=self.validation.to(device), test=self.test.to(device))


def prepare(path: Path, *, seed: int = 0) -> Prepared:
    """Read a file of sequences, divide it, and derive from the part to learn from what a tracker is built from."""
    data, space = files.read(path)
    parts = cutting.split(cutting.begin_with_label(data), seed=seed)
    blueprint = derive(parts.train, parts.validation, space)
    return Prepared(parts.train, parts.validation, parts.test, blueprint, parts.cut)


def prior(blueprint: Blueprint, start: str) -> Around | Box:
    """Where filters start."""
    space = blueprint.state_space
    return Around(space, blueprint.start) if start == "around" else Box(space, blueprint.low, blueprint.high)


def training_of(config: Config, blueprint: Blueprint, num_windows: int) -> Training:
    """What a configuration means for so many windows."""
    space = blueprint.state_space
    spread = dict(zip(space.linear, blueprint.scale, strict=True))

    def widths(share: float, angle: float) -> tuple[float, ...]:
        return tuple(share * spread[dim] if dim in spread else angle for dim in range(space.dim))

    scoring = Scoring(
        space,
        _Cloud(blueprint, widths(CENTRE, ANGLE_CLOUD)),
        _Cloud(blueprint, widths(CLOUD, ANGLE_CLOUD)),
        30,
        widths(JUDGING, ANGLE_JUDGING),
    )
    preset = _in_epochs(config.preset, math.ceil(num_windows / config.batch))
    return Training(
        method=config.method,
        networks=LogNetworks(blueprint, config.hidden_dim),
        prior=prior(blueprint, config.start),
        scoring=scoring,
        preset=preset,
        runs=config.runs,
        seed=config.seed,
        particles=config.particles,
        truncate=config.truncate,
        batch=config.batch,
        decay=0.0,  # The noise of the clouds is enough.
        held_out_bandwidth=True,
    )


def train(config: Config, prepared: Prepared, work: Path, *, watch: Watch | None = None, until: Deadline | None = None) -> Trained:
    """Train a method on the device of the sequences; goes on from its checkpoints in ``work``."""
    pieces, held_out = cutting.windows(prepared.train, config.window), cutting.windows(prepared.validation, config.window)
    chosen = training_of(config, prepared.blueprint, pieces.num_sequences)
    return training.train(chosen, pieces, held_out, work, watch=watch, until=until)


def describe(config: Config, prepared: Prepared) -> dict[str, Any]:
    """Every choice behind a result, and what the data decided."""
    counts = {name: getattr(prepared, name).num_sequences for name in ("train", "validation", "test")}
    return asdict(config) | {"sequences": counts, "blueprint": prepared.blueprint.to_json()}


def rebuild(content: Mapping[str, Any]) -> tuple[Config, Blueprint]:
    """The configuration and blueprint that a file of weights holds."""
    known = {name: content[name] for name in Config.__dataclass_fields__ if name in content}
    return Config(**known), Blueprint.from_json(content.get("blueprint", {}))


@dataclass(frozen=True)
class _Cloud:
    """The kernel of a cloud of given widths, with the dtype and device of a tensor."""

    blueprint: Blueprint
    widths: tuple[float, ...]

    def __call__(self, like: Tensor) -> Kernel:
        return kernel_of(self.blueprint.state_space, torch.stack([like.new_full((), width) for width in self.widths]))


def _in_epochs(name: str, batches: int) -> Preset:
    """A preset with its updates counted in passes over the data."""
    preset = PRESETS[name]
    if name not in UPDATES:
        return preset
    full, measurement, short = (max(3, math.ceil(count / batches)) for count in UPDATES[name])
    return replace(preset, epochs=full, measurement_epochs=measurement, short_epochs=short)
