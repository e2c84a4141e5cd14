"""Measuring speed and memory."""

from pathlib import Path
from typing import Annotated

import typer

from mdpf.cli.app import OUT, app, choose, device_of


@app.command()
def bench(
    parts: Annotated[list[str] | None, typer.Argument(help="What to measure; everything by default.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    budget_seconds: Annotated[float, typer.Option(help="Begin nothing after so long; the next call goes on.", min=0)] = 1e9,
    out: Annotated[Path, typer.Option(help="The folder for the files of measurements.")] = Path("runs/bench"),
    again: Annotated[bool, typer.Option("--again", help="Measure also what the files have of this revision.")] = False,
) -> None:
    """Measure speed and memory; goes on where it was interrupted."""
    import torch

    from mdpf.benchmarks import suite, table
    from mdpf.data.atomic import check_folder

    chosen = {part: choose("part", part, suite.PARTS) for part in parts or suite.PARTS}

    def tell(part: str, title: str, rows: list) -> None:
        OUT.print(f"{part}: {title}: " + "; ".join(map(table.figure, rows)), highlight=False, markup=False, soft_wrap=True)

    where = torch.device(device_of(device))
    check_folder(out)
    for path in suite.run(list(chosen), out, where, budget=budget_seconds, again=again, watch=tell):
        OUT.print(table.of(path), highlight=False, markup=False, soft_wrap=True)
