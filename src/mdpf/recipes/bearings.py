"""Bearings-only tracking: the paper's study, from the simulator to the result files.

Every method is trained on the same 5000 sequences of 17 frames with a label at every fourth, all its runs at once, and evaluated on
5000 sequences of 150 frames with 25 particles. A folder holds the checkpoints of a method's training; whatever interrupts it, the
same command goes on from the last whole epoch.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from mdpf.evaluation.evaluate import Filter, evaluate
from mdpf.evaluation.results import Result, provenance, save
from mdpf.kernels import Gaussian, Kernel, Product, VonMises
from mdpf.models import take_run
from mdpf.recipes import training
from mdpf.recipes.methods import METHODS, Method
from mdpf.recipes.networks import VectorNetworks
from mdpf.recipes.training import Preset, Training
from mdpf.tasks import bearings
from mdpf.training import weights
from mdpf.training.fit import Watch
from mdpf.training.objectives import Scoring
from mdpf.training.stages import Cosine, Plateau

# In an evaluation; a processor is fastest on what fits its caches.
PARTICLES_AT_A_TIME = {"cpu": 25_000, "cuda": 1_500_000}


PRESETS = {
    "paper": Preset(5e-4, 5e-4, 0.1, 800, 400, 1e-4, 800, Plateau()),
    "fast": Preset(2e-3, 2e-3, 0.5, 100, 30, 1e-3, 20, Cosine()),
    "quick": Preset(4e-3, 4e-3, 0.5, 12, 4, 2e-3, 3, Cosine()),
}


class Sizes(NamedTuple):
    """On how many sequences to train, and to be judged by how many."""

    train: int = 5000
    evaluation: int = 5000


SIZES = {"paper": Sizes(), "fast": Sizes(), "quick": Sizes(train=2000, evaluation=500)}


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
        truncate: Steps between cuts of the gradient.
    """

    method: str
    runs: int = 1
    seed: int = 0
    particles: int = 25
    preset: str = "fast"
    bound: float = 1.6
    truncate: int = 4


def networks(config: Config) -> VectorNetworks:
    """The networks of the study."""
    return VectorNetworks(
        bearings.SPACE,
        observation_dim=2,
        bound=(config.bound,) * 4,
        start=(0.84, 0.84, 0.031),
        minimum=(0.1, 0.1, 0.001),
    )


def training_of(config: Config) -> Training:
    """What a configuration means."""
    task = bearings.task()
    return Training(
        config.method,
        networks(config),
        task.prior,
        Scoring(task.space, _around(2.0), _around(3.0), 50, (1.0, 1.0, 0.1)),
        PRESETS[config.preset],
        config.runs,
        config.seed,
        config.particles,
        config.truncate,
    )


def _around(scale: float) -> Callable[[Tensor], Kernel]:
    """A cloud around a pose: positions of standard deviation ``scale``, headings of concentration 10."""

    def kernel(like: Tensor) -> Kernel:
        return Product((Gaussian(like.new_full((2,), scale)), VonMises(like.new_full((1,), 10.0))))

    return kernel


def train(config: Config, folder: Path, *, device: str = "cpu", watch: Watch | None = None) -> dict[str, Filter]:
    """Train a method and return its filter after every stage, with all runs; checkpoints go to ``folder``."""
    task = bearings.task()
    data = task.split("train", num_sequences=SIZES[config.preset].train).to(device)
    validation = task.split("validation").to(device)
    return training.train(training_of(config), data, validation, folder, watch=watch)


def load_run(path: Path) -> Filter:
    """The filter of a weights file that ``study`` wrote."""
    saved = weights.load(path)
    known = {name: saved.config[name] for name in Config.__dataclass_fields__ if name in saved.config}
    if saved.config.get("task") != "bearings" or known.get("method") not in METHODS:
        raise ValueError(
            f"Loading a run needs weights of the bearings study, got {str(path)!r} of {saved.config}. "
            "Name a file that `mdpf train` wrote, in the folder weights."
        )
    config = Config(**known)
    filter = METHODS[config.method].build(networks(config))
    weights.fill(filter, saved)
    return filter.eval()


def judge(
    filter: Filter, config: Config, *, particles: int | None = None, num_sequences: int | None = None, device: str = "cpu"
) -> dict[str, Tensor]:
    """The metrics of every run on the evaluation split, each ``[R]``."""
    task, particles = bearings.task(), particles or config.particles
    data = task.split("evaluation", num_sequences=num_sequences or SIZES[config.preset].evaluation).to(device)
    found = evaluate(
        filter,
        data,
        prior=task.prior,
        num_particles=particles,
        runs=config.runs,
        limit_lost=task.limit_lost,
        batch=max(1, PARTICLES_AT_A_TIME[torch.device(device).type] // particles // config.runs),
        generator=torch.Generator(device).manual_seed(config.seed),
    )
    return {name: values.cpu() for name, values in found.metrics.items()}


def study(config: Config, folder: Path, *, work: Path, device: str = "cpu", watch: Watch | None = None) -> list[Path]:
    """Train a method, evaluate every run, and write its result files and weights into ``folder``; checkpoints go to ``work``."""
    start = time.monotonic()
    method: Method = METHODS[config.method]
    trained = train(config, work / config.method, device=device, watch=watch)
    paths = []
    for setting, stage in method.reported.items():
        filter = trained[stage]
        metrics = judge(filter, config, device=device)
        runs = [
            {"seed": 1000 * config.seed + run, "metrics": {name: value[run].item() for name, value in metrics.items()}}
            for run in range(config.runs)
        ]
        notes = asdict(config) | {"settings": asdict(PRESETS[config.preset]), "sizes": SIZES[config.preset]._asdict()}
        result = Result("bearings", config.method, runs, notes, provenance(time.monotonic() - start, device=device), setting)
        paths.append(save(result, folder))
        name = Path(result.file_name).with_suffix(".safetensors").name
        paths.append(folder / "weights" / name)
        weights.save(paths[-1], take_run(filter, result.median_run()).cpu(), {"task": "bearings", **asdict(config), "runs": 1})
    return paths
