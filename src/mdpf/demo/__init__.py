"""A first look: track with weights that come with the package, see a posterior with several modes, train a small filter, report.

The weights beside this file are copies of those of the median runs in ``results/bearings/weights``; ``mdpf.demo.ship`` makes them.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import resources
from pathlib import Path

import torch

from mdpf.evaluation import beliefs
from mdpf.evaluation.evaluate import evaluate
from mdpf.recipes import bearings_beyond, bearings_panels, bearings_study
from mdpf.recipes.bearings import load_run
from mdpf.recipes.filing import weights_file
from mdpf.recipes.studies import Place
from mdpf.report import animation, page
from mdpf.tasks import bearings
from mdpf.training import fit

SHIPPED = ("A-MDPF", "MDPF")  # The one that tracks first.
CARS = 200
PARTICLES = 25
SHOWN = 4  # Cars whose beliefs are kept for the report.
FRAMES = range(60)
PRESET = "demo"

Tell = Callable[[str], object]
Bars = Callable[[], AbstractContextManager[fit.Watch]]


def run(folder: Path, tell: Tell, bars: Bars, *, preset: str = PRESET) -> Path:
    """Do all of it, and return the page to open.

    Args:
        folder: Where to write.
        tell: Is told about every step, in a line.
        bars: Shows the progress of a training.
        preset: How long to train.
    """
    began, results = time.monotonic(), folder / "bearings"
    data = bearings.task().split("evaluation", num_sequences=CARS)
    name, path = shipped()
    tell(f"1. A radar sees the direction of a car, never its distance. {name} tracks {CARS} cars with weights from the package.")
    filter = load_run(path)
    found = evaluate(
        filter,
        data,
        prior=bearings.task().prior,
        num_particles=PARTICLES,
        limit_lost=bearings.task().limit_lost,
        generator=torch.Generator().manual_seed(0),
    )
    numbers = {key: found.metrics[key].item() for key in ("nll", "position_rmse", "lost")}
    tell("   " + _words(numbers) + f" ({time.monotonic() - began:.0f} s so far)")

    tracked = bearings_panels.believe(filter, data.take(slice(0, bearings_panels.SEARCHED)), PARTICLES)
    several = bearings_panels.most_modes(tracked)
    tell("2. The car about which most hypotheses are alive, as a film:")
    film = animation.save(animation.render(several, 0, FRAMES, pixels=360), folder / "posterior.gif", fps=6)
    tell(f"   {film} ({time.monotonic() - began:.0f} s)")
    beliefs.write(folder / "several-modes.npz", several)
    beliefs.write(folder / "shipped-weights.npz", tracked.take(slice(0, SHOWN)))

    tell("3. Training a small MDPF from nothing.")
    config, _ = bearings_beyond.named("MDPF", preset=preset)
    with bars() as watch:
        bearings_study.study(config, Place(results, folder / "training", watch=lambda name, epoch: watch(epoch)))
    trained = load_run(weights_file(results, "MDPF"))
    own = bearings_panels.believe(trained, data.take(slice(0, SHOWN)), config.particles)
    beliefs.write(folder / "trained-here.npz", own)
    tell(f"   {results / 'weights' / 'MDPF.safetensors'} ({time.monotonic() - began:.0f} s)")

    written = page.write(page.collect(folder), folder / "report.html", title="mdpf: a first look")
    tell(f"4. Done in {time.monotonic() - began:.0f} s. Open {written} in a browser: it shows what both believe, frame by frame.")
    return written


def shipped() -> tuple[str, Path]:
    """The first of ``SHIPPED`` that came with the package."""
    for name in SHIPPED:
        path = Path(str(resources.files("mdpf.demo").joinpath(f"{name}.safetensors")))
        if path.is_file():
            return name, path
    raise FileNotFoundError("The demo needs the weights that come with the package, got none. Install mdpf again.")


def _words(numbers: dict[str, float]) -> str:
    return (
        f"Negative log-likelihood {numbers['nll']:.2f}, position error {numbers['position_rmse']:.2f}, "
        f"{numbers['lost']:.0%} lost after {bearings.SPLITS[-1].length} frames."
    )
