"""Files of sequences: writing those of a task, and looking into any."""

from pathlib import Path
from typing import Annotated

import typer

from mdpf.cli.app import OUT, app, choose


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

    chosen = choose("task", task, TASKS)()
    files.write(out, chosen.split(split, seed=seed), chosen.space)
    OUT.print(f"Wrote {out}.")


@app.command()
def check(path: Annotated[Path, typer.Argument(help="A file of sequences.")]) -> None:
    """Say what is in a file of sequences, and what is wrong with it."""
    from mdpf.data import files

    summary = files.summarise(path)
    for finding in summary.findings:
        OUT.print(f"{finding.severity}: {finding.message}", soft_wrap=True)
    if not summary.ok:
        raise typer.Exit(2)
    shortest, longest = summary.lengths
    doubtful = any(finding.severity == "warning" for finding in summary.findings)
    state = "it can be trained on, but see the warnings" if doubtful else "ready to train on"
    lengths = f"{longest}" if shortest == longest else f"{shortest} to {longest}"
    OUT.print(f"{summary.num_sequences} sequences of {lengths} frames; {state}.", highlight=False)
    kind = "images" if summary.image else "vectors"
    OUT.print(f"observations: {kind} {list(summary.observation)}, {summary.observed:.0%} of the frames", highlight=False)
    OUT.print(f"labels: {summary.labelled:.0%} of the frames; actions: {summary.action_dim or 'none'}", highlight=False)
    for coordinate in summary.coordinates:
        unit = " (angle)" if coordinate.angle else ""
        OUT.print(f"  {coordinate.name}{unit}: {coordinate.smallest:.4g} to {coordinate.largest:.4g}", highlight=False)
