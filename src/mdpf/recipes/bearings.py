"""Bearings-only tracking: how every method is built and trained.

Every method is trained on the same 5000 sequences of 17 frames with a label at every fourth, all its runs at once. A folder holds
the checkpoints of a method's training; whatever interrupts it, the same command goes on from the last whole epoch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from mdpf.data.sequences import SequenceBatch
from mdpf.evaluation.evaluate import Filter
from mdpf.kernels import Biweight, Epanechnikov, Gaussian, Kernel, Product, VonMises
from mdpf.metrics import FLOOR
from mdpf.models.bandwidth import Family
from mdpf.recipes import filing, training
from mdpf.recipes.networks import VectorNetworks
from mdpf.recipes.training import Preset, Trained, Training
from mdpf.resamplers import ComponentPathwise, ImportanceWeighted, Resampler
from mdpf.selection import stratified, systematic
from mdpf.tasks import bearings
from mdpf.tasks.task import Task
from mdpf.training.deadline import Deadline
from mdpf.training.fit import Watch
from mdpf.training.objectives import Scoring
from mdpf.training.stages import Cosine, Plateau

PRESETS = {
    "paper": Preset(5e-4, 5e-4, 0.1, 800, 400, 1e-4, 800, Plateau(), recurrent_rate=1e-3),
    "fast": Preset(1e-2, 6e-3, 0.5, 100, 16, 1e-2, 20, Cosine(), recurrent_rate=2e-3, starts=4),
    "quick": Preset(1e-2, 1e-2, 0.5, 14, 4, 1e-2, 2, Cosine(), recurrent_rate=2e-3),
    "long": Preset(4e-3, 4e-3, 0.5, 40, 10, 5e-3, 5, Cosine()),
    "demo": Preset(6e-3, 6e-3, 0.5, 24, 4, 4e-3, 1, Cosine()),
}

# The width of networks, where it is not the paper's: on a processor a wider layer takes no longer, and learns in fewer steps.
WIDTHS = {"demo": 32, "quick": 32}

# The kernel of positions, in a posterior and of the initial particles; that of headings is always von Mises.
KERNELS: dict[str, Family] = {"gaussian": Gaussian, "epanechnikov": Epanechnikov, "biweight": Biweight}
# What is added to densities that are learned from: the floor of the paper's metric, which the authors' loss had too. As a share of
# a uniform density over arena and headings it is one in 40 000. Where a compact kernel covers not everything there would be nothing
# to learn from without it; with Gaussian kernels the many far-off truths of the first epochs drive the noise of the dynamics to its
# bound, from where a training hardly finds back.
BACKGROUND = FLOOR

# The presets that learn without it: with few sequences nearly all truths are far off, and something has to be learned from them.
BACKGROUNDS = {"demo": 0.0}

# What may stand in place of a method's own resampler.
RESAMPLERS: dict[str, Resampler | None] = {
    "own": None,
    "stratified": ImportanceWeighted(stratified),
    "systematic": ImportanceWeighted(systematic),
    "pathwise": ComponentPathwise(),
    "stratified-pathwise": ComponentPathwise(stratified),
}


class Sizes(NamedTuple):
    """How many sequences to train on, how many choose the best epoch, how many judge the outcome."""

    train: int = 5000
    validation: int = 1000
    evaluation: int = 5000


SIZES = {"paper": Sizes(), "demo": Sizes(1000, 200, 200), "fast": Sizes(), "quick": Sizes(5000, 500, 500), "long": Sizes()}


@dataclass(frozen=True)
class Config:
    """Every choice of a training.

    Args:
        method: One of ``methods.METHODS``.
        runs: How many independent runs, trained at once.
        seed: Of everything random.
        particles: How many, in training and evaluation.
        preset: One of ``PRESETS``.
        bound: The largest change of an encoded coordinate in one frame. The fast car moves 1.5 along a straight leg; the paper's
            bound of 0.99 cannot express that.
        truncate: Steps between cuts of the gradient; ``None`` cuts it nowhere.
        kernel: One of ``KERNELS``.
        hidden_dim: The width of every layer.
        located: Whether the dynamics know where a particle is; the paper's only know where it heads.
        resampler: One of ``RESAMPLERS``.
        batch: Sequences in a batch.
        mirrored: Learn from every sequence and its mirror image; the task is the same on both sides of the radar.
        clip: The largest norm of a run's gradient.
        background: A density that is added to what is learned from: a truth that is far off then teaches nothing.
    """

    method: str
    runs: int = 1
    seed: int = 0
    particles: int = 25
    preset: str = "fast"
    bound: float = 1.6
    truncate: int | None = 4
    kernel: str = "gaussian"
    hidden_dim: int = 8
    located: bool = False
    resampler: str = "own"
    batch: int = 64
    mirrored: bool = False
    clip: float = 100.0
    background: float = BACKGROUND


def task(config: Config) -> Task:
    """The task with the initial particles that go with a configuration's kernel."""
    return bearings.task(KERNELS[config.kernel])


def networks(config: Config) -> VectorNetworks:
    """The networks of the study."""
    return VectorNetworks(
        bearings.SPACE,
        observation_dim=2,
        bound=(config.bound,) * 4,
        start=(0.84, 0.84, 0.031),
        minimum=(0.1, 0.1, 0.001),
        hidden_dim=config.hidden_dim,
        linear=KERNELS[config.kernel],
        located=config.located,
        resampler=RESAMPLERS[config.resampler],
    )


def training_of(config: Config) -> Training:
    """What a configuration means."""
    return Training(
        config.method,
        networks(config),
        task(config).prior,
        Scoring(bearings.SPACE, _around(2.0), _around(3.0), 50, (1.0, 1.0, 0.1)),
        PRESETS[config.preset],
        config.runs,
        config.seed,
        config.particles,
        config.truncate,
        config.batch,
        config.background,
        config.clip,
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
    last: str | None = None,
    device: str = "cpu",
    watch: Watch | None = None,
    until: Deadline | None = None,
) -> Trained:
    """Train a method, as far as its stage ``last`` if that is given.

    It goes on from its checkpoints in ``work``: one folder for each method, and one for the data unless ``data`` names it.
    """
    parts = learning_data(config, data or work / "data", device)
    return training.train(training_of(config), *parts, work, last=last, watch=watch, until=until)


def learning_data(config: Config, folder: Path, device: str = "cpu") -> tuple[SequenceBatch, SequenceBatch]:
    """What to learn from, and what chooses the best epoch; kept in a folder."""
    sizes = SIZES[config.preset]
    parts = (("train", sizes.train), ("validation", sizes.validation))
    data, validation = (split(name, count, folder=folder, device=device) for name, count in parts)
    return with_mirror_images(data) if config.mirrored else data, validation


def with_mirror_images(data: SequenceBatch) -> SequenceBatch:
    """Sequences, and the same seen in a mirror along the axis through the radar: twice as many."""
    states = bearings.SPACE.wrap(data.states * data.states.new_tensor([1.0, -1.0, -1.0]))
    observations = data.observations * data.observations.new_tensor([-1.0, 1.0])
    twice = data.map(lambda part: torch.cat([part, part]))
    return twice._replace(states=torch.cat([data.states, states]), observations=torch.cat([data.observations, observations]))


def split(name: str, num_sequences: int | None = None, *, folder: Path | None = None, device: str = "cpu") -> SequenceBatch:
    """One part of the data; kept in ``folder``, so that a training goes on with the very same numbers on another machine."""
    with training.SHARING:
        return _split(name, num_sequences, folder, device)


@lru_cache(maxsize=4)
def _split(name: str, num_sequences: int | None, folder: Path | None, device: str) -> SequenceBatch:
    return bearings.task().split(name, num_sequences=num_sequences, folder=folder).to(device)


def load_run(path: Path) -> Filter:
    """The filter of a weights file that ``study`` wrote."""
    return filing.load_run(path, Config, networks, task="bearings", study="bearings")[0]
