"""Localisation in homes never seen before: how every method is built and trained.

Every method is trained on the same walks through the training homes, of 24 frames with a label at every fourth; homes of their own
choose the best epoch, and others judge. What is seen is rendered while training. A folder holds the checkpoints of a method's
training; whatever interrupts it, the same command goes on from the last whole epoch.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from mdpf import noise
from mdpf.data.sequences import SequenceBatch
from mdpf.evaluation.evaluate import Filter
from mdpf.kernels import Gaussian, Kernel, Product, VonMises
from mdpf.recipes import filing, house_networks, training
from mdpf.recipes.house_networks import HouseNetworks
from mdpf.recipes.training import Preset, Trained, Training
from mdpf.tasks.homes import task as homes
from mdpf.tasks.homes import walks
from mdpf.training.deadline import Deadline
from mdpf.training.fit import Watch
from mdpf.training.objectives import Scoring
from mdpf.training.stages import Cosine, Plateau

PRESETS = {
    "paper": Preset(5e-4, 1e-4, 0.1, 800, 500, 1e-3, 800, Plateau(stop_offset=60)),
    "fast": Preset(2e-3, 2e-3, 0.5, 9, 8, 1e-3, 2, Cosine()),
    "quick": Preset(2e-3, 2e-3, 0.5, 2, 3, 1e-3, 1, Cosine()),
}


PLAIN = ("reduced", "as_published", "regularization")  # Choices that networks take from a configuration as they are.


class Sizes(NamedTuple):
    """How many walks to train on, how many choose the best epoch, how many judge the outcome."""

    train: int = 74_800
    validation: int = 2_000
    evaluation: int = 820


SIZES = {"paper": Sizes(), "fast": Sizes(20_000, 512, 820), "quick": Sizes(96, 16, 8)}
BATCHES = {"paper": 64, "fast": 64, "quick": 8}
"""Walks in a batch: 64 of them, with all crops of the map, take some 20 GB in single precision, which few processors have."""


@dataclass(frozen=True)
class Config:
    """Every choice of a training.

    Args:
        method: One of ``methods.METHODS``.
        runs: How many independent runs, trained at once.
        seed: Of everything random.
        particles: How many, in training and evaluation.
        preset: One of ``PRESETS``.
        truncate: Steps between cuts of the gradient; ``None`` cuts it nowhere.
        batch: Walks in a batch.
        start_scale: The standard deviation of the positions of initial particles in training, in pixels.
        start_concentration: The same of their headings.
        blurred: Whether the map around a particle shows means of pixels; single ones, as run for the paper, if not.
        samples: Rays along each side of a pixel of the image.
        reduced: Whether the convolutions compute in half the precision on a GPU.
        as_published: Whether the recurrent network is as it was run for the paper: without a map, a bound or its own position.
        regularization: Of optimal transport.
    """

    method: str
    runs: int = 1
    seed: int = 0
    particles: int = 50
    preset: str = "fast"
    truncate: int | None = 4
    batch: int = 64
    start_scale: float = walks.START_SCALE
    start_concentration: float = walks.START_CONCENTRATION
    blurred: bool = True
    samples: int = 2
    reduced: bool = True
    as_published: bool = False
    regularization: float = house_networks.REGULARIZATION


@dataclass(frozen=True)
class Start:
    """Draw initial particles around the true pose.

    Args:
        scale: Standard deviation of positions, in pixels.
        concentration: Of headings.
    """

    scale: float
    concentration: float

    def __call__(self, states: Tensor, num_particles: int, *, generator: noise.Source = None) -> Tensor:
        around = states[..., None, :].expand(*states.shape[:-1], num_particles, -1)
        return cloud(self.scale, self.concentration)(states).sample(around, generator=generator)


def cloud(scale: float, concentration: float) -> Callable[[Tensor], Kernel]:
    """Around a pose: positions of standard deviation ``scale``, headings of a concentration."""

    def kernel(like: Tensor) -> Kernel:
        return Product((Gaussian(like.new_full((2,), scale)), VonMises(like.new_full((1,), concentration))))

    return kernel


def networks(config: Config) -> HouseNetworks:
    """The networks of the study, which see and know every home."""
    return replace(_networks(config.blurred, config.samples), **{name: getattr(config, name) for name in PLAIN})


@lru_cache(maxsize=2)
def _networks(blurred: bool, samples: int) -> HouseNetworks:
    return house_networks.networks(homes.all_homes(), blurred=blurred, samples=samples)


def training_of(config: Config, nets: HouseNetworks | None = None) -> Training:
    """What a configuration means; with other networks than those that know all homes, if given."""
    return Training(
        config.method,
        nets or networks(config),
        Start(config.start_scale, config.start_concentration),
        Scoring(walks.SPACE, cloud(50.0, 10.0), cloud(50.0, 10.0), 50, (60.0, 60.0, 0.1)),
        PRESETS[config.preset],
        config.runs,
        config.seed,
        config.particles,
        config.truncate,
        config.batch,
        clip=250.0,
    )


def train(
    config: Config,
    work: Path,
    *,
    data: Path | None = None,
    device: str = "cpu",
    watch: Watch | None = None,
    until: Deadline | None = None,
) -> Trained:
    """Train a method; it goes on from its checkpoints in ``work``, one folder for each method, and one for the data."""
    sizes, folder = SIZES[config.preset], data or work / "data"
    counts = {"train": sizes.train, "validation": sizes.validation}
    learned, validation = (split(name, count, folder=folder, device=device) for name, count in counts.items())
    return training.train(training_of(config), learned, validation, work, watch=watch, until=until)


def split(name: str, num_sequences: int | None = None, *, folder: Path | None = None, device: str = "cpu") -> SequenceBatch:
    """One part of the data; kept in ``folder``, so that a training goes on with the very same numbers on another machine."""
    with training.SHARING:
        return _split(name, num_sequences, folder, device)


@lru_cache(maxsize=4)
def _split(name: str, num_sequences: int | None, folder: Path | None, device: str) -> SequenceBatch:
    return homes.task(homes.all_homes).split(name, num_sequences=num_sequences, folder=folder).to(device)


def load_run(path: Path) -> tuple[Filter, Config]:
    """The filter of a weights file that the study wrote, and how it was trained."""
    return filing.load_run(path, Config, networks, task="homes", study="house")
