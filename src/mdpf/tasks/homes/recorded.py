"""The published data of this task, for those who have them: ``train|valid|test.tfrecords`` of House3D.

Every record is one walk: a map as a PNG, poses in its pixels of 0.02 m, odometry, and an image for every frame, as a PNG each. The
odometry is the true step seen by whoever walked; its noise is drawn here. Walks through one home share one map.
"""

import hashlib
import io
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Generator, Tensor

from mdpf.checks import MdpfWarning, check_count
from mdpf.data import tfrecords
from mdpf.data.tfrecords import BadRecordError, Feature, Record
from mdpf.tasks.homes import walks
from mdpf.tasks.homes.walks import Walks

SIDE = 56  # Pixels of an image, after resizing.
LARGEST_MAP = 4096  # Pixels.
FEATURES = ("states", "odometry", "map_wall", "rgb")


@dataclass(frozen=True)
class Recorded:
    """Walks with what was seen.

    Args:
        walks: Poses in pixels and radians, noisy odometry, and which map each is on.
        images: ``[n, T, 56, 56, 3]``, uint8.
        maps: For each home where there are walls, ``[rows, columns]`` at 0.02 m, y along the rows.
        names: The name of each home.
    """

    walks: Walks
    images: Tensor
    maps: list[np.ndarray]
    names: list[str]


def load(
    path: str | Path,
    *,
    length: int = 24,
    count: int | None = None,
    skip_bad: bool = False,
    generator: Generator | None = None,
) -> Recorded:
    """Read walks from a file of records.

    Args:
        path: ``train.tfrecords``, ``valid.tfrecords`` or ``test.tfrecords``.
        length: Frames to keep of each walk, from its start; a shorter one is a bad record.
        count: Stop after so many walks.
        skip_bad: Leave out records that are damaged or incomplete, with a warning that names each, instead of raising.
        generator: Where the noise of odometry comes from.
    """
    check_count("load", length, "length", at_least=2)
    states, odometry, images, where = [], [], [], []
    maps: dict[str, int] = {}
    drawn: list[np.ndarray] = []
    names: list[str] = []
    for features, number in _examples(Path(path), length, skip_bad):
        pose, step, wall, frames, name = features
        digest = hashlib.sha256(wall.tobytes() + str(wall.shape).encode()).hexdigest()
        if digest not in maps:
            maps[digest] = len(drawn)
            drawn.append(wall)
            names.append(name or f"record {number}")
        states.append(pose)
        odometry.append(step)
        images.append(frames)
        where.append(maps[digest])
        if count is not None and len(states) == count:
            break
    if not states:
        raise ValueError(f"Reading {Path(path).name!r} needs at least one walk of {length} frames, got none.")
    actions = walks.odometry_noise(torch.stack(odometry), generator=generator)
    return Recorded(Walks(torch.stack(states), actions, torch.tensor(where)), torch.stack(images), drawn, names)


Parts = tuple[Tensor, Tensor, np.ndarray, Tensor, str]


def _examples(path: Path, length: int, skip_bad: bool) -> Iterator[tuple[Parts, int]]:
    """The parts of every good record, with its number."""
    for record in tfrecords.read(path):
        try:
            if isinstance(record, BadRecordError):
                raise record
            yield _parts(path, record, length), record.number
        except BadRecordError as error:
            if not skip_bad or not error.can_continue:
                raise
            warnings.warn(f"A record is left out: {error}", MdpfWarning, stacklevel=4)


def _parts(path: Path, record: Record, length: int) -> Parts:
    features = tfrecords.parse(record)
    call = f"Reading {path.name!r}, record {record.number}{_of_home(features)},"
    missing = [name for name in FEATURES if name not in features or len(features[name]) == 0]
    if missing:
        raise _bad(
            f"{call} needs the features {', '.join(FEATURES)}, got none of the name {', '.join(missing)}. Is it of another task?"
        )
    states, odometry = (_numbers(call, name, features[name], length) for name in ("states", "odometry"))
    # The published array is indexed by x first.
    wall = np.ascontiguousarray(_picture(call, "map_wall", features["map_wall"][0], grey=True).T > 0)
    pose = states[:, :2].numpy()
    if max(wall.shape) > LARGEST_MAP or (pose < 0).any() or (pose >= (wall.shape[1], wall.shape[0])).any():
        (left, low), (right, high) = pose.min(0), pose.max(0)
        raise _bad(
            f"{call} needs poses on its map of {wall.shape[1]} by {wall.shape[0]} pixels, got x from {left:.0f} to "
            f"{right:.0f} and y from {low:.0f} to {high:.0f}. The map is of another scale; one pixel is 0.02 m."
        )
    if len(features["rgb"]) < length:
        raise _bad(f"{call} needs {length} images, got {len(features['rgb'])}. Ask for a smaller length.")
    frames = [_picture(call, f"rgb of frame {frame}", features["rgb"][frame]) for frame in range(length)]
    sizes = sorted({frame.shape[:2] for frame in frames})
    if len(sizes) > 1:
        raise _bad(f"{call} needs images of one size, got {sizes[0]} and {sizes[-1]}. The record was put together wrongly.")
    name = _text(features.get("houseID"))
    return walks.SPACE.wrap(states), odometry[:-1], wall, resize(torch.from_numpy(np.stack(frames))), name


def resize(images: Tensor) -> Tensor:
    """Images ``[n, h, w, 3]`` in uint8 at 56 by 56, by bilinear interpolation between pixel centres."""
    if images.shape[1:3] == (SIDE, SIDE):
        return images
    planes = images.movedim(-1, 1).float()
    small = torch.nn.functional.interpolate(planes, (SIDE, SIDE), mode="bilinear", align_corners=False)
    return small.round().clamp(0, 255).to(torch.uint8).movedim(1, -1).contiguous()


def _numbers(call: str, name: str, feature: Feature, length: int) -> Tensor:
    """Rows of three floats, stored as bytes."""
    content = feature[0] if isinstance(feature, list) else b""
    if not content or len(content) % 12:
        raise _bad(
            f"{call} needs {name} as bytes of float32, three for each frame, got {len(content)} bytes. Is it of another task?"
        )
    rows = torch.from_numpy(np.frombuffer(content, "<f4").reshape(-1, 3).copy())
    if len(rows) < length:
        raise _bad(f"{call} needs {length} frames, got {len(rows)} in {name}. Ask for a smaller length.")
    if not bool(rows[:length].isfinite().all()):
        raise _bad(f"{call} needs finite numbers in {name}, got others. The record is damaged.")
    return rows[:length]


def _picture(call: str, name: str, content: object, *, grey: bool = False) -> np.ndarray:
    try:
        if not isinstance(content, bytes):
            raise ValueError("no bytes")
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            picture = np.asarray(image)
    except (ValueError, OSError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise _bad(f"{call} needs a PNG in {name}, got something else ({error}). The record is damaged.") from error
    if grey and picture.ndim == 3:
        picture = picture[..., 0]
    if picture.ndim != (2 if grey else 3) or (not grey and (picture.shape[-1] != 3 or picture.dtype != np.uint8)):
        expected = "one channel" if grey else "three channels of 8 bits"
        raise _bad(f"{call} needs {name} with {expected}, got an image of shape {list(picture.shape)} of {picture.dtype}.")
    return picture


def _of_home(features: dict[str, Feature]) -> str:
    name = _text(features.get("houseID"))
    return f" (home {name!r})" if name else ""


def _text(feature: Feature | None) -> str:
    return feature[0].decode("utf-8", "replace") if isinstance(feature, list) and feature else ""


def _bad(message: str) -> BadRecordError:
    return BadRecordError(message, can_continue=True)
