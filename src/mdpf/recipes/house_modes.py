"""Many hypotheses in homes: starts around the truth, over places that look alike, and anywhere; which hypothesis wins, and when.

A walk is found where the heaviest hypothesis of the belief lies within 0.5 m and 20 degrees of the truth. Hypotheses are the
summits of the belief at a resolution of 0.25 m and 10 degrees: finer ones are not worth telling apart here.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mdpf import trees
from mdpf.data.sequences import SequenceBatch
from mdpf.evaluation import beliefs, results
from mdpf.evaluation.beliefs import Beliefs
from mdpf.evaluation.results import Result, file_name, provenance
from mdpf.filters import AdaptiveParticleFilter, ParticleFilter
from mdpf.kernels import Gaussian, Product, VonMises
from mdpf.mixture import Mixture
from mdpf.models import LocalMap
from mdpf.modes import find_modes
from mdpf.recipes.filing import weights_file
from mdpf.recipes.house import SIZES, Config, load_run, networks, split
from mdpf.recipes.house_study import EXPERIMENT, PARTICLES_AT_A_TIME, describe
from mdpf.recipes.methods import METHODS
from mdpf.recipes.parts import Outcome, Part
from mdpf.recipes.studies import Place, work_off
from mdpf.resamplers import Discrete
from mdpf.selection import systematic
from mdpf.spaces import wrap
from mdpf.tasks.homes import task as homes
from mdpf.tasks.homes import walks
from mdpf.tasks.homes.geometry import CELL, Home
from mdpf.tasks.homes.task import METRES

NEAR, ALIGNED = 0.5, math.radians(20)  # Metres.
RESOLUTION, SHARPNESS = 0.25, 33.0  # Metres, and the concentration of some 10 degrees.
SUMMARY = 512  # Of more particles so many are drawn before hypotheses are looked for.
APART = 2.0  # Metres between places that look alike.
CANDIDATES = 4000
FRAMES = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 99)
COUNTS = (1_000, 3_000, 10_000)
SEARCHERS = (("A-MDPF", "default"), ("MDPF", "default"), ("MDPF", "wide"))
KINDS = {"truth": 50, "alike": 150, "anywhere": 1_000}
"""The starts that are shown, with the paper's numbers of particles."""

Tracker = ParticleFilter | AdaptiveParticleFilter


@dataclass(frozen=True)
class Scope:
    """How much there is to do.

    Args:
        counts: With how many particles anywhere.
        num_walks: Through how many homes of the evaluation; all of them by default.
    """

    counts: tuple[int, ...] = COUNTS
    num_walks: int | None = None


def one_walk_in_each_home(config: Config, num_walks: int | None = None, *, device: str = "cpu") -> SequenceBatch:
    """The first evaluation walk of every home."""
    data = split("evaluation", SIZES[config.preset].evaluation, device=device)
    first: dict[int, int] = {}
    for place, number in enumerate(data.observations[:, 0, 3].tolist()):
        first.setdefault(int(number), place)
    return data.take(torch.tensor(sorted(first.values())[:num_walks], device=data.states.device))


def anywhere(batch: SequenceBatch, count: int, *, seed: int = 0) -> Tensor:
    """Particles spread evenly over the free space of every walk's home, ``[n, count, 3]``."""
    numbers = batch.observations[:, 0, 3].long().tolist()
    return torch.stack([walks.anywhere(homes.all_homes()[number], count, seed=seed) for number in numbers]).to(batch.states)


def look_alikes(crop: LocalMap, home: Home, number: int, pose: Tensor, count: int = 2) -> Tensor:
    """Places of a home around which its map looks most like around a pose, far from it and from each other, ``[count, 3]``."""
    places = torch.cat([pose[None], walks.anywhere(home, CANDIDATES, seed=0).to(pose)])
    looks = crop(places[None], torch.tensor([number], device=pose.device))[0].flatten(1)
    order = (looks - looks[0]).abs().mean(-1).argsort()
    chosen = [places[0]]
    for candidate in places[order]:
        distance = torch.stack([(candidate - other)[:2].norm() for other in chosen]).min()
        if distance * METRES > APART:
            chosen.append(candidate)
        if len(chosen) > count:
            break
    return torch.stack(chosen[1:])


def start(kind: str, batch: SequenceBatch, crop: LocalMap, *, count: int, seed: int = 0) -> Tensor:
    """Initial particles ``[n, count, 3]`` of one of ``KINDS``."""
    generator = torch.Generator(batch.states.device).manual_seed(seed)
    if kind == "anywhere":
        return anywhere(batch, count, seed=seed)
    centres = batch.states[:, :1]
    if kind == "alike":
        numbers = batch.observations[:, 0, 3].long().tolist()
        others = [
            look_alikes(crop, homes.all_homes()[number], number, pose)
            for number, pose in zip(numbers, batch.states[:, 0], strict=True)
        ]
        centres = torch.cat([centres, torch.stack(others)], 1)
    around = centres.repeat_interleave(count // centres.shape[1], 1)
    return walks.start_kernel(around).sample(around, generator=generator)


def heaviest(posterior: Mixture) -> tuple[Tensor, Tensor]:
    """The heaviest hypothesis of beliefs ``[*batch]`` and its weight, ``[*batch, 3]`` and ``[*batch]``."""
    points, log_weights = posterior.locs, posterior.log_weights
    if posterior.num_components > SUMMARY:
        drawn = Discrete(systematic)(posterior, SUMMARY, generator=torch.Generator(points.device).manual_seed(0))
        points, log_weights = drawn.points, drawn.log_weights
    batch = points.shape[:-2]
    kernel = Product(
        (
            Gaussian(points.new_full((*batch, 2), RESOLUTION / METRES)),
            VonMises(points.new_full((*batch, 1), SHARPNESS)),
        )
    )
    found = find_modes(Mixture(points, log_weights, kernel), max_modes=5, num_steps=30)
    return found.points[..., 0, :], found.weights[..., 0]


def is_near(states: Tensor, truth: Tensor) -> Tensor:
    """Whether states are within the limits of the truth."""
    difference = states - truth
    return (difference[..., :2].norm(dim=-1) * METRES <= NEAR) & (wrap(difference[..., 2]).abs() <= ALIGNED)


@torch.no_grad()
def follow(
    filter: Tracker, batch: SequenceBatch, particles: Tensor, frames: Sequence[int], *, seed: int = 0
) -> Iterator[tuple[int, Mixture]]:
    """Track walks from given particles and yield the belief at some frames."""
    generator = torch.Generator(particles.device).manual_seed(seed)
    belief, actions = filter.init(particles), batch.actions
    assert actions is not None
    assert filter.encoder is not None
    for frame in range(1, max(frames) + 1):
        feature = filter.encoder(batch.observations[:, frame])
        belief, _ = filter.step(belief, feature, actions[:, frame - 1], generator=generator)
        if frame in frames:
            yield frame, belief.posterior


class Searched(NamedTuple):
    """What came of walks that started anywhere, at some frames.

    Args:
        best: The heaviest hypothesis, ``[n, frames, 3]``.
        truth: Where one was, ``[n, frames, 3]``.
        share: How much of the belief is near it, ``[n, frames]``.
    """

    best: Tensor
    truth: Tensor
    share: Tensor

    @property
    def success(self) -> Tensor:
        """Whether the heaviest hypothesis is near the truth, ``[n, frames]``."""
        return is_near(self.best, self.truth)


def search(filter: Tracker, batch: SequenceBatch, count: int, *, frames: Sequence[int] = FRAMES, device: str = "cpu") -> Searched:
    """Track walks with particles that start anywhere in their homes."""
    portion = max(1, PARTICLES_AT_A_TIME[torch.device(device).type] // count)
    found = []
    for first in range(0, batch.num_sequences, portion):
        part = batch.take(slice(first, first + portion))
        rows = []
        for frame, posterior in follow(filter, part, anywhere(part, count), frames):
            truth = part.states[:, frame]
            share = (posterior.log_weights.exp() * is_near(posterior.locs, truth.unsqueeze(-2))).sum(-1)
            rows.append(Searched(heaviest(posterior)[0], truth, share))
        found.append(trees.tree_map(torch.Tensor.cpu, trees.stack(rows, 1)))
    return trees.tree_map(lambda *parts: torch.cat(parts), *found)


def likeness(crop: LocalMap, numbers: Sequence[int], best: Tensor, truth: Tensor) -> list[float]:
    """How different the map looks around hypotheses and the truth, ``[n, 3]`` each: 0 for the same, 1 as around any place."""
    found = []
    for number, *pair in zip(numbers, best, truth, strict=True):
        places = torch.cat([torch.stack(pair), walks.anywhere(homes.all_homes()[number], CANDIDATES // 10, seed=1)])
        looks = crop(places[None], torch.tensor([number]))[0].flatten(1)
        difference = (looks - looks[1]).abs().mean(-1)
        found.append(round((difference[0] / difference[2:].median().clamp_min(1e-6)).item(), 2))
    return found


def judge(weights: Path, setting: str, folder: Path, count: int, scope: Scope, *, device: str = "cpu") -> Path:
    """Search with the filter of a weights file, one walk in each home, and write ``METHOD@[SETTING-]start-anywhere-N.json``."""
    began = time.monotonic()
    filter, config = load_tracker(weights, device)
    batch = one_walk_in_each_home(config, scope.num_walks, device=device)
    frames = tuple(frame for frame in FRAMES if frame < batch.length)
    found = search(filter, batch, count, frames=frames, device=device)
    curves = {"frame": list(frames), "success": found.success.float().mean(0).tolist(), "share": found.share.mean(0).tolist()}
    numbers = batch.observations[:, 0, 3].long().tolist()
    alike = likeness(networks(config).crop, numbers, found.best[:, -1], found.truth[:, -1])
    walked = [
        {
            "home": homes.all_homes()[number].id,
            "free_m2": round(float(homes.all_homes()[number].free.sum()) * CELL**2, 1),
            "success": bool(success),
            "share": round(float(share), 3),
            "difference": difference,
        }
        for number, success, share, difference in zip(numbers, found.success[:, -1], found.share[:, -1], alike, strict=True)
    ]
    metrics = {"success": found.success[:, -1].float().mean().item(), "share": found.share[:, -1].mean().item()}
    runs = [{"seed": 1000 * config.seed, "metrics": metrics, "curves": curves, "walks": walked}]
    spent = provenance(time.monotonic() - began, device=device)
    notes = _notes(config, count, scope)
    return results.save(Result(EXPERIMENT, config.method, runs, notes, spent, _setting(setting, count)), folder)


def load_tracker(weights: Path, device: str = "cpu") -> tuple[Tracker, Config]:
    """The filter of a weights file, which has particles."""
    filter, config = load_run(weights)
    if not isinstance(filter, ParticleFilter | AdaptiveParticleFilter):
        raise TypeError(f"Many hypotheses need a filter with particles, got {weights.name!r}. Choose MDPF or A-MDPF.")
    return filter.to(device), config


def _notes(config: Config, count: int, scope: Scope) -> dict[str, Any]:
    return describe(config) | {"test_particles": count, "test_walks": scope.num_walks, "near": NEAR, "aligned": ALIGNED}


def _setting(setting: str, count: int) -> str:
    return f"start-anywhere-{count}" if setting == "default" else f"{setting}-start-anywhere-{count}"


def show(weights: Path, folder: Path, *, kinds: dict[str, int] | None = None, number: int = 0, length: int = 60) -> list[Path]:
    """Follow one walk from every kind of start and write files of beliefs, in metres with y upwards.

    Args:
        weights: Of the filter.
        folder: Where the files go.
        kinds: The starts, with their numbers of particles.
        number: Which walk of ``one_walk_in_each_home``.
        length: Frames of it.
    """
    filter, config = load_run(weights)
    batch = one_walk_in_each_home(config).take(slice(number, number + 1))
    batch = batch.frames(0, min(length, batch.length))
    home, crop, written = homes.all_homes()[int(batch.observations[0, 0, 3])], networks(config).crop, []
    for kind, count in (kinds or KINDS).items():
        generator = torch.Generator().manual_seed(0)
        initial = filter.init(start(kind, batch, crop, count=count))
        with torch.no_grad():
            _, trajectory = filter(initial, batch.observations[:, 1:], batch.actions, generator=generator)
            images, _ = filter.get_submodule("encoder.source")(batch.observations)
        seen = ((images.movedim(-3, -1) + 1) * 127.5).round().to(torch.uint8)
        data = SequenceBatch(batch.states, seen)
        recorded = beliefs.record(initial.posterior, trajectory.posterior, trajectory.info, walks.SPACE, data=data)
        written.append(folder / "panels" / f"{config.method}@{kind}.npz")
        beliefs.write(written[-1], upright(recorded, home))
    return written


def upright(recorded: Beliefs, home: Home) -> Beliefs:
    """Beliefs on a map, in pixels with y downwards, in metres with y upwards, with the walls of the home."""
    turned, sizes = torch.tensor([METRES, -METRES, -1.0]), torch.tensor([METRES, METRES, 1.0])
    data = recorded.data
    width, height = home.size
    walls = [[round(float(value), 3) for value in (x0, -y0, x1, -y1)] for x0, y0, x1, y1 in home.solid]
    return recorded._replace(
        mean=recorded.mean * turned,
        particles=recorded.particles * turned,
        bandwidth=recorded.bandwidth * sizes,
        data=None if data is None else data._replace(states=data.states * turned),
        scene={"walls": walls, "extent": [0.0, width, -height, 0.0]},
    )


def parts(folder: Path, *, device: str, scope: Scope) -> list[Part]:
    """A search with every number of particles for every filter that has weights, and the starts to be shown."""
    found = []
    for count in scope.counts:
        for method, setting in SEARCHERS:
            weights = weights_file(folder, method, setting)
            if weights.exists():
                found.append(_search_part(weights, method, setting, folder, count, scope, device))
    trained = [weights for method in METHODS if (weights := weights_file(folder, method)).exists()]
    for weights in trained:
        first = weights.stem == next((name for name in ("A-MDPF", "MDPF") if weights_file(folder, name) in trained), None)
        found.append(_panels_part(weights, folder, KINDS if first else {"truth": KINDS["truth"]}))
    if not found:
        raise FileNotFoundError(
            f"Many hypotheses need the weights of trained filters, got none in {str(folder / 'weights')!r}. "
            "`mdpf reproduce house` writes them."
        )
    return found


def _panels_part(weights: Path, folder: Path, kinds: dict[str, int]) -> Part:
    files = [folder / "panels" / f"{weights.stem}@{kind}.npz" for kind in kinds]
    name = f"{weights.stem} {', '.join(kinds)}"
    return Part(name, lambda until: show(weights, folder, kinds=kinds), lambda: all(file.exists() for file in files))


def _search_part(weights: Path, method: str, setting: str, folder: Path, count: int, scope: Scope, device: str) -> Part:
    name = f"{method} ({setting}) anywhere with {count} particles"
    path = folder / file_name(method, _setting(setting, count))
    return Part(name, lambda until: judge(weights, setting, folder, count, scope, device=device), path.exists)


def run(place: Place, *, scope: Scope | None = None) -> Outcome:
    """Do what is left, as far as the time suffices, one part at a time."""
    return work_off(parts(place.folder, device=place.device, scope=scope or Scope()), replace(place, jobs=1))
