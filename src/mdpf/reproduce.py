"""Every figure and table that can be reproduced: how its results are computed, and how it is drawn from them."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console

from mdpf.benchmarks import suite, table
from mdpf.recipes import (
    bearings,
    bearings_beyond,
    bearings_kernels,
    bearings_panels,
    bearings_study,
    house,
    house_modes,
    house_study,
    maze_panels,
    maze_study,
    mazes,
    parts,
    shifting,
    toy,
    variance,
)
from mdpf.recipes.studies import Place
from mdpf.report import bearings as bearings_figures
from mdpf.report import events, house_figures, maze_figures, progress, style
from mdpf.report import shifting as shifting_figure
from mdpf.report import timing as timing_figure
from mdpf.report import toy as toy_figure
from mdpf.tasks.mazes import geometry

CONSOLE = Console()


class Choices(NamedTuple):
    """What whoever reproduces a figure may choose.

    Args:
        seeds: How many independent runs, where the figure has runs; ``None`` for as many as the paper has.
        device: Where to compute: ``"cpu"``, ``"cuda"``.
        preset: How long to train, where something is trained.
        minutes: Stop in good order before so many minutes are over, where that takes long; the same call goes on.
        jobs: How many parts to compute at once, where there are several.
        work: The folder for what is needed to go on.
        methods: Which methods, where a figure compares several; ``None`` for all of them.
        mazes: Which mazes, by number; ``None`` for all of them.
        recordings: A folder with published recordings, to be used in place of what is rendered here.
    """

    seeds: int | None = None
    device: str = "cpu"
    preset: str = "fast"
    minutes: float | None = None
    jobs: int | None = None
    work: Path = Path("runs")
    methods: tuple[str, ...] | None = None
    mazes: tuple[str, ...] | None = None
    recordings: Path | None = None


@dataclass(frozen=True)
class Reproduction:
    """One figure or table.

    Args:
        run: Computes the results into a folder.
        draw: Draws from the results in a folder and returns the files it wrote.
        folder: Its folder among the results, and that for going on; by default that of its own name.
        options: Which choices make a difference to it, by the names of their options, and the words that each may take; any value
            where there are none.
    """

    run: Callable[[Path, Choices], object]
    draw: Callable[[Path], list[Path]]
    folder: str | None = None
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def refusal(self, given: Mapping[str, Any]) -> str | None:
        """What is wrong with choices that were made for this figure; ``None`` if nothing is."""
        for name, value in given.items():
            if name not in self.options:
                known = ", ".join(f"--{option}" for option in self.options)
                shown = ",".join(value) if isinstance(value, tuple) else value
                return f"no --{name}, got {shown}. " + (f"It heeds {known}." if known else "There is nothing to choose.")
            words, chosen = self.options[name], value if isinstance(value, tuple) else (value,)
            if len(set(chosen)) < len(chosen):
                return f"{name} that differ, got {', '.join(chosen)}."
            for word in chosen:
                if words and word not in words:
                    return f"a known {name.removesuffix('s')}, got {word!r}. Known are: {', '.join(words)}."
        return None


def _run_toy(folder: Path, choices: Choices) -> object:
    with progress.updates(CONSOLE, toy.METHODS, toy.Config().updates) as watch:
        outcome = toy.run(folder, work=choices.work / "toy", num_runs=choices.seeds or 5, minutes=choices.minutes, watch=watch)
    return _tell(outcome)


def _study(
    run: Callable[..., parts.Outcome],
    heeds: tuple[str, ...] = ("methods", "runs", "preset"),
    curves: str | None = None,
    **options: Any,  # noqa: ANN401 - whatever the study takes
) -> Callable[[Path, Choices], object]:
    """How a study is run: with progress on the terminal, and curves beside what is needed to go on.

    Args:
        run: Does what is left of it.
        heeds: Which choices come in place of its own options.
        curves: The folder of its curves; by default it has the name of that for going on.
        options: Its own options.
    """

    def do(folder: Path, choices: Choices) -> object:
        made = {"methods": choices.methods, "runs": choices.seeds, "preset": choices.preset}
        chosen = {name: made[name] for name in heeds if made[name] is not None}
        beside = choices.work / "events" / (curves or folder.name)
        with progress.trainings(CONSOLE) as show, events.events(beside, show) as watch:
            place = Place(folder, choices.work / folder.name, choices.device, watch, choices.minutes, choices.jobs)
            outcome = run(place, **options | chosen)
        return _tell(outcome)

    return do


_run_bearings = _study(bearings_study.run, scope=bearings_study.Scope(particles=(), oracle_particles=0, settings=()))
# What is beside the ten methods: one of them in another setting, and the oracle.
_run_bearings_further = _study(bearings_study.run, methods=("MDPF",), scope=bearings_study.Scope(particles=(), default=False))
# The trained filters with other numbers of particles.
_run_bearings_particles = _study(bearings_study.run, scope=bearings_study.Scope(oracle_particles=0, settings=(), default=False))
_run_paper_schedule = _study(
    bearings_study.run,
    heeds=("runs", "preset"),
    methods=("MDPF",),
    scope=bearings_study.Scope(particles=(), oracle_particles=0, settings=("paper",), default=False),
)
_run_kernels = _study(bearings_kernels.run)
_run_beyond = _study(bearings_beyond.run, heeds=("runs",), curves="bearings")
_run_house = _study(house_study.run)
_run_house_settings = _study(house_study.run, scope=house_study.Scope(settings=tuple(house_study.SETTINGS), default=False))
_run_house_modes = _study(house_modes.run, heeds=())


def _run_maze(folder: Path, choices: Choices) -> object:
    # On the published recordings everything is as it was published: scales, actions, and how far one moves between frames.
    published = {"recordings": str(choices.recordings), "conventions": "original", "bound": (7.0, 7.0, 1.0, 1.0)}
    options: dict[str, Any] = {} if choices.recordings is None else published
    if choices.mazes is not None:
        options["scope"] = maze_study.Scope(mazes=tuple(map(int, choices.mazes)))
    return _study(maze_study.run, **options)(folder, choices)


def _run_maze_panels(folder: Path, choices: Choices) -> object:
    return maze_panels.run(folder, watch=_tell_of_tracking)


def _run_panels(folder: Path, choices: Choices) -> object:
    return bearings_panels.run(folder, watch=_tell_of_tracking)


def _tell_of_tracking(name: str) -> None:
    CONSOLE.print(f"{name} tracks.", highlight=False)


def _tell(outcome: parts.Outcome) -> parts.Outcome:
    parts.tell(outcome, partial(CONSOLE.print, highlight=False, markup=False, soft_wrap=True))
    return outcome


def _draw_toy(folder: Path) -> list[Path]:
    if not all((folder / f"{method}.json").exists() for method in toy.METHODS):
        return []
    main = style.save(toy_figure.draw(folder, ("B", "w2", "C1")), folder / "toy.png")
    return [main, style.save(toy_figure.draw(folder), folder / "toy-all.png")]


def _draw_shifting(folder: Path) -> list[Path]:
    return [style.save(shifting_figure.draw(folder), folder / "shifting.png")]


def _run_timing(folder: Path, choices: Choices) -> object:
    budget = math.inf if choices.minutes is None else 60 * choices.minutes

    def tell(part: str, title: str, rows: list) -> None:
        CONSOLE.print(f"{title}: " + "; ".join(map(table.figure, rows)), highlight=False, markup=False, soft_wrap=True)

    return suite.run([timing_figure.PART], folder, torch.device(choices.device), budget=budget, watch=tell)


def _draw_timing(folder: Path) -> list[Path]:
    return [style.save(timing_figure.draw(folder), folder / "timing.png")]


def _draw_nothing(folder: Path) -> list[Path]:
    """A table: its numbers are put into the documentation from the files themselves."""
    return []


ANY: tuple[str, ...] = ()
PROCESSOR = {"device": ("auto", "cpu")}
MINUTES = {"device": ANY, "minutes": ANY}
STUDY = {"seeds": ANY, **MINUTES, "jobs": ANY}
BEARINGS = {**STUDY, "methods": bearings_study.ORDER, "preset": tuple(bearings.PRESETS)}
MAZES = {
    **STUDY,
    "methods": maze_study.ORDER,
    "preset": tuple(mazes.PRESETS),
    "mazes": tuple(map(str, geometry.NUMBERS)),
    "recordings": ANY,
}
HOMES = {**STUDY, "methods": house_study.ORDER, "preset": tuple(house.PRESETS)}

FIGURES = {
    "toy": Reproduction(_run_toy, _draw_toy, options={**PROCESSOR, "seeds": ANY, "minutes": ANY}),
    "shifting": Reproduction(lambda folder, choices: shifting.run(folder), _draw_shifting, options=PROCESSOR),
    "variance": Reproduction(lambda folder, choices: variance.run(folder), _draw_nothing, options=PROCESSOR),
    "timing": Reproduction(_run_timing, _draw_timing, folder="bench", options=MINUTES),
    "bearings": Reproduction(_run_bearings, bearings_figures.draw_study, options=BEARINGS),
    "bearings-further": Reproduction(_run_bearings_further, bearings_figures.draw_study, folder="bearings", options=STUDY),
    "bearings-particles": Reproduction(_run_bearings_particles, bearings_figures.draw_study, folder="bearings", options=BEARINGS),
    "bearings-epanechnikov": Reproduction(_run_kernels, bearings_figures.draw_kernels, folder="bearings", options=BEARINGS),
    "bearings-beyond": Reproduction(_run_beyond, _draw_nothing, options=STUDY),
    "bearings-paper": Reproduction(_run_paper_schedule, _draw_nothing, folder="bearings", options=STUDY),
    "maze": Reproduction(_run_maze, maze_figures.draw_study, options=MAZES),
    "maze-panels": Reproduction(_run_maze_panels, maze_figures.draw_panels, folder="maze", options=PROCESSOR),
    "house": Reproduction(_run_house, house_figures.draw_study, options=HOMES),
    "house-settings": Reproduction(_run_house_settings, _draw_nothing, folder="house", options=HOMES),
    "house-modes": Reproduction(_run_house_modes, house_figures.draw_modes, folder="house", options=MINUTES),
    "panels": Reproduction(_run_panels, bearings_figures.draw_panels, folder="bearings", options=PROCESSOR),
}
