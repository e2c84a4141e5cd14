"""Training to find one's way in homes: walks of 24 frames per second with everything that belongs to it, and what bounds it.

A whole update of MDPF counts: choosing walks, rendering their images, filtering, gradients, Adam. Beside it stand its parts alone.
"""

import statistics
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
from mdpf.models.convolutions import Way, in_products, interleaved, one_by_one
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
LAYERS = ((1, 16, 28), (16, 32, 13), (32, 64, 13))
"""Channels into and out of the convolutions of the map's network, and the side of their images."""


def cases(device: torch.device) -> Iterator[Case]:
    """The parts of an update alone, a whole one and what else it takes, and the same in other ways."""
    spent: list[float] = []
    for place, (samples, reduced) in enumerate(VARIANTS[device.type]):
        config = _config(device, samples, reduced)
        title = f"samples {samples}, {'half' if reduced and device.type == 'cuda' else 'full'} precision"
        if place == 0:
            yield Case(f"parts, {title}", _parts(config, device, spent))
        yield Case(f"update, {title}", _update(config, device, spent if place == 0 else []))
        if place == 0:
            yield Case("ways to convolve", _ways(config, device))


def _config(device: torch.device, samples: int, reduced: bool) -> house.Config:
    kind = device.type
    return house.Config("MDPF", particles=PARTICLES[kind], batch=BATCH[kind], samples=samples, reduced=reduced)


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


def _update(config: house.Config, device: torch.device, spent: list[float]) -> Callable[[], list[Row]]:
    """A whole update; and the rest of it, beside the milliseconds ``spent`` on the parts that were measured alone."""

    def measure() -> list[Row]:
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

            sample = repeat(once, device, most=100, seconds=3.0)
            params = _params(config, execution)
            rows = time_rows("update on homes", device, params, sample)
            if spent:
                rows.append(Row("the rest of an update", device.type, params, rows[0].value - sum(spent), "ms", []))
            speeds = sorted(config.batch / seconds for seconds in sample.wall)
            middle = speeds[len(speeds) // 2]
            rows.append(Row("walks learned from", device.type, params, middle, "walks/s", quartiles(speeds)))
            if device.type == "cuda":
                # Of a recorded update: what it holds all the time.
                size = torch.cuda.max_memory_reserved(device)
                return [*rows, memory_row("update on homes, reserved", device, params, size)]
            return [*rows, memory_row("update on homes", device, params, peak_memory(once, device))]

    return measure


def _parts(config: house.Config, device: torch.device, spent: list[float]) -> Callable[[], list[Row]]:
    """Images of all frames of a batch, their network, and the map around the particles of one step; all but images with gradients.

    What they take of an update goes into ``spent``.
    """

    def measure() -> list[Row]:
        nets, data = _setup(config, device)
        filter = build(house.training_of(config, nets), device=device)
        batch = data.take(slice(0, config.batch)).map(lambda part: part[None])
        view, source, network = (filter.get_submodule(name) for name in ("measurement.view", "encoder.source", "encoder.network"))
        assert isinstance(view, MapView)
        states, index = batch.states[:, :, 1], batch.observations[:, :, 1, 3].long()
        poses = states[..., None, :].expand(*states.shape[:-1], config.particles, 3).contiguous().requires_grad_()
        # The update compiles what belongs to a step, and nothing else.
        look, crop = (torch.compile(part, dynamic=False) if device.type == "cuda" else part for part in (view, view.crop))
        steps = batch.length - 1
        images = source(batch.observations[:, :, 1:])[0]

        def learn(values: Tensor, *about: Tensor) -> None:
            torch.autograd.grad(values.float().square().mean(), about)

        works: dict[str, tuple[int, Callable[[], object]]] = {
            "images of an update": (1, lambda: source(batch.observations[:, :, 1:])),
            "network of images of an update": (1, lambda: learn(network(images), *network.parameters())),
            "crops of the map of a step": (0, lambda: learn(crop(poses, index), poses)),
            "crops of the map of a step and their network": (steps, lambda: learn(look(poses, index), poses, *view.parameters())),
        }
        rows = []
        with own_stream(device):
            for name, (times, work) in works.items():
                sample = repeat(_recorded(work, device), device, most=50, seconds=1.0)
                rows += time_rows(name, device, _params(config, "captured" if device.type == "cuda" else "eager"), sample)
                spent.append(times * 1e3 * statistics.median(sample.wall))
        return rows

    return measure


def _ways(config: house.Config, device: torch.device) -> Callable[[], list[Row]]:
    """The convolutions of one step, in half the precision and with all gradients: by a library in two layouts, by products."""

    def measure() -> list[Row]:
        generator, rows = torch.Generator(device).manual_seed(0), []
        count, options = config.batch * config.particles, {"device": device, "generator": generator}
        for incoming, outgoing, side in LAYERS:
            images, weight, bias = (
                torch.randn(shape, **options).to(torch.bfloat16)
                for shape in ((1, count, incoming, side, side), (1, outgoing, incoming, 3, 3), (1, outgoing))
            )
            for how in (one_by_one, interleaved, in_products):
                parts = [part.detach().requires_grad_() for part in (images, weight, bias)]
                if how is interleaved:
                    parts[0] = images.movedim(2, -1).contiguous().movedim(-1, 2).requires_grad_()
                # Of values that stand behind each other a gradient stands so too, as it does in the network.
                grad = torch.ones_like(how(*parts))

                def once(how: Way = how, parts: list[Tensor] = parts, grad: Tensor = grad) -> None:
                    torch.autograd.grad(how(*parts), parts, grad)

                with own_stream(device):
                    sample = repeat(_recorded(once, device), device, most=50, seconds=0.3)
                params = {"images": count, "channels": f"{incoming} to {outgoing}", "side": side, "way": how.__name__}
                rows += time_rows("a convolution", device, params, sample)
        return rows

    return measure


def _recorded(work: Callable[[], object], device: torch.device) -> Callable[[], object]:
    """Without the host's part in it, where that can be."""
    if device.type != "cuda":
        return work

    def once() -> None:
        work()

    return capture(once, torch.Generator(device))
