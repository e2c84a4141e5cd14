"""A belief over time as a film: a GIF, which needs nothing, or an MP4 where ffmpeg is installed."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from mdpf.data.atomic import atomic
from mdpf.evaluation.beliefs import Beliefs
from mdpf.report import belief, style

COLOURS = 48
TITLE = "frame {frame}"


def render(
    beliefs: Beliefs, sequence: int, frames: Sequence[int] | None = None, *, pixels: int = 480, title: str = TITLE
) -> Iterator[Image.Image]:
    """Draw frames of one sequence, one picture after the other.

    Args:
        beliefs: What was believed.
        sequence: Which sequence.
        frames: Which frames of it; all that exist by default.
        pixels: The width and, with a little more for the legend, the height of a picture.
        title: Of each picture; ``{frame}`` is replaced by its number.
    """
    shown = belief.view(beliefs)
    for frame in existing(beliefs, sequence) if frames is None else frames:
        yield _picture(beliefs, sequence, frame, shown, pixels, title)


def existing(beliefs: Beliefs, sequence: int) -> list[int]:
    """The frames of a sequence that exist."""
    valid = None if beliefs.data is None else beliefs.data.valid
    return list(range(beliefs.length)) if valid is None else valid[sequence].nonzero().flatten().tolist()


def _picture(beliefs: Beliefs, sequence: int, frame: int, shown: belief.View, pixels: int, title: str) -> Image.Image:
    with mpl.rc_context(style.SETTINGS):
        drawing = style.figure(height=4.8 * 1.16, width=4.8)
        axes = drawing.subplots()
        belief.draw(axes, beliefs, sequence, frame, shown, scale=1.4)
        axes.set_title(title.format(frame=frame), loc="left", fontsize=10)
        names = [name for name in belief.MEANINGS if name != "observation" or "sensor" in beliefs.scene]
        drawing.legend(handles=belief.handles(*names, size=6), loc="outside lower center", ncols=3, fontsize=8)
        drawing.set_dpi(pixels / 4.8)
        canvas = FigureCanvasAgg(drawing)
        canvas.draw()
        return Image.frombuffer("RGBA", canvas.get_width_height(), bytes(canvas.buffer_rgba())).convert("RGB")


def save(pictures: Iterable[Image.Image], path: str | Path, *, fps: float = 8) -> Path:
    """Write pictures as a film; the ending of the name, gif or mp4, decides the format.

    Args:
        pictures: Of one size.
        path: The file to write, complete or not at all.
        fps: Pictures in a second.
    """
    path, pictures = Path(path), list(pictures)
    if not pictures:
        raise ValueError("animation.save needs at least one picture, got none. Choose frames that exist.")
    if path.suffix not in (".gif", ".mp4"):
        raise ValueError(f"animation.save needs a name that ends in .gif or .mp4, got {path.name!r}. Rename it.")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gif":
        _save_gif(pictures, path, fps)
    else:
        _save_mp4(pictures, path, fps)
    return path


def _save_gif(pictures: list[Image.Image], path: Path, fps: float) -> None:
    # One palette for all, found on a picture of pictures: colours must not flicker, and equal pixels can be left out.
    # The colours of small marks get stripes of their own, for they are too few pixels to be noticed.
    few, marks = pictures[:: max(1, len(pictures) // 6)], (belief.TRUTH, belief.MEAN, belief.MODE, belief.SEEN, style.BLUE)
    width, height = pictures[0].size
    sample = Image.new("RGB", (width, height * (len(few) + 1)), "white")
    for index, picture in enumerate(few):
        sample.paste(picture, (0, index * height))
    for index, colour in enumerate(marks):
        sample.paste(colour, (0, height * len(few) + 20 * index, width, height * len(few) + 20 * (index + 1)))
    palette = sample.quantize(COLOURS, method=Image.Quantize.MEDIANCUT)
    flat = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    with atomic(path) as stream:
        flat[0].save(
            stream,
            format="GIF",
            save_all=True,
            append_images=flat[1:],
            duration=round(1000 / fps),
            loop=0,
            optimize=True,
            disposal=1,
        )


def _save_mp4(pictures: list[Image.Image], path: Path, fps: float) -> None:
    program = shutil.which("ffmpeg")
    if program is None:
        raise FileNotFoundError("An MP4 needs the program ffmpeg, got none on the path. Install it, or ask for a .gif.")
    size = "{}x{}".format(*pictures[0].size)
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", str(fps), "-i", "-"]
    # Even sizes and this pixel format are what every player knows.
    target = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2:color=white", "-pix_fmt", "yuv420p", "-movflags", "+faststart"]
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "film.mp4"
        words = [program, "-loglevel", "error", "-y", *source, *target, str(made)]
        done = subprocess.run(words, input=b"".join(picture.tobytes() for picture in pictures), capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"An MP4 needs ffmpeg to succeed, got: {done.stderr.decode(errors='replace').strip()[:500]}.")
        with atomic(path) as stream:
            stream.write(made.read_bytes())
