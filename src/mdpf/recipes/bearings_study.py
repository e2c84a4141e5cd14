"""The paper's study of bearings-only tracking, in parts that can be done in several calls, on machines that are lent for a while.

Every method is trained, judged on 5000 sequences of 150 frames with 25 particles, and written to result files with the weights of
its median run; from these weights follow the rows with other numbers of particles. The oracle completes the table. A part is done
when its result file is there: whoever calls again does what is left.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mdpf.evaluation import results
from mdpf.evaluation.evaluate import Filter, evaluate
from mdpf.evaluation.results import Result, file_name, provenance
from mdpf.recipes import oracle
from mdpf.recipes.bearings import PRESETS, SIZES, Config, load_run, split, task, train
from mdpf.recipes.filing import Filing, filing, weights_file
from mdpf.recipes.parts import Outcome, Part
from mdpf.recipes.studies import Place, report, rows, trainings, work_off
from mdpf.recipes.training import Trained
from mdpf.resamplers import Concrete, OptimalTransport
from mdpf.training.deadline import Deadline, OutOfTime

EXPERIMENT = "bearings"
# The longest first, so that none is left over in the end; A-MDPF waits for MDPF.
ORDER = ("MDPF", "LSTM", "OT-PF", "IRG-MDPF", "A-MDPF", "TG-MDPF", "DIS-PF", "SR-PF", "C-PF", "TG-PF")

# Methods that are trained like the rest but in another setting: what is different, by the name of the setting.
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "bound-0.99": ("MDPF", {"bound": 0.99}),
    "paper": ("MDPF", {"preset": "paper"}),
}
# Choices that came later are noted down where somebody made them, so that earlier results stay results of the default.
LATER = {"mirrored": False, "clip": 100.0}

# In an evaluation; a processor is fastest on what fits its caches.
PARTICLES_AT_A_TIME = {"cpu": 25_000, "cuda": 1_500_000}
# The same for resamplers that relate every particle to every other.
PAIRS_AT_A_TIME = {"cpu": 1_000_000, "cuda": 400_000_000}


@dataclass(frozen=True)
class Scope:
    """How much there is to a study besides training.

    Args:
        particles: With how many particles the median runs are judged again,
        num_sequences: on how many sequences.
        oracle_particles: How many the filter has that knows the simulator; none leaves it out.
        oracle_fitting: Sequences its kernel is chosen on.
        settings: Which other settings of methods are trained too.
        default: Whether the default setting is trained.
    """

    particles: tuple[int, ...] = (25, 50, 100, 250, 500, 1000, 2500)
    num_sequences: int = 500
    oracle_particles: int = 20_000
    oracle_fitting: int = 200
    settings: tuple[str, ...] = ("bound-0.99",)
    default: bool = True


def describe(config: Config) -> dict[str, Any]:
    """Every choice behind a result."""
    chosen = {name: value for name, value in asdict(config).items() if name not in LATER or value != LATER[name]}
    return chosen | {"settings": asdict(PRESETS[config.preset]), "sizes": SIZES[config.preset]._asdict()}


def study(
    config: Config,
    place: Place,
    *,
    where: Filing | None = None,
    learn: Callable[..., Trained] = train,
    until: Deadline | None = None,
) -> list[Path]:
    """Train a method, judge every run, and write its result files and weights.

    Args:
        config: What to train.
        place: Where and how.
        where: What results are filed under; as the table of methods has it by default.
        learn: How to train, called as ``bearings.train``.
        until: Where this time does not suffice, all is written and ``OutOfTime`` is raised.
    """
    notes, where = describe(config), where or filing(EXPERIMENT, config.method)
    where.done(place.folder, notes)  # Another configuration is refused before any work is done.
    told = place.told(where.title)
    trained = learn(config, place.checkpoints, data=place.data, device=place.device, watch=told, until=until)

    def judged(filter: Filter) -> list[dict[str, Any]]:
        return rows(config.seed, config.runs, metrics=judge(filter, config, runs=config.runs, device=place.device))

    return report(
        trained,
        where,
        place,
        notes,
        judged,
        description=lambda median: {"task": "bearings", **asdict(config), "runs": 1},
        # With a compact kernel only the likelihood with a floor tells runs apart.
        metric="nll" if config.kernel == "gaussian" else "nll_paper",
    )


def judge(
    filter: Filter,
    config: Config,
    *,
    runs: int | None = None,
    particles: int | None = None,
    num_sequences: int | None = None,
    device: str = "cpu",
) -> dict[str, Tensor]:
    """The metrics on the evaluation split, each ``[R]`` for a filter with a run axis.

    Args:
        filter: A trained filter.
        config: How it was trained.
        runs: How many runs it holds; ``None`` for a filter without a run axis.
        particles: How many to use; as in training by default.
        num_sequences: Judge by the first so many sequences only.
        device: Where to compute.
    """
    problem, particles = task(config), particles or config.particles
    data = split("evaluation", SIZES[config.preset].evaluation, device=device)
    kind, copies = torch.device(device).type, runs or 1
    at_once = PARTICLES_AT_A_TIME[kind] // (particles * copies)
    if isinstance(getattr(filter, "resampler", None), Concrete | OptimalTransport):
        at_once = min(at_once, PAIRS_AT_A_TIME[kind] // (particles**2 * copies))
    found = evaluate(
        filter,
        data if num_sequences is None else data.take(slice(0, num_sequences)),
        prior=problem.prior,
        num_particles=particles,
        runs=runs,
        limit_lost=problem.limit_lost,
        batch=max(1, at_once),
        generator=torch.Generator(device).manual_seed(config.seed),
    )
    return {name: values.cpu() for name, values in found.metrics.items()}


def judge_again(config: Config, folder: Path, particles: int, num_sequences: int, *, device: str = "cpu") -> Path:
    """Judge the median run of a method with another number of particles, from its weights in ``folder``."""
    began = time.monotonic()
    filter = load_run(weights_file(folder, config.method)).to(device)
    found = judge(filter, config, particles=particles, num_sequences=num_sequences, device=device)
    median = results.load(folder / file_name(config.method)).median_run()
    runs = [{"seed": 1000 * config.seed + median, "metrics": {name: value.item() for name, value in found.items()}}]
    notes = describe(config) | {"test_particles": particles, "test_sequences": num_sequences}
    spent = provenance(time.monotonic() - began, device=device)
    return results.save(Result(EXPERIMENT, config.method, runs, notes, spent, f"n-{particles}"), folder)


def parts(configs: list[Config], place: Place, scope: Scope) -> list[Part]:
    """Everything there is to do, what matters most first."""
    settings = {name: SETTINGS[name] for name in scope.settings}
    found = trainings(configs, settings, partial(_training, place), default=scope.default)
    if scope.oracle_particles:
        found.append(_oracle(configs[0], place, scope))
    for particles in scope.particles:
        # The recurrent network has no particles whose number could change.
        found += [_sweep(config, place, particles, scope) for config in configs if config.method != "LSTM"]
    return found


def run(
    place: Place,
    *,
    methods: tuple[str, ...] = ORDER,
    runs: int = 11,
    seed: int = 0,
    preset: str = "fast",
    scope: Scope | None = None,
) -> Outcome:
    """Do what is left of the study, as far as the time suffices, and say what is done and what is left.

    Args:
        place: Where and how.
        methods: Which ones.
        runs: Independent runs of each, trained at once.
        seed: Of everything random.
        preset: How long to train.
        scope: How much there is to it besides training.
    """
    configs = [Config(method, runs, seed, preset=preset) for method in methods]
    return work_off(parts(configs, place, scope or Scope()), place)


def _training(place: Place, config: Config, *, needs: tuple[str, ...] = (), name: str = "default") -> Part:
    where = filing(EXPERIMENT, config.method, name)

    def do(until: Deadline) -> None:
        study(config, replace(place, own="" if name == "default" else name), where=where, until=until)

    return Part(where.title, do, lambda: where.done(place.folder, describe(config)), needs)


def _oracle(config: Config, place: Place, scope: Scope) -> Part:
    options = {
        "particles": scope.oracle_particles,
        "num_sequences": SIZES[config.preset].evaluation,
        "num_fitting": scope.oracle_fitting,
        "seed": config.seed,
    }

    def do(until: Deadline) -> None:
        oracle.study(place.folder, device=place.device, **options)

    return Part("Oracle", do, lambda: (place.folder / "Oracle.json").exists(), seconds=place.guess(60))


def _sweep(config: Config, place: Place, particles: int, scope: Scope) -> Part:
    notes = describe(config) | {"test_particles": particles, "test_sequences": scope.num_sequences}

    def do(until: Deadline) -> None:
        if not weights_file(place.folder, config.method).exists():
            raise OutOfTime(f"It needs {config.method}, which `mdpf reproduce bearings` trains.")
        judge_again(config, place.folder, particles, scope.num_sequences, device=place.device)

    def done() -> bool:
        return results.load_same(place.folder / file_name(config.method, f"n-{particles}"), notes) is not None

    slow = config.method in ("C-PF", "OT-PF") and particles >= 1000
    needs = (config.method,) if scope.default else ()
    return Part(f"{config.method} with {particles} particles", do, done, needs, place.guess(60 if slow else 10))
