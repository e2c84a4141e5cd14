"""Bearings-only tracking: the paper's study, from the simulator to the result files.

Every method is trained on the same 5000 sequences of 17 frames with a label at every fourth, all its runs at once, and evaluated on
5000 sequences of 150 frames with 25 particles. A folder holds the checkpoints of a method's training; whatever interrupts it, the
same command goes on from the last whole epoch.
"""

import copy
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from mdpf import losses
from mdpf.data.sequences import SequenceBatch
from mdpf.evaluation.evaluate import Filter, evaluate
from mdpf.evaluation.results import Result, provenance, save
from mdpf.kernels import Gaussian, Kernel, Product, VonMises
from mdpf.models import stack_runs, take_run
from mdpf.recipes.methods import METHODS, Method
from mdpf.recipes.networks import VectorNetworks
from mdpf.tasks import bearings
from mdpf.training import weights
from mdpf.training.fit import Epoch, fit
from mdpf.training.objectives import Scoring, Tracking
from mdpf.training.stages import Cosine, Plateau, Stage

Watch = Callable[[Epoch], None]

# In an evaluation; a processor is fastest on what fits its caches.
PARTICLES_AT_A_TIME = {"cpu": 25_000, "cuda": 1_500_000}


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
        num_train: Sequences to train on.
        num_evaluation: Sequences to be judged by.
    """

    rate: float
    error_rate: float
    bandwidth_share: float
    epochs: int
    measurement_epochs: int
    measurement_rate: float
    short_epochs: int
    schedule: Plateau | Cosine
    num_train: int = 5000
    num_evaluation: int = 5000


PRESETS = {
    "paper": Preset(5e-4, 5e-4, 0.1, 800, 400, 1e-4, 800, Plateau()),
    "fast": Preset(2e-3, 2e-3, 0.5, 100, 30, 1e-3, 20, Cosine()),
    "quick": Preset(4e-3, 4e-3, 0.5, 12, 4, 2e-3, 3, Cosine(), num_train=2000, num_evaluation=500),
}


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


def stages(config: Config) -> dict[str, Stage]:
    """All stages that methods are made of, by name."""
    preset, task = PRESETS[config.preset], bearings.task()

    def tracking(loss: Callable, name: str, rate: float, epochs: int) -> Stage:
        objective = Tracking(loss, task.prior, config.particles, config.truncate)
        bandwidth = rate * preset.bandwidth_share
        rates = {"": rate, "bandwidth": bandwidth}
        if METHODS[config.method].starts_from is not None:
            rates["resampling_bandwidth"] = bandwidth
        return Stage(name, objective, rates, epochs, preset.schedule, clip=100.0)

    cloud = Scoring(task.space, _around(2.0), _around(3.0), 50, (1.0, 1.0, 0.1))
    first = {"encoder": preset.measurement_rate, "measurement": preset.measurement_rate}
    schedule = preset.schedule
    if isinstance(schedule, Plateau):
        schedule = replace(schedule, cooldown=5, minimum=1e-3, stop_patience=26, stop_offset=60)
    fitted = tracking(losses.negative_log_likelihood, "bandwidth", preset.error_rate, preset.short_epochs)
    return {
        "measurement": Stage("measurement", cloud, first, preset.measurement_epochs, schedule, decay=1e-3),
        "likelihood": tracking(losses.negative_log_likelihood, "likelihood", preset.rate, preset.epochs),
        "refinement": tracking(losses.squared_error, "refinement", preset.rate / 5, preset.short_epochs),
        "error": replace(
            tracking(losses.squared_error, "error", preset.error_rate, preset.epochs),
            rates={"": preset.error_rate, "bandwidth": 0.0},
        ),
        "bandwidth": replace(fitted, rates={"bandwidth": 5 * preset.error_rate}),
    }


def _around(scale: float) -> Callable[[Tensor], Kernel]:
    """A cloud around a pose: positions of standard deviation ``scale``, headings of concentration 10."""

    def kernel(like: Tensor) -> Kernel:
        return Product((Gaussian(like.new_full((2,), scale)), VonMises(like.new_full((1,), 10.0))))

    return kernel


def build(config: Config, *, device: str = "cpu") -> Filter:
    """The untrained filter with all its runs; each run's parameters depend on its own seed alone."""
    runs = []
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        for run in range(config.runs):
            torch.manual_seed(1000 * config.seed + run)
            runs.append(METHODS[config.method].build(networks(config)))
    return stack_runs(runs).to(device)


def train(config: Config, folder: Path, *, device: str = "cpu", watch: Watch | None = None) -> dict[str, Filter]:
    """Train a method and return its filter after every stage, with all runs; checkpoints go to ``folder``."""
    task, preset, method = bearings.task(), PRESETS[config.preset], METHODS[config.method]
    data = task.split("train", num_sequences=preset.num_train).to(device)
    validation = task.split("validation").to(device)
    filter = build(config, device=device)
    if method.starts_from is not None:
        origin = replace(config, method=method.starts_from)
        earlier = train(origin, folder.parent / method.starts_from, device=device, watch=watch)
        adopt(filter, earlier[METHODS[method.starts_from].reported["default"]])
    done: dict[str, Filter] = {}
    for name in method.stages:
        if name == "measurement" and not hasattr(filter, "measurement"):
            _pretrain_encoder(filter, config, data, validation, folder, watch)
        else:
            path = folder / f"{name}.safetensors"
            fit(filter, stages(config)[name], data, validation, num_runs=config.runs, seed=config.seed, path=path, watch=watch)
        done[name] = copy.deepcopy(filter)
    return done


def _pretrain_encoder(
    filter: Filter, config: Config, data: SequenceBatch, validation: SequenceBatch, folder: Path, watch: Watch | None
) -> None:
    """Give a filter without a measurement model the encoder of one that was trained alone."""
    other = build(replace(config, method="TG-PF"), device=str(data.states.device))
    path = folder / "measurement.safetensors"
    fit(other, stages(config)["measurement"], data, validation, num_runs=config.runs, seed=config.seed, path=path, watch=watch)
    filter.get_submodule("encoder").load_state_dict(other.get_submodule("encoder").state_dict())


def adopt(filter: Filter, plain: Filter) -> None:
    """Start an ``AdaptiveParticleFilter`` from a trained plain one: shared parts as they are, head and bandwidth twice."""
    learned = plain.state_dict()
    copied = {name.replace("measurement.heads.0.", "measurement.heads.1."): tensor for name, tensor in learned.items()}
    copied |= {f"resampling_{name}": tensor for name, tensor in learned.items() if name.startswith("bandwidth.")}
    filter.load_state_dict(learned | copied)


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
    task, preset, particles = bearings.task(), PRESETS[config.preset], particles or config.particles
    data = task.split("evaluation", num_sequences=num_sequences or preset.num_evaluation).to(device)
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
        notes = asdict(config) | {"settings": asdict(PRESETS[config.preset])}
        result = Result("bearings", config.method, runs, notes, provenance(time.monotonic() - start, device=device), setting)
        paths.append(save(result, folder))
        name = Path(result.file_name).with_suffix(".safetensors").name
        paths.append(folder / "weights" / name)
        weights.save(paths[-1], take_run(filter, result.median_run()).cpu(), {"task": "bearings", **asdict(config), "runs": 1})
    return paths
