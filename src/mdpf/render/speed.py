"""How fast a scene is rendered."""

import time
from collections.abc import Callable

import torch
from torch import Tensor

from mdpf.render.camera import Camera
from mdpf.render.raycast import PORTION, cast
from mdpf.render.scene import Scene


def frames_per_second(
    scene: Scene,
    poses: Tensor,
    camera: Camera,
    *,
    index: Tensor | None = None,
    depth: bool = False,
    portion: int | None = None,
    compiled: bool = False,
    repeats: int = 5,
) -> list[float]:
    """Render all poses ``repeats`` times and return the speed of each.

    Nothing is kept but the last portion, so memory does not grow with the number of poses. The first pass, which also compiles, is
    not counted. The device of ``poses`` and ``scene`` is what is measured.

    Args:
        scene: What there is to see.
        poses: From where, ``[F, 3]``.
        camera: How.
        index: Which scene each frame is in.
        depth: Whether to measure depth too.
        portion: Frames at a time.
        compiled: Whether to compile the rendering of a portion.
        repeats: How often to measure.
    """
    size = min(len(poses), portion or PORTION.get(poses.device.type, PORTION["cpu"]))
    poses = poses[: len(poses) // size * size]  # Compiled for one size.
    index = torch.zeros(len(poses), dtype=torch.long, device=poses.device) if index is None else index[: len(poses)]
    draw: Callable[..., object] = torch.compile(cast, dynamic=False) if compiled else cast
    full, speeds = scene.full(), []
    with torch.no_grad():
        for repeat in range(1 + repeats):
            _wait(poses)
            start = time.perf_counter()
            for part, which in zip(poses.split(size), index.split(size), strict=True):
                draw(scene, full, part, camera, which, depth=depth)
            _wait(poses)
            if repeat > 0:
                speeds.append(len(poses) / (time.perf_counter() - start))
    return speeds


def _wait(tensor: Tensor) -> None:
    if tensor.device.type == "cuda":
        torch.cuda.synchronize(tensor.device)
