"""Reproducing the figures and tables of the paper."""

from pathlib import Path
from typing import Annotated

import typer

from mdpf import reproduce
from mdpf.cli.app import OUT, app, choose, device_of


@app.command(name="reproduce")
def reproduce_figure(
    figure: Annotated[str, typer.Argument(help=f"One of {', '.join(reproduce.FIGURES)}, all.")],
    out: Annotated[Path, typer.Option(help="Where the folders of results are.")] = Path("results"),
    seeds: Annotated[
        int | None, typer.Option(help="How many independent runs; as many as the paper has by default.", min=1)
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    preset: Annotated[str, typer.Option(help="How long to train: paper, fast or quick.")] = "fast",
    minutes: Annotated[float | None, typer.Option(help="Stop in good order before; the same call goes on.", min=0)] = None,
    jobs: Annotated[int | None, typer.Option(help="How many methods to train at once.", min=1)] = None,
    methods: Annotated[str | None, typer.Option(help="Only these methods, in this order: MDPF,TG-PF.")] = None,
    work: Annotated[Path, typer.Option(help="The folder for checkpoints.")] = Path("runs"),
    recordings: Annotated[
        Path | None, typer.Option(help="A folder with nav01_train.npz and so on: published walks in place of rendered ones.")
    ] = None,
    unpack: Annotated[Path | None, typer.Option(help="Go on from what --pack wrote on another machine.")] = None,
    pack: Annotated[Path | None, typer.Option(help="Write all that is needed to go on elsewhere into this file.")] = None,
    redraw: Annotated[bool, typer.Option("--redraw", help="Draw from the results there are; compute nothing.")] = False,
) -> None:
    """Compute the results behind a figure of the paper and draw it."""
    from mdpf.recipes import bearings, travel
    from mdpf.recipes.methods import METHODS

    choose("preset", preset, bearings.PRESETS)
    wanted = methods and tuple(word.strip() for word in methods.split(","))
    for word in wanted or ():
        choose("method", word, METHODS)
    chosen = list(reproduce.FIGURES) if figure == "all" else [figure]
    for name in chosen:
        entry = choose("figure", name, reproduce.FIGURES)
        folder = out / (entry.folder or name)
        if not redraw:
            choices = reproduce.Choices(seeds, device_of(device), preset, minutes, jobs, work, wanted or None, recordings)
            luggage = {"results": folder, "work": work / (entry.folder or name)}
            if unpack is not None:
                travel.unpack(unpack, luggage)
            try:
                entry.run(folder, choices)
            finally:
                if pack is not None:
                    stayed = travel.pack(pack, luggage)
                    OUT.print(f"Packed {pack}" + (f", without {', '.join(stayed)}" if stayed else "") + ".", highlight=False)
        for path in entry.draw(folder):
            OUT.print(f"Wrote {path}.", highlight=False)
