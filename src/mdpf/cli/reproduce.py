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
    redraw: Annotated[bool, typer.Option("--redraw", help="Draw from the results there are; compute nothing.")] = False,
) -> None:
    """Compute the results behind a figure of the paper and draw it."""
    chosen = list(reproduce.FIGURES) if figure == "all" else [figure]
    for name in chosen:
        entry = choose("figure", name, reproduce.FIGURES)
        folder = out / (entry.folder or name)
        if not redraw:
            entry.run(folder, reproduce.Choices(seeds, device_of(device)))
        for path in entry.draw(folder):
            OUT.print(f"Wrote {path}.", highlight=False)
