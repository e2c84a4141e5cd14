"""One look for every figure: colours that everybody can tell apart, one width, one type size.

A figure is drawn on axes it is given or makes its own ``Figure``; nothing here touches pyplot, which keeps state of its own.
"""

import io
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import matplotlib as mpl
from matplotlib.figure import Figure

from mdpf.data.atomic import atomic

# Okabe and Ito's palette, told apart with any kind of colour vision.
BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, YELLOW, BLACK = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#F0E442",
    "#000000",
)
GREY = "#8A8A8A"

METHOD_COLOURS = {
    "LSTM": "#4D4D4D",
    "TG-PF": SKY,
    "OT-PF": YELLOW,
    "SR-PF": GREEN,
    "DIS-PF": PURPLE,
    "C-PF": "#A6761D",
    "TG-MDPF": ORANGE,
    "IRG-MDPF": VERMILION,
    "MDPF": BLUE,
    "A-MDPF": "#003A5D",
    "exact": BLACK,
}

SETTINGS: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "svg.fonttype": "none",
}
WIDTH = 7.0  # Inches: the text width of a page.


Draw = TypeVar("Draw", bound=Callable[..., Figure])


def styled(draw: Draw) -> Draw:
    """Make a function draw in the house style, whatever the user's own settings are."""

    @wraps(draw)
    def in_style(*args: object, **options: object) -> Figure:
        with mpl.rc_context(SETTINGS):
            return draw(*args, **options)

    return in_style  # pyright: ignore[reportReturnType]


def figure(height: float, width: float = WIDTH) -> Figure:
    """A new figure; call it from a ``styled`` function."""
    return Figure(figsize=(width, height), layout="constrained")


ENDINGS = (".png", ".svg", ".pdf")


def save(drawing: Figure, path: str | Path) -> Path:
    """Write a figure; the ending of the name (png, svg or pdf) decides the format."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = encode(drawing, path.suffix.removeprefix("."))
    with atomic(path) as stream:
        stream.write(content)
    return path


def encode(drawing: Figure, kind: str, *, letters_as_shapes: bool = False) -> bytes:
    """The content of a file that shows a figure. No date is written, so that equal is equal.

    Args:
        drawing: The figure.
        kind: ``"png"``, ``"svg"`` or ``"pdf"``.
        letters_as_shapes: In an SVG, so that it looks the same where a font is missing.
    """
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    stream, fonts = io.BytesIO(), "path" if letters_as_shapes else "none"
    with mpl.rc_context({**SETTINGS, "svg.hashsalt": "mdpf", "svg.fonttype": fonts}):
        drawing.savefig(stream, format=kind, metadata=metadata)
    return stream.getvalue()
