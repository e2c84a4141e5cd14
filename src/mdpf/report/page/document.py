"""The page itself: sections put together, everything in one file."""

import base64
import html
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from string import Template

from matplotlib.figure import Figure

from mdpf.data.atomic import atomic
from mdpf.evaluation import calibration
from mdpf.evaluation.results import Result, version
from mdpf.report import spread, style
from mdpf.report.page.content import Content
from mdpf.report.page.viewer import payload

PALETTE = {
    "BLUE": style.BLUE,
    "SKY": style.SKY,
    "ORANGE": style.ORANGE,
    "VERMILION": style.VERMILION,
    "YELLOW": style.YELLOW,
    "GREY": style.GREY,
    "BLACK": style.BLACK,
}

CALIBRATION = (
    "How often the truth lies in the smallest region of the belief that holds a given mass, and where it lies in the distribution "
    "of each coordinate: flat if the belief is as sure as it should be, a bowl if it is too sure, a hill if it is not sure enough."
)


def write(content: Content, path: str | Path, *, title: str, figures: Mapping[str, Figure] | None = None) -> Path:
    """Write the page.

    Args:
        content: What it shows.
        path: The file to write, complete or not at all.
        title: Its title.
        figures: The figures of the content, if they have been drawn already.
    """
    path = Path(path)
    pictures = {name: _picture(name, drawing) for name, drawing in (figures or content.figures()).items()}
    sections = [_results(content, pictures)]
    if content.tracked:
        sections += [_part("viewer.html"), _calibration(content, pictures), _over_time(content, pictures)]
    if "training" in pictures:
        sections.append(_section("Training", pictures["training"], "The median over runs; the band is their range."))
    filled = Template(_part("template.html")).substitute(
        title=html.escape(title),
        subtitle=html.escape(_subtitle(content)),
        sections="\n".join(section for section in sections if section),
        style=Template(_part("page.css")).substitute(PALETTE),
        script=_part("viewer.js") if content.tracked else "",
        data=_data(content) if content.tracked else "",
        version=version(),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic(path) as stream:
        stream.write(filled.encode())
    return path


def _part(name: str) -> str:
    return resources.files("mdpf.report.page").joinpath(name).read_text(encoding="utf-8")


def _subtitle(content: Content) -> str:
    kinds = (("result", "results"), ("stage of training", "stages of training"), ("file of beliefs", "files of beliefs"))
    return ", ".join(f"{len(found)} {kind[len(found) > 1]}" for kind, found in zip(kinds, content, strict=True) if found)


def _data(content: Content) -> str:
    """The numbers behind the viewer; nothing in them can end the element they stand in."""
    sets = json.dumps([payload(tracked) for tracked in content.tracked], allow_nan=False).replace("<", "\\u003c")
    channels = {name.lower(): [int(code[place : place + 2], 16) for place in (1, 3, 5)] for name, code in PALETTE.items()}
    kind = 'type="application/json"'
    return f'<script {kind} id="beliefs">{sets}</script>\n<script {kind} id="colours">{json.dumps(channels)}</script>'


def _section(heading: str, body: str, note: str = "") -> str:
    quiet = f'<p class="quiet">{html.escape(note)}</p>' if note else ""
    return f"<section>\n<h2>{html.escape(heading)}</h2>\n{quiet}\n{body}\n</section>"


def _picture(name: str, drawing: Figure) -> str:
    # Letters as shapes: the page looks the same wherever it is opened.
    content = base64.b64encode(style.encode(drawing, "svg", letters_as_shapes=True)).decode()
    source = f"data:image/svg+xml;base64,{content}"
    words = html.escape(name.replace("-", " "))
    link = f'<a download="{html.escape(name)}.svg" href="{source}">Save as SVG</a>'
    return f'<figure><img alt="{words}" src="{source}"><figcaption>{link}</figcaption></figure>'


def _results(content: Content, pictures: Mapping[str, str]) -> str:
    if not content.results:
        return ""
    note = "Medians over runs with their range, the best likelihood first."
    return _section("Results", _table(*spread.table(content.results)) + pictures["metrics"] + _origin(content.results), note)


def _origin(results: Sequence[Result]) -> str:
    made = sorted({(result.provenance.command, result.provenance.revision, result.provenance.device) for result in results})
    lines = [
        f"<code>{html.escape(command)}</code> at revision {html.escape(revision)} ({html.escape(device)})"
        for command, revision, device in made
    ]
    return f'<p class="quiet">Made by {"; ".join(lines)}.</p>'


def _calibration(content: Content, pictures: Mapping[str, str]) -> str:
    judged = {name: (recorded, found) for name, recorded, _, found in content.tracked if found is not None}
    if not judged:
        return ""
    rows, body = [], ""
    for name, (recorded, found) in judged.items():
        numbers = calibration.summarise(found, recorded.space.names)
        shares = [f"{numbers[f'coverage_{value:g}']:.1%}" for value in calibration.NOMINAL]
        rows.append([name, str(recorded.num_sequences), *shares])
        body += (f"<h3>{html.escape(name)}</h3>" if len(judged) > 1 else "") + pictures[f"calibration-{name}"]
    header = ["", "sequences", *[f"{value:.0%} region" for value in calibration.NOMINAL]]
    return _section("Calibration", _table(header, rows) + body, CALIBRATION)


def _over_time(content: Content, pictures: Mapping[str, str]) -> str:
    body = ""
    for tracked in content.tracked:
        heading = f"<h3>{html.escape(tracked.name)}</h3>" if len(content.tracked) > 1 else ""
        body += heading + pictures[f"over-time-{tracked.name}"]
    return _section("Over time", body, "Lines: medians over sequences; dark band: the middle half, light band: nine tenths.")


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
