"""Recordings of walks: rendered here, or the published files ``nav01_train.npz`` to ``nav03_test.npz`` for those who have them.

A published file holds ``pose`` (x and y in units, heading in degrees), ``vel`` and ``rgbd``, flat over time: every 100 steps are
one walk. However a recording came about, it is the same task from then on (``task.sequences``).
"""

import math
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from mdpf.data.archive import MAX_BYTES, read_arrays, write_arrays
from mdpf.spaces import wrap
from mdpf.tasks.mazes import geometry, scene, walks
from mdpf.tasks.mazes.geometry import Maze

STEPS = 100  # Of one walk.
KEYS = ("pose", "vel", "rgbd")
# Poses of published walks may touch a wall, or the engine may have pushed them a little further.
TOLERANCE = 5.0


class Recording(NamedTuple):
    """Walks through one maze.

    Args:
        maze: Which one.
        poses: In units and radians, ``[n, T, 3]``, float32.
        images: What was seen, ``[n, T, 32, 32, 3]``, uint8.
    """

    maze: Maze
    poses: Tensor
    images: Tensor


def record(
    maze: Maze, count: int, length: int = STEPS, *, generator: Generator | None = None, device: torch.device | str = "cpu"
) -> Recording:
    """Walk through a maze and render what is seen.

    The same generator gives the same recording, bit for bit on one kind of device; on another, single pixels may differ by one
    of 255.

    Args:
        maze: Where to walk.
        count: How many walks.
        length: Frames of each.
        generator: Of everything random, on the processor.
        device: Where to render, and to leave the recording.
    """
    poses = walks.walk(maze, count, length, generator=generator).float().to(device)
    images = scene.images(maze, poses.reshape(-1, 3))
    return Recording(maze, poses, images.reshape(count, length, *images.shape[1:]))


def load(path: str | Path, *, maze: int | None = None, max_bytes: int = MAX_BYTES) -> Recording:
    """Read a published file; nothing in it is executed.

    Args:
        path: ``nav01_train.npz`` and the like.
        maze: Which maze it is of; by default what the name says.
        max_bytes: What its arrays may take in memory.
    """
    path = Path(path)
    call = f"Reading {path.name!r}"
    place = geometry.read(_number(call, path) if maze is None else maze)
    arrays, others = read_arrays(path, ("pose", "rgbd"), max_bytes=max_bytes)
    missing = [name for name in ("pose", "rgbd") if name not in arrays]
    if missing:
        raise ValueError(
            f"{call} needs the arrays {', '.join(KEYS)}, got none of the name {', '.join(missing)}"
            f"{f', but {chr(44).join(others)[:80]}' if others else ''}. Is it of another task?"
        )
    pose, rgbd = arrays["pose"], arrays["rgbd"]
    _check_kind(call, "pose", pose, (3,))
    _check_kind(call, "rgbd", rgbd, (scene.SIDE, scene.SIDE, 4))
    if len(pose) != len(rgbd) or len(pose) == 0 or len(pose) % STEPS:
        raise ValueError(
            f"{call} needs as many poses as images, a multiple of {STEPS}, got {len(pose)} and {len(rgbd)}. "
            f"Every {STEPS} steps are one walk; was the file cut?"
        )
    _check_poses(call, place, pose)
    _check_pixels(call, rgbd)
    poses = torch.from_numpy(pose.astype(np.float64))
    poses[:, 2] = wrap(torch.deg2rad(poses[:, 2]))
    images = torch.from_numpy(np.ascontiguousarray(rgbd[..., :3]).astype(np.uint8))
    return Recording(place, poses.float().reshape(-1, STEPS, 3), images.reshape(-1, STEPS, *images.shape[1:]))


def save(path: str | Path, recording: Recording) -> None:
    """Write a recording as a file of the published format: depth is left at zero, velocities are those between poses."""
    poses = recording.poses.double().reshape(-1, 3).cpu().clone()
    steps = recording.poses.double().cpu().diff(dim=-2, append=recording.poses[:, -1:].double().cpu())
    poses[:, 2] = torch.rad2deg(poses[:, 2])
    steps[..., 2] = torch.rad2deg(wrap(steps[..., 2]))
    images = recording.images.cpu().reshape(-1, *recording.images.shape[2:])
    rgbd = torch.cat([images, torch.zeros_like(images[..., :1])], -1)
    write_arrays(path, {"pose": poses.numpy(), "vel": steps.reshape(-1, 3).numpy(), "rgbd": rgbd.numpy()})


def _number(call: str, path: Path) -> int:
    found = re.match(r"nav0([123])", path.name)
    if found is None:
        raise ValueError(f"{call} needs the number of a maze, got a name that does not say it. Pass maze=1, 2 or 3.")
    return int(found[1])


def _check_kind(call: str, name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    if array.dtype.kind not in "fui" or array.shape[1:] != shape:
        raise ValueError(
            f"{call} needs {name} as numbers of shape [steps, {', '.join(map(str, shape))}], got {array.dtype} of shape "
            f"{list(array.shape)}. Is it of another task?"
        )


def _check_poses(call: str, maze: Maze, pose: np.ndarray) -> None:
    if not np.isfinite(pose).all():
        raise ValueError(f"{call} needs finite poses, got others at step {int((~np.isfinite(pose)).any(1).argmax())}.")
    width, height = maze.extent
    outside = (pose[:, :2] < -TOLERANCE).any(1) | (pose[:, 0] > width + TOLERANCE) | (pose[:, 1] > height + TOLERANCE)
    if outside.any():
        step = int(outside.argmax())
        raise ValueError(
            f"{call} needs poses inside maze {maze.number}, from 0 to {width:.0f} and from 0 to {height:.0f} units, got "
            f"({pose[step, 0]:.4g}, {pose[step, 1]:.4g}) at step {step}. Is it of another maze?"
        )
    if len(pose) and np.abs(pose[:, 2]).max() <= 2 * math.pi:
        raise ValueError(
            f"{call} needs headings in degrees, got none beyond {np.abs(pose[:, 2]).max():.3g}. "
            "These look like radians; convert them with numpy.rad2deg."
        )


def _check_pixels(call: str, rgbd: np.ndarray) -> None:
    low, high = float(rgbd[..., :3].min()), float(rgbd[..., :3].max())
    if not (low >= 0 and high <= 255) or high <= 1:
        raise ValueError(
            f"{call} needs colours from 0 to 255, got {low:.4g} to {high:.4g}. Scale them to bytes, or render the images again."
        )
