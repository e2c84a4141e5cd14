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
    particles: Annotated[int | None, typer.Option(help="How many, in training and evaluation; by default 25.", min=1)] = None,
    preset: Annotated[str | None, typer.Option(help="paper, fast, quick or long; by default fast.")] = None,
    bound: Annotated[
        float | None,
        typer.Option(help="The largest change of a coordinate in one frame; by default 1.6, in the paper 0.99.", min=0),
    ] = None,
    width: Annotated[int | None, typer.Option(help="Of every layer; by default 8, and 32 if it is to be quick.", min=1)] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    out: Annotated[Path, typer.Option(help="The folder for checkpoints, results and weights.")] = Path("runs/bearings"),
) -> None:
    """Train a method on a task and evaluate it; goes on where it was interrupted."""
    from mdpf.evaluation.results import load
    from mdpf.recipes import bearings, bearings_beyond, bearings_study
    from mdpf.recipes.methods import METHODS
    from mdpf.report.events import events
    from mdpf.report.progress import epochs

    choose("task", task, {"bearings": bearings})
    choose("method", method, {**METHODS, **bearings_beyond.PLUS})
    if preset is not None:
        choose("preset", preset, bearings.PRESETS)
    options = {"particles": particles, "preset": preset, "bound": bound, "hidden_dim": width}
    given = {name: value for name, value in options.items() if value is not None}
    config, where = bearings_beyond.named(method, runs, seed, **given)
    with epochs(OUT) as show, events(out / "events", lambda name, epoch: show(epoch)) as watch:
        watch = partial(watch, method)
        paths = bearings_study.study(config, out, work=out / "training", device=device_of(device), where=where, watch=watch)
    for path in paths:
        OUT.print(f"Wrote {path}.", highlight=False)
        if path.suffix == ".json":
            result = load(path)
            shown = ("nll", "nll_paper", "rmse_paper", "position_rmse", "angle_rmse", "lost")
            numbers = {name: result.metric(name) for name in shown}
            best_first = {name: sorted(values)[(len(values) - 1) // 2] for name, values in numbers.items()}
            OUT.print(f"{method} ({result.setting}): " + ", ".join(f"{name} {value:.2f}" for name, value in best_first.items()))
