"""Looking at what was trained and tracked."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from mdpf.cli.app import OUT, app, choose

FORMATS = {"png": "png", "svg": "svg", "pdf": "pdf"}
FILMS = {"auto": None, "gif": "gif", "mp4": "mp4"}


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="A folder with results, checkpoints or files of beliefs.")],
    out: Annotated[Path | None, typer.Option(help="The page to write; by default report.html in the folder.")] = None,
    title: Annotated[str | None, typer.Option(help="Its title; by default the name of the folder.")] = None,
    save: Annotated[list[str] | None, typer.Option(help="Save the figures beside the page, too: png, svg or pdf.")] = None,
    video: Annotated[bool, typer.Option("--video", help="Make a film of the beliefs, too.")] = False,
    film: Annotated[str, typer.Option(help="gif, mp4, or auto: MP4 where ffmpeg is installed.")] = "auto",
    sequence: Annotated[int, typer.Option(help="Which sequence the film shows.", min=0)] = 0,
) -> None:
    """Write one HTML file about a folder: curves, metrics, calibration, and a viewer of beliefs. It needs no network."""
    from mdpf.report import animation, page, style

    formats = [choose("format", name, FORMATS) for name in save or ()]
    ending = choose("film", film, FILMS) or ("mp4" if shutil.which("ffmpeg") else "gif")
    content = page.collect(folder)
    if video and not content.tracked:
        raise ValueError(f"A film needs a file of beliefs, got none in {str(folder)!r}. `mdpf track` writes such files.")
    for tracked in content.tracked if video else ():
        if sequence >= tracked.beliefs.num_sequences:
            raise ValueError(
                f"A film needs one of the {tracked.beliefs.num_sequences} sequences of {tracked.name}, got number {sequence}. "
                "They count from 0."
            )
    path, figures = out or folder / "report.html", content.figures()
    OUT.print(f"Wrote {page.write(content, path, title=title or folder.resolve().name, figures=figures)}.", highlight=False)
    for kind in formats:
        for name, drawing in figures.items():
            OUT.print(f"Wrote {style.save(drawing, path.parent / f'{name}.{kind}')}.", highlight=False)
    for tracked in content.tracked if video else ():
        pictures = animation.render(tracked.beliefs, sequence)
        OUT.print(f"Wrote {animation.save(pictures, path.parent / f'{tracked.name}.{ending}')}.", highlight=False)
