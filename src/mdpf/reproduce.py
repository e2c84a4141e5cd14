"""Every figure and table that can be reproduced: how its results are computed, and how it is drawn from them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from mdpf.recipes import bearings, shifting, toy, variance
from mdpf.recipes.methods import METHODS
from mdpf.report import progress, style
from mdpf.report import shifting as shifting_figure
from mdpf.report import toy as toy_figure

CONSOLE = Console()


class Choices(NamedTuple):
    """What whoever reproduces a figure may choose.

    Args:
        seeds: How many independent runs, where the figure has runs; ``None`` for as many as the paper has.
        device: Where to compute: ``"cpu"``, ``"cuda"``.
    """

    seeds: int | None = None
    device: str = "cpu"


@dataclass(frozen=True)
class Reproduction:
    """One figure or table.

    Args:
        run: Computes the results into a folder.
        draw: Draws from the results in a folder and returns the files it wrote.
        folder: Its folder among the results; by default that of its own name.
    """

    run: Callable[[Path, Choices], object]
    draw: Callable[[Path], list[Path]]
    folder: str | None = None


def _run_toy(folder: Path, choices: Choices) -> object:
    with progress.updates(CONSOLE, toy.METHODS, toy.Config().updates) as watch:
        return toy.run(folder, num_runs=choices.seeds or 5, watch=watch)


def _run_bearings(folder: Path, choices: Choices) -> object:
    work = Path("runs") / "bearings"
    for method in METHODS:
        with progress.epochs(CONSOLE) as watch:
            bearings.study(bearings.Config(method, runs=choices.seeds or 11), folder, work=work, watch=watch)
    return None


def _draw_toy(folder: Path) -> list[Path]:
    main = style.save(toy_figure.draw(folder, ("B", "w2", "C1")), folder / "toy.png")
    return [main, style.save(toy_figure.draw(folder), folder / "toy-all.png")]


def _draw_shifting(folder: Path) -> list[Path]:
    return [style.save(shifting_figure.draw(folder), folder / "shifting.png")]


def _draw_nothing(folder: Path) -> list[Path]:
    """A table: its numbers are put into the documentation from the files themselves."""
    return []


FIGURES = {
    "toy": Reproduction(_run_toy, _draw_toy),
    "shifting": Reproduction(lambda folder, choices: shifting.run(folder), _draw_shifting),
    "variance": Reproduction(lambda folder, choices: variance.run(folder), _draw_nothing),
    "bearings": Reproduction(_run_bearings, _draw_nothing),
}
