"""The paper's study of localisation in homes, in parts that can be done in several calls, on machines that are lent for a while.

Every method is trained, judged on 820 walks of 100 frames through homes nobody trained on, with 50 particles, and written to result
files with its weights. Lengths are in metres. The paper counts in pixels of 0.02 m: its RMSE times 0.02 is ours, and its negative
log-likelihood plus 2 log 0.02, some 7.82 less, is ours, whatever else it holds.
"""

import math
import shutil
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mdpf import metrics
from mdpf.evaluation import results
from mdpf.evaluation.evaluate import Filter, evaluate
from mdpf.evaluation.results import Result, provenance
from mdpf.recipes.filing import Filing, filing
from mdpf.recipes.house import BATCHES, PRESETS, SIZES, Config, split, train
from mdpf.recipes.parts import Outcome, Part
from mdpf.recipes.studies import Place, clear, report, rounded, rows, trainings, work_off
from mdpf.tasks.homes import task as homes
from mdpf.tasks.homes import walks
from mdpf.tasks.homes.task import METRES
from mdpf.training.deadline import Deadline

EXPERIMENT = "house"
RECKONING = "dead-reckoning"
# What matters most first; A-MDPF waits for MDPF. The last two are not in the paper's table.
ORDER = ("MDPF", "A-MDPF", "TG-MDPF", "DIS-PF", "LSTM", "TG-PF", "OT-PF", "SR-PF", "C-PF", "IRG-MDPF")

# Methods that are trained like the rest but in another setting: what is different, by the name of the setting.
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "wide": ("MDPF", {"start_scale": 100.0, "start_concentration": 1.0}),
    "as-published": ("LSTM", {"as_published": True}),
    "point-sampled": ("MDPF", {"blurred": False}),
}

# In an evaluation: crops of the map take most.
PARTICLES_AT_A_TIME = {"cpu": 1_000, "cuda": 30_000}
# Homes, walks, compiling, recording and an epoch: with less time left no method is begun on a GPU.
BEGINNING = 120.0
PERCENTS = (25, 50, 75)
PER_METRE = ("rmse", "rmse_paper", "position_rmse")
PER_SQUARE_METRE = ("nll", "nll_paper")


@dataclass(frozen=True)
class Scope:
    """How much there is to a study besides training every method once.

    Args:
        settings: Which other settings of methods are trained too.
        default: Whether the default setting is trained.
    """

    settings: tuple[str, ...] = ()
    default: bool = True


class Judged(NamedTuple):
    """What was found of each run, lengths in metres.

    Args:
        metrics: By name, each ``[R]``.
        quartiles: Over walks, of metrics that are means over walks, each ``[R, 3]``.
        curves: The position error at every frame: the root of the mean square over walks, and the median, each ``[R, T]``.
    """

    metrics: dict[str, Tensor]
    quartiles: dict[str, Tensor]
    curves: dict[str, Tensor]


def describe(config: Config) -> dict[str, Any]:
    """Every choice behind a result."""
    units = {"length": "m", "metres_per_pixel": METRES, "added_to_nll": 2 * math.log(METRES)}
    return asdict(config) | {"settings": asdict(PRESETS[config.preset]), "sizes": SIZES[config.preset]._asdict(), "units": units}


def study(config: Config, place: Place, *, where: Filing | None = None, until: Deadline | None = None) -> list[Path]:
    """Train a method, judge every run, and write its result files and weights; see ``bearings_study.study``."""
    notes, where = describe(config), where or filing(EXPERIMENT, config.method)
    where.done(place.folder, notes)  # Another configuration is refused before any work is done.
    told = place.told(where.title)
    trained = train(config, place.checkpoints, data=place.data, device=place.device, watch=told, until=until)

    def judged(filter: Filter) -> list[dict[str, Any]]:
        found = judge(filter, config, runs=config.runs, device=place.device)
        return rows(config.seed, config.runs, **found._asdict())

    description = {"task": "homes", **asdict(config), "runs": 1}
    return report(trained, where, place, notes, judged, description=lambda median: description)


def judge(
    filter: Filter,
    config: Config,
    *,
    runs: int | None = None,
    num_sequences: int | None = None,
    device: str = "cpu",
) -> Judged:
    """Filter the evaluation walks from particles around their start, and compare with the truth.

    Args:
        filter: A trained filter.
        config: How it was trained.
        runs: How many runs it holds; ``None`` for a filter without a run axis.
        num_sequences: Judge by the first so many walks only.
        device: Where to compute.
    """
    data, problem = split("evaluation", SIZES[config.preset].evaluation, device=device), homes.task()
    at_once = PARTICLES_AT_A_TIME[torch.device(device).type] // (config.particles * (runs or 1))
    found = evaluate(
        filter,
        data if num_sequences is None else data.take(slice(0, num_sequences)),
        prior=problem.prior,
        num_particles=config.particles,
        runs=runs,
        limit_lost=problem.limit_lost,
        batch=max(1, at_once),
        generator=torch.Generator(device).manual_seed(config.seed),
    )
    frames = metrics.Frames(*(part.cpu() for part in found.frames))
    # The two metrics of the paper are means over walks.
    over_walks = {"nll_paper": frames.nll_paper.mean(-1), "rmse_paper": frames.squared_error.mean(-1).sqrt()}
    shares = torch.tensor([percent / 100 for percent in PERCENTS])
    quartiles = {name: torch.quantile(values, shares, -1).movedim(0, -1) for name, values in over_walks.items()}
    error = frames.squared_position_error.sqrt()
    curves = {"position_rmse": error.square().mean(-2).sqrt() * METRES, "position_median": error.quantile(0.5, -2) * METRES}
    return Judged(in_metres(found.metrics), in_metres(quartiles), curves)


def reckon(config: Config, folder: Path) -> Path:
    """Judge who starts like the filters and trusts odometry alone; write ``dead-reckoning.json``."""
    began, data, problem = time.monotonic(), split("evaluation", SIZES[config.preset].evaluation), homes.task()
    assert data.actions is not None
    start = problem.prior(data.states[:, 0], 1, generator=torch.Generator().manual_seed(config.seed))[:, 0]
    difference = walks.SPACE.difference(walks.dead_reckoning(start, data.actions), data.states)
    position, heading = difference[..., :2].square().sum(-1), difference[..., 2].square()
    numbers = {
        "rmse_paper": (position + heading).mean(-1).sqrt().mean() * METRES,
        "position_rmse": position[:, 1:].mean().sqrt() * METRES,
        "angle_rmse": heading[:, 1:].mean().sqrt(),
        "lost": (position[:, -1].sqrt() > problem.limit_lost).float().mean(),
    }
    curves = {
        "position_rmse": rounded(position.mean(0).sqrt() * METRES),
        "position_median": rounded(position.sqrt().quantile(0.5, 0) * METRES),
    }
    run = {"seed": config.seed, "metrics": {name: value.item() for name, value in numbers.items()}, "curves": curves}
    notes = {"preset": config.preset, "seed": config.seed, "sizes": SIZES[config.preset]._asdict()}
    return results.save(Result(EXPERIMENT, RECKONING, [run], notes, provenance(time.monotonic() - began)), folder)


def in_metres(found: dict[str, Tensor]) -> dict[str, Tensor]:
    """Numbers in pixels, by the name of their metric, as numbers in metres; the rest as they are."""
    converted = {}
    for name, value in found.items():
        factor = METRES if name in PER_METRE else 1.0
        offset = 2 * math.log(METRES) if name in PER_SQUARE_METRE else 0.0
        converted[name] = value.cpu() * factor + offset
    return converted


def parts(configs: list[Config], place: Place, scope: Scope) -> list[Part]:
    """Everything there is to do, what matters most first."""
    settings = {name: SETTINGS[name] for name in scope.settings}
    found = trainings(configs, settings, partial(_training, place), default=scope.default)
    reckoning = place.folder / f"{RECKONING}.json"
    if scope.default:
        found.append(Part(RECKONING, lambda until: reckon(configs[0], place.folder), reckoning.exists))
    return found


def _training(place: Place, config: Config, *, needs: tuple[str, ...] = (), name: str = "default") -> Part:
    where, own = filing(EXPERIMENT, config.method, name), replace(place, own="" if name == "default" else name)

    def do(until: Deadline) -> None:
        _lend(place.checkpoints / "measurement", own.checkpoints / "measurement", config)
        study(config, own, where=where, until=until)
        clear(config.method, own.checkpoints)

    return Part(where.title, do, lambda: where.done(place.folder, describe(config)), needs, place.guess(BEGINNING))


def _lend(source: Path, target: Path, config: Config) -> None:
    """Where the measurement model is the same, a setting need not learn it again."""
    same = Config(config.method).blurred == config.blurred
    if same and source.is_dir() and not target.exists():
        shutil.copytree(source, target)


def run(
    place: Place,
    *,
    methods: tuple[str, ...] = ORDER,
    runs: int = 1,
    seed: int = 0,
    preset: str = "fast",
    scope: Scope | None = None,
) -> Outcome:
    """Do what is left of the study, as far as the time suffices; see ``bearings_study.run``. By default one part at a time."""
    configs = [Config(method, runs, seed, preset=preset, batch=BATCHES[preset]) for method in methods]
    return work_off(parts(configs, place, scope or Scope()), replace(place, jobs=place.jobs or 1))
