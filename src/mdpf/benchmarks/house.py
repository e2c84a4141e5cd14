"""Training to find one's way in homes: walks of 24 frames per second with everything that belongs to it, and what bounds it.

A whole update of MDPF counts: choosing walks, rendering their images, filtering, gradients, Adam. Beside it stand its parts alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor

from mdpf.benchmarks.measure import peak_memory, quartiles, repeat
from mdpf.benchmarks.sheet import Case, memory_row, time_rows
from mdpf.data.sequences import SequenceBatch
from mdpf.evaluation.measurements import Row
from mdpf.models import MapView
from mdpf.recipes import house
from mdpf.recipes.house_networks import HouseNetworks, networks
from mdpf.recipes.training import build, stages
from mdpf.recording import capture, own_stream
from mdpf.tasks.homes import geometry
from mdpf.tasks.homes import task as homes
from mdpf.tasks.homes.geometry import Home
from mdpf.training import adam
from mdpf.training.flat import FlatParameters
from mdpf.training.step import Execution, Update

# On a processor a small part is measured.
HOMES = {"cuda": None, "cpu": 4}
WALKS = {"cuda": 2048, "cpu": 8}
BATCH = {"cuda": 64, "cpu": 4}
PARTICLES = {"cuda": 50, "cpu": 10}
VARIANTS = {"cuda": ((2, True), (1, True), (2, False)), "cpu": ((2, True),)}
"""Rays along each side of a pixel, and whether convolutions compute in half the precision."""


def cases(device: torch.device) -> Iterator[Case]:
    """Whole updates in several ways, and the parts of one."""
    kind = device.type
    for place, (samples, reduced) in enumerate(VARIANTS[kind]):
        config = house.Config("MDPF", particles=PARTICLES[kind], batch=BATCH[kind], samples=samples, reduced=reduced)
        title = f"samples {samples}, {'half' if reduced and kind == 'cuda' else 'full'} precision"
        yield Case(f"update, {title}", _update(config, device))
        if place == 0:
            yield Case(f"parts, {title}", _parts(config, device))


def _setup(config: house.Config, device: torch.device) -> tuple[HouseNetworks, SequenceBatch]:
    """Networks that see the training homes, or some of them, and walks through these."""
    nets, walked = _world(device.type, config.samples)
    return replace(nets, reduced=config.reduced), walked.to(device)


@lru_cache(maxsize=1)
def _world(kind: str, samples: int) -> tuple[HouseNetworks, SequenceBatch]:
    chosen = _homes(kind)
    return networks(chosen, samples=samples), homes.task(lambda: chosen).split("train", num_sequences=WALKS[kind])


@lru_cache(maxsize=1)
def _homes(kind: str) -> tuple[Home, ...]:
    return tuple(geometry.homes("train", count=HOMES[kind]))


def _params(config: house.Config, execution: str) -> dict[str, object]:
    return {
        "method": config.method,
        "batch": config.batch,
        "particles": config.particles,
        "samples": config.samples,
        "reduced": config.reduced,
        "execution": execution,
    }


def _update(config: house.Config, device: torch.device) -> Callable[[], list[Row]]:
    def measure() -> list[Row]:
        torch._dynamo.reset()
        execution: Execution = "captured" if device.type == "cuda" else "eager"
        nets, data = _setup(config, device)
        training = house.training_of(config, nets)
        filter = build(training, device=device)
        flat, stage = FlatParameters(filter, config.runs), stages(training)["likelihood"]
        generator = torch.Generator(device).manual_seed(0)
        with own_stream(device):
            update = Update(filter, flat, stage, data, adam.start(flat.values), flat.columns(stage.rates), generator, execution)
            update.start(torch.ones(config.runs, dtype=torch.bool, device=device))
            indices = torch.randint(data.num_sequences, (config.runs, config.batch), generator=generator, device=device)
            counted = torch.ones(config.batch, dtype=torch.bool, device=device)
            factor = torch.ones(config.runs, device=device)

            def once() -> None:
                update(indices, counted, factor)

            sample = repeat(once, device, most=100, seconds=5.0)
            params = _params(config, execution)
            rows = time_rows("update on homes", device, params, sample)
            speeds = sorted(config.batch / seconds for seconds in sample.wall)
            middle = speeds[len(speeds) // 2]
            rows.append(Row("walks learned from", device.type, params, middle, "walks/s", quartiles(speeds)))
            if device.type == "cuda":
                # Of a recorded update: what it holds all the time.
                size = torch.cuda.max_memory_reserved(device)
                return [*rows, memory_row("update on homes, reserved", device, params, size)]
            return [*rows, memory_row("update on homes", device, params, peak_memory(once, device))]

    return measure


def _parts(config: house.Config, device: torch.device) -> Callable[[], list[Row]]:
    """The parts of an update alone: images of all its frames; the same and their encoding; the map around all particles."""

    def measure() -> list[Row]:
        nets, data = _setup(config, device)
        filter = build(house.training_of(config, nets), device=device)
        batch = data.take(slice(0, config.batch)).map(lambda part: part[None])
        view, source, encoder = (filter.get_submodule(name) for name in ("measurement.view", "encoder.source", "encoder"))
        assert isinstance(view, MapView)
        states, index = batch.states[:, :, 1:], batch.observations[:, :, 1:, 3].long()
        poses = states[..., None, :].expand(*states.shape[:-1], config.particles, 3).contiguous()

        def learn(values: Tensor) -> None:
            values.sum().backward()
            filter.zero_grad(set_to_none=True)

        works: dict[str, Callable[[], object]] = {
            "images": lambda: source(batch.observations[:, :, 1:]),
            "images, encoded and learned from": lambda: learn(encoder(batch.observations[:, :, 1:]).feature),
            "crops of the map": lambda: view.crop(poses, index),
            "crops, encoded and learned from": lambda: learn(view(poses, index)),
        }
        rows = []
        with own_stream(device):
            for name, work in works.items():
                sample = repeat(_recorded(work, device), device, most=50, seconds=2.0)
                rows += time_rows(name, device, _params(config, "captured" if device.type == "cuda" else "eager"), sample)
        return rows

    return measure


def _recorded(work: Callable[[], object], device: torch.device) -> Callable[[], object]:
    """Without the host's part in it, where that can be."""
    if device.type != "cuda":
        return work

    def once() -> None:
        work()

    return capture(once, torch.Generator(device))
