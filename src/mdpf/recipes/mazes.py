"""Localisation in mazes from images: how every method is built and trained.

Every method is trained on the same 4000 windows of 17 frames with a label at every fourth, all its runs at once. Noise of camera
and odometry is drawn anew for every batch. A folder holds the checkpoints of a method's training; whatever interrupts it, the same
command goes on from the last whole epoch.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from mdpf.data.cache import load_or_make
from mdpf.data.sequences import SequenceBatch
from mdpf.evaluation.evaluate import Filter
from mdpf.kernels import Gaussian, Kernel, Product, VonMises
from mdpf.metrics import FLOOR
from mdpf.recipes import filing, training
from mdpf.recipes.image_networks import ImageNetworks
from mdpf.recipes.training import Preset, Trained, Training
from mdpf.tasks.mazes import geometry, recordings
from mdpf.tasks.mazes import task as mazes
from mdpf.tasks.mazes.task import CLEAN, ORIGINAL, SPACE, Conventions, Sensors
from mdpf.tasks.task import stream_seed
from mdpf.training.deadline import Deadline
from mdpf.training.fit import Watch
from mdpf.training.objectives import Scoring
from mdpf.training.stages import Cosine, Plateau

PRESETS = {
    "paper": Preset(5e-4, 5e-4, 0.1, 800, 400, 1e-3, 800, Plateau(minimum=2e-4, stop_offset=100)),
    # The first stage looks at few frames and takes many steps; it is done once for all methods.
    "fast": Preset(5e-3, 5e-3, 0.5, 60, 200, 1e-2, 12, Cosine(), recurrent_rate=2e-3),
    "quick": Preset(5e-3, 5e-3, 0.5, 30, 60, 1e-2, 5, Cosine(), recurrent_rate=2e-3),
}
CONVENTIONS = {"clean": CLEAN, "original": ORIGINAL}


class Sizes(NamedTuple):
    """How many walks to train on, how many choose the best epoch, how many judge the outcome."""

    train: int = 800
    validation: int = 200
    evaluation: int = 1000


SIZES = {"paper": Sizes(), "fast": Sizes(), "quick": Sizes(200, 50, 100)}


@dataclass(frozen=True)
class Config:
    """Every choice of a training.

    Args:
        method: One of ``methods.METHODS``.
        maze: Which maze.
        runs: How many independent runs, trained at once.
        seed: Of everything random.
        particles: How many, in training and evaluation.
        preset: One of ``PRESETS``.
        bound: The largest change of each encoded coordinate in one frame. Walks here move at most 0.43 between frames; for the
            published recordings, which move farther, the paper has (7, 7, 1, 1).
        truncate: Steps between cuts of the gradient; ``None`` cuts it nowhere.
        pretrained: Whether the measurement model is trained alone first. The paper did so for its own methods and the encoder of
            the recurrent network, not for those it compares them with.
        conventions: One of ``CONVENTIONS``: how poses become states and actions.
        frozen: Draw the noise of camera and odometry once for the whole training, as the paper did.
        reduced: Let the encoder compute in half the precision on a CUDA device.
        recordings: A folder with the published files, in place of walks rendered here.
        first_runs: Runs of the first stage, if more than ``runs``: that of methods of which there are more.
        background: A density that is added to what is learned from, the floor of the paper's metric: a truth that is far off then
            teaches nothing.
    """

    method: str
    maze: int = 1
    runs: int = 1
    seed: int = 0
    particles: int = 25
    preset: str = "fast"
    bound: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    truncate: int | None = 4
    pretrained: bool = True
    conventions: str = "clean"
    frozen: bool = False
    reduced: bool = False
    recordings: str | None = None
    first_runs: int | None = None
    background: float = FLOOR


def networks(config: Config) -> ImageNetworks:
    """The networks of the study."""
    return ImageNetworks(
        SPACE,
        side=mazes.CROP,
        bound=tuple(config.bound),
        start=(0.5, 0.5, 0.04),
        minimum=(0.1, 0.1, 0.01),
        # Wider than this a heading counts as unknown.
        maximum=(math.inf, math.inf, 0.25),
        recurrent_start=(2.1, 2.1, 0.2),
        reduced=config.reduced,
    )


def training_of(config: Config) -> Training:
    """What a configuration means."""
    task = mazes.task(config.maze, CONVENTIONS[config.conventions])
    return Training(
        config.method,
        networks(config),
        task.prior,
        Scoring(SPACE, _around(2.0), _around(3.0), 100, (1.0, 1.0, 0.1)),
        PRESETS[config.preset],
        config.runs,
        config.seed,
        config.particles,
        config.truncate,
        background=config.background,
        clip=500.0,
        disturb=None if config.frozen else Sensors(),
        pretrained=config.pretrained,
        first_runs=config.first_runs,
    )


def _around(scale: float) -> Callable[[Tensor], Kernel]:
    """A cloud around a pose: positions of standard deviation ``scale``, headings of concentration 10."""

    def kernel(like: Tensor) -> Kernel:
        return Product((Gaussian(like.new_full((2,), scale)), VonMises(like.new_full((1,), 10.0))))

    return kernel


def train(
    config: Config,
    work: Path,
    *,
    data: Path | None = None,
    device: str = "cpu",
    watch: Watch | None = None,
    until: Deadline | None = None,
) -> Trained:
    """Train a method; it goes on from its checkpoints in ``work``, one folder for each method; the data are kept in ``data``."""
    learned, validation = (learning_data(config, name, data, device) for name in ("train", "validation"))
    return training.train(training_of(config), learned, validation, work, watch=watch, until=until)


def learning_data(config: Config, name: str, folder: Path | None = None, device: str = "cpu") -> SequenceBatch:
    """Windows to learn from (``"train"``) or to choose the best epoch by (``"validation"``): whole images and true actions."""
    found = mazes.windows(walks(config, name, folder, device), mazes.WINDOW, label_every=mazes.LABEL_EVERY)
    return disturbed(config, found, name) if config.frozen else found


def evaluation_data(config: Config, folder: Path | None = None, device: str = "cpu") -> SequenceBatch:
    """Whole walks with the noise of camera and odometry, the same for every method."""
    with training.SHARING:
        return _evaluation_data(_data_choices(config), SIZES[config.preset].evaluation, folder, device)


@lru_cache(maxsize=3)
def _evaluation_data(config: Config, count: int, folder: Path | None, device: str) -> SequenceBatch:
    # Whole images without noise are of no further use: only what is made of them is remembered.
    return disturbed(config, _walks.__wrapped__(config, "evaluation", count, folder, device), "evaluation").to(device)


def disturbed(config: Config, batch: SequenceBatch, name: str) -> SequenceBatch:
    """What camera and odometry make of the truth, once and for all."""
    generator = torch.Generator().manual_seed(stream_seed(f"maze-{config.maze}", f"{name}/noise", 0))
    portions = [batch.take(slice(first, first + 100)).to("cpu") for first in range(0, batch.num_sequences, 100)]
    return mazes.joined([Sensors()(portion, generator=generator) for portion in portions]).to(batch.states.device)


def walks(config: Config, name: str, folder: Path | None = None, device: str = "cpu") -> SequenceBatch:
    """The walks of one split, of 100 frames each; kept in ``folder``, so that rendering happens once."""
    with training.SHARING:
        return _walks(_data_choices(config), name, SIZES[config.preset]._asdict()[name], folder, device)


def _data_choices(config: Config) -> Config:
    """A configuration with what data depend on, and nothing else."""
    return Config("MDPF", config.maze, conventions=config.conventions, recordings=config.recordings)


@lru_cache(maxsize=6)
def _walks(config: Config, name: str, count: int, folder: Path | None, device: str) -> SequenceBatch:
    conventions = CONVENTIONS[config.conventions]
    if config.recordings is not None:
        return _recorded(config, name, count, conventions).to(device)

    def make() -> SequenceBatch:
        generator = torch.Generator().manual_seed(stream_seed(f"maze-{config.maze}", name, 0))
        return mazes.sequences(
            recordings.record(geometry.read(config.maze), count, generator=generator, device=device), conventions
        )

    if folder is None or torch.device(device).type == "cuda":
        # A GPU renders faster than a file is read.
        return make().to(device)
    # Rendered on another kind of device, single pixels differ by one of 255.
    recipe = {"task": f"maze-{config.maze}", "split": name, "on": torch.device(device).type, "conventions": config.conventions}
    return load_or_make(folder, {**recipe, "version": mazes.VERSION, "walks": count}, SPACE, make).to(device)


def _recorded(config: Config, name: str, count: int, conventions: Conventions) -> SequenceBatch:
    """The published walks: training and validation share a file, in a random order that is always the same."""
    kind = "test" if name == "evaluation" else "train"
    path = Path(str(config.recordings)) / f"nav0{config.maze}_{kind}.npz"
    whole = mazes.sequences(recordings.load(path), conventions)
    order = torch.randperm(whole.num_sequences, generator=torch.Generator().manual_seed(0))
    split = round(0.8 * len(order))
    chosen = {"train": order[:split], "validation": order[split:], "evaluation": torch.arange(len(order))}[name]
    return whole.take(chosen[:count])


def units(config: Config) -> Tensor:
    """From our units to those of the paper's metrics, in which each axis of a maze is 20 long, ``[3]``."""
    maze = geometry.read(config.maze)
    ours, theirs = CONVENTIONS[config.conventions].scale(maze), ORIGINAL.scale(maze)
    return torch.tensor([theirs[0] / ours[0], theirs[1] / ours[1], 1.0])


def half_extent(config: Config) -> tuple[float, float]:
    """How far a maze reaches to either side of its middle, in units of states."""
    maze = geometry.read(config.maze)
    across, along = CONVENTIONS[config.conventions].scale(maze)
    return across * maze.extent[0] / 2, along * maze.extent[1] / 2


def load_run(path: Path) -> tuple[Filter, Config]:
    """The filter of a weights file that the study wrote, and how it was trained."""
    return filing.load_run(path, Config, networks, task="maze", study="maze")
