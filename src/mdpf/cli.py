"""The command line: the one place where words choose code.

Exit codes: 0 done, 1 failed, 2 the call was wrong. Errors are one message on stderr; ``--debug`` shows the traceback.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console

from mdpf import reproduce

app = typer.Typer(
    name="mdpf",
    help="Track with several hypotheses alive: learned particle filters whose posterior is a mixture density.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
OUT = Console()
ERR = Console(stderr=True)

Choice = TypeVar("Choice")

# What a wrong call raises; everything else that is raised has failed.
WRONG_CALL = (ValueError, TypeError, FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    threads: Annotated[int, typer.Option(help="How many threads a computation may use.", min=1)] = 1,
) -> None:
    """Set what holds for every command."""
    import torch

    del debug  # Looked at by main, which sees every error.
    torch.set_num_threads(threads)


@app.command()
def tasks() -> None:
    """List the tasks there are, one line each."""
    from mdpf.tasks import TASKS

    for name, make in TASKS.items():
        OUT.print(f"[bold]{name:10}[/bold] {(make.__doc__ or '').strip().splitlines()[0]}")


@app.command()
def data(
    task: Annotated[str, typer.Argument(help="Which task; `mdpf tasks` lists them.")],
    out: Annotated[Path, typer.Option(help="The file to write.")],
    split: Annotated[str, typer.Option(help="Which part of its data.")] = "train",
    seed: Annotated[int, typer.Option(help="Which data set of all possible ones.")] = 0,
) -> None:
    """Write one split of a task as plain arrays."""
    from mdpf.data import files
    from mdpf.tasks import TASKS

    chosen = _choose("task", task, TASKS)()
    files.write(out, chosen.split(split, seed=seed), chosen.space)
    OUT.print(f"Wrote {out}.")


@app.command()
def methods() -> None:
    """List the methods there are, one line each."""
    from mdpf.recipes.methods import METHODS

    for name, method in METHODS.items():
        OUT.print(f"[bold]{name:10}[/bold] {method.summary}")


@app.command()
def train(
    task: Annotated[str, typer.Argument(help="Which task.")],
    method: Annotated[str, typer.Argument(help="Which method; `mdpf methods` lists them.")],
    runs: Annotated[int, typer.Option(help="How many independent runs, trained at once.", min=1)] = 1,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    particles: Annotated[int, typer.Option(help="How many, in training and evaluation.", min=1)] = 25,
    preset: Annotated[str, typer.Option(help="paper, fast or quick.")] = "fast",
    bound: Annotated[float, typer.Option(help="The largest change of a coordinate in one frame; the paper has 0.99.")] = 1.6,
    out: Annotated[Path, typer.Option(help="The folder for checkpoints, results and weights.")] = Path("runs/bearings"),
) -> None:
    """Train a method on a task and evaluate it; goes on where it was interrupted."""
    from mdpf.evaluation.results import load
    from mdpf.recipes import bearings
    from mdpf.recipes.methods import METHODS
    from mdpf.report.progress import epochs

    _choose("task", task, {"bearings": bearings})
    _choose("method", method, METHODS)
    _choose("preset", preset, bearings.PRESETS)
    config = bearings.Config(method, runs, seed, particles, preset, bound)
    with epochs(OUT) as watch:
        paths = bearings.study(config, out, work=out / "training", watch=watch)
    for path in paths:
        OUT.print(f"Wrote {path}.", highlight=False)
        if path.suffix == ".json":
            result = load(path)
            shown = ("nll", "nll_paper", "rmse_paper", "position_rmse", "angle_rmse", "lost")
            numbers = {name: result.metric(name) for name in shown}
            best_first = {name: sorted(values)[(len(values) - 1) // 2] for name, values in numbers.items()}
            OUT.print(f"{method} ({result.setting}): " + ", ".join(f"{name} {value:.2f}" for name, value in best_first.items()))


@app.command()
def check(path: Annotated[Path, typer.Argument(help="A file of sequences.")]) -> None:
    """Say what is in a file of sequences, and what is wrong with it."""
    from mdpf.data import files

    summary = files.summarise(path)
    for finding in summary.findings:
        OUT.print(f"[bold]{finding.severity}[/bold]: {finding.message}", highlight=False)
    if not summary.ok:
        raise typer.Exit(2)
    shortest, longest = summary.lengths
    OUT.print(f"{summary.num_sequences} sequences of {shortest} to {longest} frames; ready to train on.", highlight=False)
    kind = "images" if summary.image else "vectors"
    OUT.print(f"observations: {kind} {list(summary.observation)}, {summary.observed:.0%} of the frames", highlight=False)
    OUT.print(f"labels: {summary.labelled:.0%} of the frames; actions: {summary.action_dim or 'none'}", highlight=False)
    for coordinate in summary.coordinates:
        unit = " (angle)" if coordinate.angle else ""
        OUT.print(f"  {coordinate.name}{unit}: {coordinate.smallest:.4g} to {coordinate.largest:.4g}", highlight=False)


@app.command()
def diagnose(
    model: Annotated[str, typer.Argument(help="linear-gaussian, bimodal, or the weights file of a trained run.")],
    particles: Annotated[int, typer.Option(help="How many particles the filters have.", min=1)] = 25,
    replicates: Annotated[int, typer.Option(help="How many gradients of each estimator.", min=2)] = 64,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    figure: Annotated[Path | None, typer.Option(help="Draw the comparison into this file (png, svg, pdf).")] = None,
) -> None:
    """Compare every gradient estimator with the truth: bias, spread and time, and a hint what to use."""
    from mdpf.recipes import diagnoses
    from mdpf.report import diagnosis, style

    if Path(model).suffix == ".safetensors":
        found = diagnoses.trained_run(Path(model), num_particles=particles, replicates=replicates, seed=seed)
    else:
        found = _choose("model", model, diagnoses.MODELS)(num_particles=particles, replicates=replicates, seed=seed)
    OUT.print(found.table(width=OUT.width), highlight=False, markup=False)
    if figure is not None:
        OUT.print(f"Wrote {style.save(diagnosis.draw(found), figure)}.", highlight=False)


@app.command(name="reproduce")
def reproduce_figure(
    figure: Annotated[str, typer.Argument(help=f"One of {', '.join(reproduce.FIGURES)}, all.")],
    out: Annotated[Path, typer.Option(help="Where the folders of results are.")] = Path("results"),
    seeds: Annotated[
        int | None, typer.Option(help="How many independent runs; as many as the paper has by default.", min=1)
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    redraw: Annotated[bool, typer.Option("--redraw", help="Draw from the results there are; compute nothing.")] = False,
) -> None:
    """Compute the results behind a figure of the paper and draw it."""
    chosen = list(reproduce.FIGURES) if figure == "all" else [figure]
    for name in chosen:
        entry = _choose("figure", name, reproduce.FIGURES)
        folder = out / (entry.folder or name)
        if not redraw:
            entry.run(folder, reproduce.Choices(seeds, _device(device)))
        for path in entry.draw(folder):
            OUT.print(f"Wrote {path}.", highlight=False)


def _device(name: str) -> str:
    """The device a word means; ``auto`` is a CUDA device if there is one."""
    import torch

    known = {"auto": "cuda" if torch.cuda.is_available() else "cpu", "cpu": "cpu", "cuda": "cuda"}
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(
            f"mdpf needs a CUDA device for --device {name}, got none. Use --device cpu, or auto for whatever is there."
        )
    return name if name.startswith("cuda:") else _choose("device", name, known)


def _choose(kind: str, name: str, known: Mapping[str, Choice]) -> Choice:
    if name not in known:
        raise ValueError(f"mdpf needs a known {kind}, got {name!r}. Known are: {', '.join(known)}.")
    return known[name]


def main(words: list[str] | None = None) -> None:
    """Run a command and turn its errors into one message and an exit code."""
    words = sys.argv[1:] if words is None else words
    try:
        app(words, prog_name="mdpf")
    except WRONG_CALL as error:
        _fail(error, words, code=2)
    except KeyboardInterrupt:
        ERR.print("Stopped.")
        sys.exit(1)
    except Exception as error:
        _fail(error, words, code=1)


def _fail(error: Exception, words: list[str], code: int) -> None:
    if "--debug" in words:
        raise error
    ERR.print(str(error) or type(error).__name__, style="red", highlight=False, markup=False, soft_wrap=True)
    sys.exit(code)
