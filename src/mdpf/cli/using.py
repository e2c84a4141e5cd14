"""Using a trained run: judging it, following recordings with it, handing it to other runtimes."""

from pathlib import Path
from typing import Annotated

import typer

from mdpf.cli.app import OUT, app, device_of

RUN = Annotated[Path, typer.Argument(help="The folder of a training, or a file of weights in it.")]
DATA = Annotated[Path, typer.Option(help="A file of sequences.")]


@app.command()
def evaluate(
    run: RUN,
    data: DATA,
    particles: Annotated[int | None, typer.Option(help="How many; as many as in training by default.", min=1)] = None,
    json: Annotated[Path | None, typer.Option(help="Write all numbers into this file.")] = None,
    seed: Annotated[int, typer.Option(help="Of the random numbers.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Judge a trained run on sequences whose states are known."""
    from mdpf.data.atomic import check_place
    from mdpf.evaluation import results
    from mdpf.recipes import runs, using

    if json is not None:
        check_place(json)
    found = using.judge(runs.open_run(run), data, particles=particles, seed=seed, device=device_of(device))
    for name, value in found["metrics"].items():
        OUT.print(f"{name:20} {value:.4g}", highlight=False)
    if found["degenerate"]:
        OUT.print(f"No particle was possible at {len(found['degenerate'])} frames, the first is {found['degenerate'][0]}.")
    if json is not None:
        results.write_json(json, found)
        OUT.print(f"Wrote {json}.", highlight=False)


@app.command()
def track(
    run: RUN,
    data: DATA,
    out: Annotated[Path, typer.Option(help="The file of beliefs to write (.npz).")],
    particles: Annotated[int | None, typer.Option(help="How many; as many as in training by default.", min=1)] = None,
    start: Annotated[
        str, typer.Option(help="around the known first state, or anywhere in the box of the training data.")
    ] = "around",
    recover: Annotated[
        float, typer.Option(help="Where the track is lost, replace this share of the particles by fresh ones.", min=0, max=0.99)
    ] = 0.0,
    sequences: Annotated[int | None, typer.Option(help="Follow the first so many only.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Of the random numbers.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Follow recorded sequences step by step, as on a robot, and write what was believed."""
    from mdpf.data.atomic import check_place
    from mdpf.evaluation import beliefs
    from mdpf.recipes import runs, using

    check_place(out)
    found = using.track(
        runs.open_run(run),
        data,
        particles=particles,
        start=start,
        recover=recover,
        seed=seed,
        device=device_of(device),
        sequences=sequences,
    )
    beliefs.write(out, found)
    OUT.print(f"Wrote {out}: {found.num_sequences} sequences of {found.length} frames.", highlight=False)


@app.command()
def export(
    run: RUN,
    out: Annotated[Path, typer.Option(help="The program to write: .pt2 for torch.export, .onnx for ONNX runtimes.")],
    particles: Annotated[int | None, typer.Option(help="How many it has; as many as in training by default.", min=1)] = None,
) -> None:
    """Write the step of a trained run as a program for other runtimes."""
    from mdpf.recipes import runs
    from mdpf.tracking import export as exporting

    description = exporting.export(runs.load(run), out, num_particles=particles)
    OUT.print(f"Wrote {out}.", highlight=False)
    for name, entry in description["inputs"].items():
        drawn = f", {entry['draw']} random numbers" if "draw" in entry else ""
        OUT.print(f"  in: {name} {entry['dtype']} {entry['shape']}{drawn}", highlight=False, markup=False)
    OUT.print(f"  out: {', '.join(description['outputs'])}", soft_wrap=True)
