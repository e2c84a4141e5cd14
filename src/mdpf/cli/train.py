"""Training a method."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from mdpf.cli.app import OUT, app, choose, device_of


@app.command()
def train(
    task: Annotated[str, typer.Argument(help="Which task.")],
    method: Annotated[str, typer.Argument(help="Which method; `mdpf methods` lists them.")],
    runs: Annotated[int, typer.Option(help="How many independent runs, trained at once.", min=1)] = 1,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    particles: Annotated[int, typer.Option(help="How many, in training and evaluation.", min=1)] = 25,
    preset: Annotated[str, typer.Option(help="paper, fast or quick.")] = "fast",
    bound: Annotated[float, typer.Option(help="The largest change of a coordinate in one frame; the paper has 0.99.")] = 1.6,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    out: Annotated[Path, typer.Option(help="The folder for checkpoints, results and weights.")] = Path("runs/bearings"),
) -> None:
    """Train a method on a task and evaluate it; goes on where it was interrupted."""
    from mdpf.evaluation.results import load
    from mdpf.recipes import bearings, bearings_study
    from mdpf.recipes.methods import METHODS
    from mdpf.report.events import events
    from mdpf.report.progress import epochs

    choose("task", task, {"bearings": bearings})
    choose("method", method, METHODS)
    choose("preset", preset, bearings.PRESETS)
    config = bearings.Config(method, runs, seed, particles, preset, bound)
    with epochs(OUT) as show, events(out / "events", lambda name, epoch: show(epoch)) as watch:
        watch = partial(watch, method)
        paths = bearings_study.study(config, out, work=out / "training", device=device_of(device), watch=watch)
    for path in paths:
        OUT.print(f"Wrote {path}.", highlight=False)
        if path.suffix == ".json":
            result = load(path)
            shown = ("nll", "nll_paper", "rmse_paper", "position_rmse", "angle_rmse", "lost")
            numbers = {name: result.metric(name) for name in shown}
            best_first = {name: sorted(values)[(len(values) - 1) // 2] for name, values in numbers.items()}
            OUT.print(f"{method} ({result.setting}): " + ", ".join(f"{name} {value:.2f}" for name, value in best_first.items()))
