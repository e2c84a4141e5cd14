"""Training a method on a task, or on a file of sequences."""

from pathlib import Path
from typing import Annotated, Any

import typer

from mdpf.cli.app import OUT, app, choose, device_of
from mdpf.data.atomic import check_folder

SHOWN = ("nll", "nll_paper", "rmse_paper", "position_rmse", "angle_rmse", "lost")


@app.command()
def train(
    task: Annotated[str, typer.Argument(help="Which task, or a file of sequences (.npz).")],
    method: Annotated[str, typer.Argument(help="Which method; `mdpf methods` lists them.")],
    runs: Annotated[int, typer.Option(help="How many independent runs, trained at once.", min=1)] = 1,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    particles: Annotated[int | None, typer.Option(help="How many, in training and evaluation; by default 25.", min=1)] = None,
    preset: Annotated[str | None, typer.Option(help="paper, fast or quick, for bearings also long; by default fast.")] = None,
    bound: Annotated[
        float | None,
        typer.Option(help="Bearings: the largest change of a coordinate in a frame; by default 1.6, in the paper 0.99.", min=0),
    ] = None,
    width: Annotated[int | None, typer.Option(help="Of every layer; by default 32, for bearings 8 unless quick.", min=1)] = None,
    start: Annotated[
        str | None, typer.Option(help="Files: start around the known first state, or anywhere in the box of all states.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    out: Annotated[
        Path | None, typer.Option(help="The folder for checkpoints, results and weights; by default runs/ and a name.")
    ] = None,
) -> None:
    """Train a method and evaluate it; goes on where it was interrupted."""
    given = {"particles": particles, "preset": preset, "bound": bound, "hidden_dim": width, "start": start}
    options = {name: value for name, value in given.items() if value is not None}
    options |= {"runs": runs, "seed": seed}
    check_folder(out or "runs")
    if Path(task).suffix == ".npz" or Path(task).exists():
        _train_on_file(Path(task), method, options, device, out)
    else:
        _train_on_task(task, method, options, device, out)


def _train_on_task(task: str, method: str, options: dict[str, Any], device: str, out: Path | None) -> None:
    from mdpf.recipes import bearings, bearings_beyond, bearings_study
    from mdpf.recipes.methods import METHODS
    from mdpf.recipes.studies import Place
    from mdpf.report.events import events
    from mdpf.report.progress import epochs
    from mdpf.training import processes

    mazes = {f"maze-{number}": number for number in (1, 2, 3)}
    if task == "homes":
        raise ValueError(
            f"mdpf train needs bearings, maze-1, maze-2, maze-3 or a file of sequences, got {task!r}, whose images are rendered "
            f"while it is learned. `mdpf reproduce house --methods {method}` trains a method on it."
        )
    choose("task", task, {"bearings": 0, **mazes})
    if task in mazes:
        _train_in_maze(mazes[task], method, options, device, out)
        return
    choose("method", method, {**METHODS, **bearings_beyond.PLUS})
    if "preset" in options:
        choose("preset", options["preset"], bearings.PRESETS)
    _refuse("start", options, f"the task {task}", "Where it starts belongs to the task.")
    if (count := processes.place().count) > 1:
        raise ValueError(
            f"mdpf train {task} needs to be one process, got {count}. It trains all runs at once on one device; "
            "files of sequences can be shared by several."
        )
    config, where = bearings_beyond.named(method, **options)
    device, out = device_of(device), Path("runs") / task if out is None else out
    with epochs(OUT) as show, events(out / "events", lambda name, epoch: show(epoch)) as watch:
        paths = bearings_study.study(config, Place(out, out / "training", device, watch), where=where)
    _tell(paths, method)


def _train_in_maze(number: int, method: str, options: dict[str, Any], device: str, out: Path | None) -> None:
    from mdpf.recipes import maze_study, mazes
    from mdpf.recipes.methods import METHODS
    from mdpf.recipes.studies import Place
    from mdpf.report.events import events
    from mdpf.report.progress import epochs

    choose("method", method, METHODS)
    choose("preset", options.get("preset", "fast"), mazes.PRESETS)
    _refuse("start", options, f"the task maze-{number}", "Where it starts belongs to the task.")
    _refuse("hidden_dim", options, f"the task maze-{number}", "Its networks have the sizes of the paper's.", "width")
    if "bound" in options:
        options["bound"] = (options["bound"], options["bound"], 1.0, 1.0)
    config = mazes.Config(method, number, **options)
    device, out = device_of(device), Path("runs") / f"maze-{number}" if out is None else out
    with epochs(OUT) as show, events(out / "events", lambda name, epoch: show(epoch)) as watch:
        place = Place(out, out / "training", device, lambda name, epoch: watch(method, epoch))
        paths = maze_study.study(config, place)
    _tell([path for path in paths if "-shuffled" not in path.name], method)


def _tell(paths: list[Path], method: str) -> None:
    """Say what was written, and of results the best of the middle runs."""
    from mdpf.evaluation.results import load

    for path in paths:
        OUT.print(f"Wrote {path}.", highlight=False)
        if path.suffix == ".json":
            result = load(path)
            numbers = {name: result.metric(name) for name in SHOWN}
            best_first = {name: sorted(values)[(len(values) - 1) // 2] for name, values in numbers.items()}
            OUT.print(f"{method} ({result.setting}): " + ", ".join(f"{name} {value:.2f}" for name, value in best_first.items()))


def _train_on_file(path: Path, method: str, options: dict[str, Any], device: str, out: Path | None) -> None:
    from mdpf.data import files
    from mdpf.recipes import logs, logs_study
    from mdpf.recipes.methods import METHODS
    from mdpf.report import comparison
    from mdpf.report.events import events
    from mdpf.report.progress import epochs
    from mdpf.training import processes

    choose("method", method, METHODS)
    choose("preset", options.get("preset", "fast"), logs.PRESETS)
    _refuse("bound", options, "a file of sequences", "It is derived from the data.")
    config, device = logs.Config(method, **options), device_of(device)
    summary = files.summarise(path)
    if not summary.ok:
        raise ValueError(summary.findings[0].message)
    for finding in summary.findings if processes.place().rank == 0 else ():
        OUT.print(f"{finding.severity}: {finding.message}", soft_wrap=True)
    out = Path("runs") / path.stem if out is None else out
    logs_study.check(config, path, out)
    with processes.joined(device) as own:
        if processes.rank():
            # The first of several processes shows, judges and writes.
            logs_study.study(config, path, out, device=own)
            return
        with (
            epochs(OUT) as show,
            events(out / "events", lambda name, epoch: show(epoch._replace(stage=f"{name} {epoch.stage}"))) as watch,
        ):
            found = logs_study.study(config, path, out, device=own, watch=watch)
    for written in found.paths:
        OUT.print(f"Wrote {written}.", highlight=False)
    OUT.print(comparison.table([*found.results, *found.baselines]), markup=False, highlight=False)
    OUT.print(comparison.verdict(found.results[0], found.baselines), highlight=False, markup=False, soft_wrap=True)


def _refuse(name: str, options: dict[str, Any], what: str, why: str, flag: str | None = None) -> None:
    if name in options:
        raise ValueError(f"mdpf train needs no --{flag or name} for {what}, got {options[name]!r}. {why}")
