"""Every figure that can be reproduced: how its results are computed, and how it is drawn from them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Reproduction:
    """One figure.

    Args:
        run: Computes the results into a folder, with so many seeds.
        draw: Draws from the results in a folder and returns the files it wrote.
    """

    run: Callable[[Path, int], object]
    draw: Callable[[Path], list[Path]]


def _run_shifting(folder: Path, seeds: int) -> object:
    from mdpf.recipes import shifting

    return shifting.run(folder)


def _draw_shifting(folder: Path) -> list[Path]:
    from mdpf.report import shifting, style

    return [style.save(shifting.draw(folder), folder / "shifting.png")]


FIGURES = {
    "shifting": Reproduction(_run_shifting, _draw_shifting),
}
