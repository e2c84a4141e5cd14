"""Learning to find one's way in mazes: frames rendered per second, convolutions of several runs, and whole updates.

Convolutions of several runs may be done as groups of channels or one run after the other, and with the channels of a pixel apart or
next to each other: which is fastest depends on the device, and ``models.convolutions`` chooses by what is measured here.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from mdpf.benchmarks.measure import quartiles, repeat
from mdpf.benchmarks.sheet import Case, time_rows
from mdpf.data.sequences import SequenceBatch
from mdpf.evaluation.measurements import Row
from mdpf.models import convolutions
from mdpf.models.convolutions import in_products, interleaved, one_by_one, side_by_side
from mdpf.recipes import mazes
from mdpf.recipes.training import build, stages
from mdpf.recording import capture, own_stream
from mdpf.render import frames_per_second
from mdpf.tasks.mazes import geometry, scene, walks
from mdpf.tasks.mazes import task as task_of_mazes
from mdpf.training import adam
from mdpf.training.flat import FlatParameters
from mdpf.training.step import Execution, Update

RUNS = {"cuda": (1, 3, 5), "cpu": (1, 3)}
# A processor knows no reduced precision that would be faster.
DTYPES = {"cuda": (torch.float32, torch.bfloat16), "cpu": (torch.float32,)}
WAYS = (side_by_side, one_by_one, interleaved, in_products)
# Frames of a batch and run; on a processor a part of it.
FRAMES = {"cuda": 64 * 17, "cpu": 68}
POSES = {"cuda": 100_000, "cpu": 1024}
# On a processor so few that a batch is small.
WALKS = {"cuda": 400, "cpu": 2}
# Channels in and out, and the side of the image: the layers of the study's encoder.
LAYERS = ((3, 16, 24), (16, 32, 11), (32, 64, 5))


def cases(device: torch.device) -> Iterator[Case]:
    """Frames of every maze, the layers of the encoder, updates of MDPF."""
    for number in geometry.NUMBERS:
        yield Case(f"frames of maze {number}", _frames(number, device))
    for runs in RUNS[device.type]:
        for dtype in DTYPES[device.type]:
            yield Case(f"convolutions, {runs} runs, {_name(dtype)}", _convolutions(runs, dtype, device))
    for runs in RUNS[device.type]:
        for dtype in DTYPES[device.type]:
            yield Case(f"update, {runs} runs, {_name(dtype)}", _update(runs, dtype, device))


def _frames(number: int, device: torch.device) -> Callable[[], list[Row]]:
    def measure() -> list[Row]:
        maze = geometry.read(number)
        poses = walks.anywhere(maze, POSES[device.type], generator=torch.Generator().manual_seed(0))
        scaled = (poses / poses.new_tensor([maze.cell, maze.cell, 1.0])).float().to(device)
        view = scene.camera(maze)
        speeds = sorted(frames_per_second(scene.scene(maze).to(device), scaled, view))
        params = {"maze": number, "side": view.width, "samples": view.samples**2}
        middle = speeds[len(speeds) // 2]
        return [Row("frames of a maze", device.type, params, middle, "frames/s", quartiles(speeds))]

    return measure


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _convolutions(runs: int, dtype: torch.dtype, device: torch.device) -> Callable[[], list[Row]]:
    def measure() -> list[Row]:
        rows, count = [], FRAMES[device.type]
        generator = torch.Generator(device).manual_seed(0)
        for channels, width, side in LAYERS:
            shapes = ((runs, count, side, side, channels), (runs, width, channels, 3, 3), (runs, width))
            x, weight, bias = (torch.randn(shape, device=device, generator=generator).to(dtype) for shape in shapes)
            for how in WAYS:
                # As the layer before leaves them; the first layer is handed images as files hold them.
                images = x.movedim(-1, 2) if channels == 3 or how is interleaved else x.movedim(-1, 2).contiguous()
                learned = [part.detach().requires_grad_() for part in (weight, bias, *([images] if channels > 3 else []))]
                parts = (learned[2] if channels > 3 else images, *learned[:2])
                params = {"runs": runs, "channels": channels, "side": side, "precision": _name(dtype)}
                rows += _learned_from(how, parts, learned, device, params)
        return rows

    return measure


def _learned_from(
    how: Callable[..., Tensor],
    parts: tuple[Tensor, ...],
    learned: list[Tensor],
    device: torch.device,
    params: dict[str, object],
) -> list[Row]:
    """Time of a convolution with its gradient."""

    def once() -> None:
        found = how(*parts)
        torch.autograd.grad(found, learned, torch.ones_like(found))

    with own_stream(device):
        work = capture(once, torch.Generator(device)) if device.type == "cuda" else once
        sample = repeat(work, device, most=50, seconds=0.3)
    return time_rows("convolution learned from", device, {**params, "how": how.__name__}, sample)


def _update(runs: int, dtype: torch.dtype, device: torch.device) -> Callable[[], list[Row]]:
    def measure() -> list[Row]:
        execution: Execution = "captured" if device.type == "cuda" else "eager"
        config = mazes.Config("MDPF", runs=runs, reduced=dtype == torch.bfloat16)
        training, data = mazes.training_of(config), _data(config, device)
        filter = build(training, device=device)
        flat, stage = FlatParameters(filter, runs), stages(training)["likelihood"]
        generator = torch.Generator(device).manual_seed(0)
        with own_stream(device):
            update = Update(filter, flat, stage, data, adam.start(flat.values), flat.columns(stage.rates), generator, execution)
            update.start(torch.ones(runs, dtype=torch.bool, device=device))
            size = min(stage.batch, data.num_sequences)
            indices = torch.randint(data.num_sequences, (runs, size), generator=generator, device=device)
            counted = torch.ones(size, dtype=torch.bool, device=device)
            factor = torch.ones(runs, device=device)
            sample = repeat(lambda: update(indices, counted, factor), device, most=50, seconds=3.0)
        params = {"runs": runs, "batch": size, "particles": config.particles, "execution": execution}
        params |= {"precision": _name(dtype), "convolutions": convolutions.ON_A_GPU.__name__}
        return time_rows("update on mazes", device, params, sample)

    return measure


def _data(config: mazes.Config, device: torch.device) -> SequenceBatch:
    maze = geometry.read(config.maze)
    generator = torch.Generator().manual_seed(0)
    recording = task_of_mazes.record(maze, WALKS[device.type], generator=generator, device=device)
    return task_of_mazes.windows(task_of_mazes.sequences(recording), task_of_mazes.WINDOW, label_every=task_of_mazes.LABEL_EVERY)
