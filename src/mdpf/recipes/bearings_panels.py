"""What the median runs of the bearings study believed about a few cars, for the figures that show it.

A figure never runs a model: here the models run, from the weights that the study left, and leave files of beliefs.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from mdpf import trees
from mdpf.data.sequences import SequenceBatch
from mdpf.evaluation import beliefs
from mdpf.evaluation.beliefs import Beliefs
from mdpf.evaluation.evaluate import Filter
from mdpf.evaluation.results import provenance
from mdpf.modes import find_modes
from mdpf.recipes.bearings import load_run
from mdpf.tasks import bearings
from mdpf.training import weights

SCENE = {"sensor": list(bearings.RADAR), "extent": [-12.0, 12.0, -12.0, 12.0]}
SEQUENCES = (48,)  # Of the evaluation split: the one the paper shows has this number among its own.
SEARCHED = 100  # Sequences among which the animation's is found,
EVERY = 5  # by looking at every fifth frame.


def run(folder: Path, *, watch: Callable[[str], None] | None = None) -> list[Path]:
    """Write ``panels/METHOD.npz`` for every method whose weights are in ``folder``, and ``panels/animation.npz`` of one of them.

    The animation shows that car among the first ``SEARCHED`` about which most hypotheses are alive on average over time.
    """
    paths = sorted((folder / "weights").glob("*.safetensors"))
    paths = [path for path in paths if "@" not in path.name]
    if not paths:
        raise FileNotFoundError(
            f"Panels need the weights of trained runs, got none in {str(folder / 'weights')!r}. "
            "`mdpf reproduce bearings` or `mdpf train bearings MDPF` write them."
        )
    began, data = time.monotonic(), bearings.task().split("evaluation")
    written = []
    for path in paths:
        if watch is not None:
            watch(path.stem)
        written.append(folder / "panels" / f"{path.stem}.npz")
        found = track(path, data.take(torch.tensor(SEQUENCES)))
        beliefs.write(written[-1], found._replace(notes=_notes(path, began)))
    names = [path.stem for path in paths]
    chosen = next((name for name in ("A-MDPF", "MDPF") if name in names), None)
    if chosen is not None:
        path = folder / "weights" / f"{chosen}.safetensors"
        found = most_modes(track(path, data.take(slice(0, SEARCHED))))
        written.append(folder / "panels" / "animation.npz")
        beliefs.write(written[-1], found._replace(notes=_notes(path, began)))
    return written


def _notes(path: Path, began: float) -> dict[str, Any]:
    """Whose beliefs they are, and what made them."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"weights": path.name, "sha256": digest, "provenance": asdict(provenance(time.monotonic() - began))}


def track(path: Path, data: SequenceBatch, *, seed: int = 0) -> Beliefs:
    """What the filter of a weights file believes about cars, with as many particles as it was trained with."""
    return believe(load_run(path), data, int(weights.load(path).config["particles"]), seed=seed)


@torch.no_grad()
def believe(filter: Filter, data: SequenceBatch, particles: int, *, seed: int = 0) -> Beliefs:
    """What a filter believes about cars."""
    generator = torch.Generator().manual_seed(seed)
    initial = filter.init(bearings.task().prior(data.states[:, 0], particles, generator=generator))
    _, trajectory = filter(initial, data.observations[:, 1:], generator=generator)
    return beliefs.record(initial.posterior, trajectory.posterior, trajectory.info, bearings.SPACE, data=data, scene=SCENE)


def most_modes(found: Beliefs) -> Beliefs:
    """The one sequence about whose position most hypotheses are alive, on average over time."""
    few = trees.tree_map(lambda tensor: tensor[:, ::EVERY], found.posterior).marginal((0, 1))
    count = find_modes(few, min_weight=0.1).count.float().mean(1)
    best = int(count.argmax())
    return found.take(slice(best, best + 1))
