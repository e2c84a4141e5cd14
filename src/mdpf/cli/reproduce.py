"""Reproducing the figures and tables of the paper."""

from pathlib import Path
from typing import Annotated, Any

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
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda; auto by default.")] = None,
    preset: Annotated[str | None, typer.Option(help="How long to train: paper, fast or quick; fast by default.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop in good order before; the same call goes on.", min=0)] = None,
    jobs: Annotated[int | None, typer.Option(help="How many methods to train at once.", min=1)] = None,
    methods: Annotated[str | None, typer.Option(help="Only these methods, in this order: MDPF,TG-PF.")] = None,
    mazes: Annotated[str | None, typer.Option(help="Only these mazes, by number: 1,3.")] = None,
    work: Annotated[Path, typer.Option(help="The folder for checkpoints.")] = Path("runs"),
    recordings: Annotated[
        Path | None, typer.Option(help="A folder with nav01_train.npz and so on: published walks in place of rendered ones.")
    ] = None,
    unpack: Annotated[Path | None, typer.Option(help="Go on from what --pack wrote on another machine.")] = None,
    pack: Annotated[Path | None, typer.Option(help="Write all that is needed to go on elsewhere into this file.")] = None,
    redraw: Annotated[bool, typer.Option("--redraw", help="Draw from the results there are; compute nothing.")] = False,
) -> None:
    """Compute the results behind a figure of the paper and draw it."""
    from mdpf.data.atomic import check_folder
    from mdpf.recipes import parts, travel

    wanted = {"seeds": seeds, "preset": preset, "device": device, "minutes": minutes, "jobs": jobs, "recordings": recordings}
    wanted |= {"methods": _words(methods), "mazes": _words(mazes)}
    given: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
    _check(figure, given)
    if redraw and given:
        raise ValueError(f"mdpf reproduce --redraw needs no --{next(iter(given))}: it computes nothing. Leave one of them out.")
    for folder in (out, work):
        check_folder(folder)
    if recordings is not None and not recordings.is_dir():
        raise FileNotFoundError(
            f"mdpf reproduce needs a folder of recordings, got {str(recordings)!r}, which is none. Check the path."
        )
    choices = reproduce.Choices(work=work)._replace(**given | {"device": device_of(device or "auto")})
    for name in reproduce.FIGURES if figure == "all" else (figure,):
        entry = reproduce.FIGURES[name]
        folder = out / (entry.folder or name)
        outcome: object = None
        if not redraw:
            luggage = {"results": folder, "work": work / (entry.folder or name)}
            if unpack is not None:
                travel.unpack(unpack, luggage)
            try:
                outcome = entry.run(folder, choices)
            finally:
                if pack is not None:
                    stayed = travel.pack(pack, luggage)
                    OUT.print(f"Packed {pack}" + (f", without {', '.join(stayed)}" if stayed else "") + ".", highlight=False)
        if (
            isinstance(outcome, parts.Outcome)
            and outcome.left
            and not {path.name for path in folder.glob("*.json")} - {"calls.json"}
        ):
            continue  # It stopped in good order before there was anything to draw.
        for path in entry.draw(folder):
            OUT.print(f"Wrote {path}.", highlight=False)


def _words(listed: str | None) -> tuple[str, ...] | None:
    return None if listed is None else tuple(word.strip() for word in listed.split(","))


def _check(figure: str, given: dict[str, Any]) -> None:
    """Refuse choices that would make no difference; of all figures each takes those that make one to it."""
    if figure == "all":
        for name, value in given.items():
            refusals = [entry.refusal({name: value}) for entry in reproduce.FIGURES.values() if name in entry.options]
            if None not in refusals:
                raise ValueError(f"mdpf reproduce all needs {refusals[0]}")
        return
    refusal = choose("figure", figure, reproduce.FIGURES).refusal(given)
    if refusal is not None:
        raise ValueError(f"mdpf reproduce {figure} needs {refusal}")
