"""A trained run on a file of sequences: judged against the truth, or followed step by step as on a robot."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from mdpf.data import cutting, files
from mdpf.data.sequences import SequenceBatch
from mdpf.evaluation import beliefs
from mdpf.evaluation.beliefs import Beliefs
from mdpf.evaluation.evaluate import evaluate
from mdpf.evaluation.results import provenance
from mdpf.filters.belief import StepInfo
from mdpf.recipes.judging import Levels
from mdpf.recipes.runs import Run
from mdpf.recipes.vigilance import present
from mdpf.spaces import StateSpace
from mdpf.trees import stack

PARTICLES_AT_A_TIME = {"cpu": 25_000, "cuda": 1_000_000}
MOST_NUMBERS = 2**30  # Of particles in a file of beliefs.


def judge(run: Run, path: Path, *, particles: int | None = None, seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Judge a run on a file of sequences: every metric, the curves, and how well calibrated it is.

    A sequence is judged from its first known state on.
    """
    began = time.monotonic()
    data = cutting.begin_with_label(read(run, path)).to(device)
    count = particles or run.num_particles
    look = Levels(run.space)
    found = evaluate(
        run.filter.to(device),
        data,
        prior=run.prior,
        num_particles=count,
        limit_lost=run.limit_lost,
        batch=max(1, PARTICLES_AT_A_TIME[torch.device(device).type] // count),
        look=look,
        generator=torch.Generator(device).manual_seed(seed),
    )
    return {
        "metrics": {name: value.item() for name, value in found.metrics.items()} | look.summary(0),
        "curves": {name: value.tolist() for name, value in found.curves.items()},
        "degenerate": [list(place) for place in found.degenerate],
        "method": run.config.get("method"),
        "data": path.name,
        "sequences": data.num_sequences,
        "particles": count,
        "seed": seed,
        "config": {name: value for name, value in run.config.items() if name != "blueprint"},
        "provenance": asdict(provenance(time.monotonic() - began, device=device)),
    }


def track(
    run: Run,
    path: Path,
    *,
    particles: int | None = None,
    start: str = "around",
    recover: float = 0.0,
    seed: int = 0,
    device: str = "cpu",
    sequences: int | None = None,
) -> Beliefs:
    """Follow the sequences of a file step by step, all of them side by side.

    Args:
        run: The run.
        path: The file.
        particles: How many; as many as in training by default.
        start: Where to start: ``"around"`` the first state, which has to be known, or anywhere in the ``"box"`` of the data that
            the run was trained on.
        recover: The share of particles to replace where the tracker is lost.
        seed: Of the random numbers.
        device: Where to compute.
        sequences: Follow the first so many only.
    """
    data = read(run, path)
    data = data if sequences is None else data.take(slice(0, sequences))
    count = particles or run.num_particles
    if data.num_sequences * data.length * count * run.space.dim > MOST_NUMBERS:
        raise ValueError(
            f"Tracking needs beliefs of at most {MOST_NUMBERS:,} numbers in one file, got {data.num_sequences} sequences of "
            f"{data.length} frames with {count} particles. Follow fewer with --sequences."
        )
    tracker, generator = run.tracker(recover=recover).to(device), torch.Generator(device).manual_seed(seed)
    data = data.to(device)
    if start == "around":
        unknown = ~data.targets[:, 0]
        if bool(unknown.any()):
            raise ValueError(
                f"Tracking from the first state needs it to be known, got sequence {int(unknown.nonzero()[0])} without. "
                "Start anywhere in the box of the training data with --start box."
            )
        belief = tracker.init(data.states[:, 0], num_particles=count, generator=generator)
    elif start == "box":
        particles_of_all = run.box(data.states[:, 0], count, generator=generator)
        belief = tracker.init(samples=particles_of_all)
    else:
        raise ValueError(f"Tracking needs a known start, got {start!r}. Known are: around, box.")
    initial, kept, seen = belief.posterior, [], present(data)
    for frame in range(1, data.length):
        action = None if data.actions is None else data.actions[:, frame - 1]
        belief = tracker.step(belief, data.observations[:, frame], action, observed=seen[:, frame], generator=generator)
        kept.append((belief.posterior, StepInfo(belief.log_evidence, belief.ess, belief.degenerate)))
    posterior, info = stack(kept, 1)
    return beliefs.record(initial, posterior, info, run.space, data=data, scene=run.scene)


def read(run: Run, path: Path) -> SequenceBatch:
    """The sequences of a file, if they are of the kind that the run was trained on."""
    data, space = files.read(path)
    _check_space(run, path, space)
    shape, dim = tuple(data.observations.shape[2:]), 0 if data.actions is None else data.actions.shape[-1]
    image = data.observations.dtype == torch.uint8
    if shape != run.observation or image != run.image:
        kinds = {True: "images", False: "vectors"}
        raise ValueError(
            f"The run needs observations that are {kinds[run.image]} of shape {list(run.observation)}, got {kinds[image]} of shape "
            f"{list(shape)} in {path.name!r}. Record what it was trained on, or train it anew."
        )
    if dim != run.action_dim:
        raise ValueError(
            f"The run needs {run.action_dim or 'no'} numbers per action, got {dim or 'no actions'} in {path.name!r}. "
            "Record what it was trained on, or train it anew."
        )
    return data


def _check_space(run: Run, path: Path, space: StateSpace) -> None:
    if space.coordinates != run.space.coordinates:
        raise ValueError(
            f"The run needs the coordinates {run.space.to_json()}, got {space.to_json()} in {path.name!r}. "
            "Name the same ones in the same order."
        )
