"""The paper's study of localisation in mazes, in parts that can be done in several calls, on machines that are lent for a while.

A part is one method in one maze: all its runs are trained at once, judged on 1000 walks of 100 frames with 25 particles, judged
again with the images of other walks (who uses images gets lost by that), and written to result files with the weights of the median
run. Methods that the paper compares its own with are trained a second time without the first stage of the measurement model, which
it gave to its own alone. What dead reckoning achieves, and localisation from nowhere, complete the study.

All numbers are in the units of the paper, in which each axis of a maze is 20 long, whatever units a filter works in.
"""

import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mdpf.data.sequences import SequenceBatch
from mdpf.evaluation import results
from mdpf.evaluation.evaluate import Filter, evaluate
from mdpf.evaluation.results import Result, file_name, provenance
from mdpf.metrics import Frames, summarise
from mdpf.recipes import maze_global
from mdpf.recipes.filing import Filing, filing, weights_file
from mdpf.recipes.mazes import PRESETS, SIZES, Config, evaluation_data, load_run, train, units
from mdpf.recipes.methods import METHODS
from mdpf.recipes.parts import Outcome, Part
from mdpf.recipes.studies import Place, clear, report, rows, work_off
from mdpf.tasks.homes.walks import dead_reckoning
from mdpf.tasks.mazes import geometry
from mdpf.tasks.mazes import task as mazes
from mdpf.training.deadline import Deadline

EXPERIMENT = "maze"
DEAD_RECKONING = "dead-reckoning"
# What is compared first, first. A-MDPF waits for MDPF; a recurrent network is best trained in one go: its checkpoint is large.
ORDER = ("MDPF", "LSTM", "TG-MDPF", "A-MDPF", "DIS-PF", "TG-PF", "IRG-MDPF", "SR-PF", "C-PF", "OT-PF")
# The paper's own methods, of which there are as many runs as in the paper; of the others there are fewer.
OWN = ("MDPF", "A-MDPF", "TG-MDPF", "IRG-MDPF")
RUNS, FEWER_RUNS = 5, 3
# Judging cannot be interrupted, and is not begun on a GPU with fewer seconds left; the same call goes on with it.
JUDGING = 20.0
# Walks at a time in an evaluation, all runs together; a GPU spends most of it on launching steps, however many walks there are.
WALKS_AT_A_TIME = {"cpu": 20, "cuda": 2000}


@dataclass(frozen=True)
class Scope:
    """How much there is to a study.

    Args:
        mazes: Which mazes.
        scratch: Whether the methods that the paper compares its own with are also trained without a first stage.
        searching: Whose median runs are to find themselves from nowhere,
        particles: with how many particles,
        num_walks: on how many walks.
    """

    mazes: tuple[int, ...] = geometry.NUMBERS
    scratch: bool = True
    searching: tuple[str, ...] = ("MDPF", "A-MDPF", "TG-PF", "DIS-PF")
    particles: tuple[int, ...] = (250, 1000, 10_000)
    num_walks: int = 200


def run(
    place: Place,
    *,
    methods: tuple[str, ...] = ORDER,
    runs: int | None = None,
    seed: int = 0,
    preset: str = "fast",
    scope: Scope | None = None,
    **choices: Any,  # noqa: ANN401 - whatever Config takes
) -> Outcome:
    """Do what is left of the study, as far as the time suffices; see ``bearings_study.run``.

    By default there are five runs of the paper's own methods and three of the others; ``choices`` are of all of them.
    """
    scope = scope or Scope()
    found: list[list[Part]] = []
    for maze in scope.mazes:
        # All methods share one first stage.
        common = {"preset": preset, "first_runs": runs or RUNS, **choices}
        configs = [Config(method, maze, runs or (RUNS if method in OWN else FEWER_RUNS), seed, **common) for method in methods]
        found.append(parts(configs, replace(place, work=place.work / str(maze)), scope))
    # One method in every maze before the next method.
    todo = [part for row in zip(*found, strict=True) for part in row]
    return work_off(sorted(todo, key=_urgency), place)


def parts(configs: list[Config], place: Place, scope: Scope) -> list[Part]:
    """Everything there is to do in one maze."""
    methods = {config.method for config in configs}
    found = [_dead_reckoning(configs[0], place)]
    for config in configs:
        first = METHODS[config.method].starts_from
        # Whoever starts from a method that is not asked for trains it along.
        found.append(_training(config, place, needs=(part_name(config, first),) if first in methods else ()))
        if scope.scratch and config.method not in OWN:
            found.append(_training(replace(config, pretrained=False), place))
    for particles in scope.particles:
        found += [_global(config, place, particles, scope) for config in configs if config.method in scope.searching]
    return found


def part_name(config: Config, method: str | None = None) -> str:
    """What a training is called."""
    return f"{method or config.method} in maze {config.maze}{'' if config.pretrained else ' from scratch'}"


def filed(config: Config) -> Filing:
    """What results are filed under: the maze is a setting."""
    return filing(EXPERIMENT, config.method, f"maze-{config.maze}{'' if config.pretrained else '-scratch'}")


def describe(config: Config) -> dict[str, Any]:
    """Every choice behind a result."""
    return asdict(config) | {"settings": asdict(PRESETS[config.preset]), "sizes": SIZES[config.preset]._asdict()}


def study(config: Config, place: Place, *, until: Deadline | None = None) -> list[Path]:
    """Train a method in one maze, judge every run, and write its result files and weights."""
    notes, where, told = describe(config), filed(config), place.told(part_name(config))
    where.done(place.folder, notes)  # Another configuration is refused before any work is done.
    place = replace(place, own="pretrained" if config.pretrained else "scratch")
    trained = train(config, place.checkpoints, data=place.data, device=place.device, watch=told, until=until)
    (until or Deadline()).require(place.guess(JUDGING), f"judging {part_name(config)}")
    data = evaluation_data(config, place.data, place.device)

    def judged(given: SequenceBatch, filter: Filter) -> list[dict[str, Any]]:
        return rows(config.seed, config.runs, metrics=judge(filter, config, given, runs=config.runs, device=place.device))

    blind = replace(where, stages={f"{setting}-shuffled": stage for setting, stage in where.stages.items()})
    paths = report(trained, blind, place, notes, partial(judged, shuffled(data)))
    description = {"task": "maze", **asdict(config), "runs": 1}
    weights = (lambda median: description) if config.pretrained else None
    paths += report(trained, where, place, notes, partial(judged, data), description=weights)
    clear(config.method, place.checkpoints)
    return paths


def judge(
    filter: Filter, config: Config, data: SequenceBatch, *, runs: int | None = None, device: str = "cpu"
) -> dict[str, Tensor]:
    """The metrics on given walks, in the units of the paper; each ``[R]`` for a filter with a run axis.

    Args:
        filter: A trained filter.
        config: How it was trained.
        data: Walks to judge by.
        runs: How many runs it holds; ``None`` for a filter without a run axis.
        device: Where to compute.
    """
    task = mazes.task(config.maze)
    found = evaluate(
        filter,
        data,
        prior=task.prior,
        num_particles=config.particles,
        runs=runs,
        limit_lost=task.limit_lost,
        batch=max(1, WALKS_AT_A_TIME[torch.device(device).type] // (runs or 1)),
        units=units(config).to(device),
        generator=torch.Generator(device).manual_seed(config.seed),
    )
    return {name: values.cpu() for name, values in found.metrics.items()}


def shuffled(data: SequenceBatch) -> SequenceBatch:
    """Every walk with the images of another one, and its own actions: only who looks at images suffers."""
    return data._replace(observations=data.observations.roll(1, 0))


def judge_dead_reckoning(config: Config, folder: Path, data: SequenceBatch) -> Path:
    """Judge who starts as a recurrent network does, at one displaced pose, and trusts actions alone."""
    began = time.monotonic()
    task, factors = mazes.task(config.maze), units(config).to(data.states.device)
    generator = torch.Generator(data.states.device).manual_seed(config.seed)
    assert data.actions is not None
    actions = data.actions * data.actions.new_tensor([1.0, -1.0 if config.conventions == "original" else 1.0, 1.0])
    start = task.prior(data.states[:, 0], 1, generator=generator)[:, 0]
    squares = (task.space.difference(dead_reckoning(start, actions), data.states) * factors).square()
    nothing = torch.zeros_like(squares[..., 0])
    frames = Frames(nothing, nothing, squares[..., 0] + squares[..., 1], squares[..., 2], nothing + 1, nothing)
    found = {
        name: value
        for name, value in summarise(frames, limit=task.limit_lost).items()
        if name in ("rmse", "rmse_paper", "position_rmse", "angle_rmse", "lost")
    }
    runs = [{"seed": config.seed, "metrics": {name: value.item() for name, value in found.items()}}]
    spent = provenance(time.monotonic() - began, device=data.states.device)
    return results.save(Result(EXPERIMENT, DEAD_RECKONING, runs, _reckoning_notes(config), spent, f"maze-{config.maze}"), folder)


def _training(config: Config, place: Place, *, needs: tuple[str, ...] = ()) -> Part:
    def do(until: Deadline) -> None:
        study(config, place, until=until)

    return Part(part_name(config), do, lambda: filed(config).done(place.folder, describe(config)), needs)


def _dead_reckoning(config: Config, place: Place) -> Part:
    path = place.folder / file_name(DEAD_RECKONING, f"maze-{config.maze}")

    def do(until: Deadline) -> None:
        judge_dead_reckoning(config, place.folder, evaluation_data(config, place.data, place.device))

    def done() -> bool:
        return results.load_same(path, _reckoning_notes(config)) is not None

    return Part(f"dead reckoning in maze {config.maze}", do, done)


def _reckoning_notes(config: Config) -> dict[str, Any]:
    sizes = {"walks": SIZES[config.preset].evaluation, "seed": config.seed}
    return sizes | {"maze": config.maze, "conventions": config.conventions, "recordings": config.recordings}


def _global(config: Config, place: Place, particles: int, scope: Scope) -> Part:
    setting = f"maze-{config.maze}-anywhere-{particles}"
    notes = describe(config) | {"test_particles": particles, "test_walks": scope.num_walks}
    source = weights_file(place.folder, config.method, f"maze-{config.maze}")

    def do(until: Deadline) -> None:
        began = time.monotonic()
        filter, trained = load_run(source)
        # Walks of their own, so that nothing is rendered that is not looked at.
        found = maze_global.judge(filter.to(place.device), trained, particles, scope.num_walks, device=place.device)
        runs = [{"seed": config.seed, "metrics": found}]
        spent = provenance(time.monotonic() - began, device=place.device)
        results.save(Result(EXPERIMENT, config.method, runs, notes, spent, setting), place.folder)

    def done() -> bool:
        return results.load_same(place.folder / file_name(config.method, setting), notes) is not None

    name = f"{config.method} anywhere in maze {config.maze} with {particles} particles"
    return Part(name, do, done, (part_name(config),), place.guess(20))


def _urgency(part: Part) -> int:
    """Trainings of all mazes before what is left out first; dead reckoning has to wait for what they need too."""
    return next((place for place, word in enumerate(("dead reckoning", "scratch", "anywhere"), 1) if word in part.name), 0)
