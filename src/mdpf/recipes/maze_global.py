"""Where am I, with no idea to begin with? Particles everywhere, and how often and how fast the right place wins.

A belief has found the truth where more than half of its weight is within two units of it (of 20 that a maze is wide), and headings
within 45 degrees. Who finds the truth and keeps it to the end of a walk has succeeded, at the first frame from which this holds.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mdpf.data.sequences import SequenceBatch
from mdpf.evaluation.evaluate import Filter
from mdpf.filters import RecurrentFilter
from mdpf.mixture import Mixture
from mdpf.recipes.mazes import CONVENTIONS, Config, units
from mdpf.recipes.training import SHARING
from mdpf.spaces import wrap
from mdpf.tasks.mazes import geometry, recordings
from mdpf.tasks.mazes import task as mazes
from mdpf.tasks.mazes import walks as wandering
from mdpf.tasks.task import stream_seed

NEAR = 2.0  # Units of the paper.
ALIGNED = math.radians(45)
# At a time, all walks of a portion together.
PARTICLES_AT_A_TIME = {"cpu": 50_000, "cuda": 2_000_000}


class Search(NamedTuple):
    """Beliefs over a walk, the initial one first.

    Args:
        particles: States, ``[n, T, N, 3]``.
        log_weights: ``[n, T, N]``.
        states: The truth, ``[n, T, 3]``.
    """

    particles: Tensor
    log_weights: Tensor
    states: Tensor


def everywhere(config: Config, num_walks: int, particles: int, *, seed: int = 0) -> Tensor:
    """States spread evenly over wherever one can stand, ``[num_walks, particles, 3]``."""
    maze = geometry.read(config.maze)
    generator = torch.Generator().manual_seed(stream_seed(f"maze-{config.maze}", "anywhere", seed))
    poses = wandering.anywhere(maze, num_walks * particles, generator=generator)
    return CONVENTIONS[config.conventions].states(maze, poses).float().reshape(num_walks, particles, 3)


def walks(config: Config, num_walks: int, *, device: str = "cpu", seed: int = 0) -> SequenceBatch:
    """Walks with the noise of camera and odometry, others than those of the evaluation."""
    with SHARING:
        return _walks(config.maze, config.conventions, num_walks, device, seed)


@lru_cache(maxsize=3)
def _walks(number: int, conventions: str, num_walks: int, device: str, seed: int) -> SequenceBatch:
    generator = torch.Generator().manual_seed(stream_seed(f"maze-{number}", "searching", seed))
    recording = recordings.record(geometry.read(number), num_walks, generator=generator, device=device)
    whole = mazes.sequences(recording, CONVENTIONS[conventions])
    return mazes.Sensors()(whole.to("cpu"), generator=generator).to(device)


@torch.no_grad()
def search(filter: Filter, config: Config, data: SequenceBatch, particles: int, *, device: str = "cpu") -> Iterator[Search]:
    """Track walks from particles everywhere, some at a time."""
    if isinstance(filter, RecurrentFilter):
        raise TypeError("search needs a filter with particles, got a recurrent one. It believes in one place at a time.")
    generator = torch.Generator(device).manual_seed(config.seed)
    starts = everywhere(config, data.num_sequences, particles)
    portion = max(1, PARTICLES_AT_A_TIME[torch.device(device).type] // particles)
    for first in range(0, data.num_sequences, portion):
        part = data.take(slice(first, first + portion))
        belief = filter.init(starts[first : first + portion].to(device))
        later = part.frames(1, part.length)
        _, trajectory = filter(belief, later.observations, part.actions, generator=generator)
        initial, posterior = belief.posterior, trajectory.posterior
        yield Search(*_over_time(initial, posterior), part.states)


def _over_time(initial: Mixture, posterior: Mixture) -> tuple[Tensor, Tensor]:
    locs = torch.cat([initial.locs.unsqueeze(-3), posterior.locs], -3)
    return locs, torch.cat([initial.log_weights.unsqueeze(-2), posterior.log_weights], -2)


def share_near(found: Search, config: Config) -> Tensor:
    """How much of a belief is near the truth, ``[n, T]``."""
    difference = (found.particles - found.states.unsqueeze(-2)) * units(config).to(found.states.device)
    near = (difference[..., :2].norm(dim=-1) <= NEAR) & (wrap(difference[..., 2]).abs() <= ALIGNED)
    return (found.log_weights.exp() * near).sum(-1)


def judge(filter: Filter, config: Config, particles: int, num_walks: int, *, device: str = "cpu") -> dict[str, float]:
    """How often and how fast the truth is found, and how far off the mean is in the end.

    Returns:
        ``found``, the share of walks in which it is found and kept; ``frames``, the median number of frames that takes where it
        happens (infinite if it never does); ``held``, the share of all frames in which it is found; ``near``, the mean weight near
        the truth at the last frame.
    """
    data = walks(config, num_walks, device=device)
    shares = torch.cat([share_near(found, config).cpu() for found in search(filter, config, data, particles, device=device)])
    first = first_kept(shares)
    succeeded = first < shares.shape[-1]
    return {
        "found": succeeded.double().mean().item(),
        "frames": float(np.median(first[succeeded].numpy())) if bool(succeeded.any()) else math.inf,
        "held": (shares > 0.5).double().mean().item(),
        "near": shares[:, -1].double().mean().item(),
    }


def first_kept(shares: Tensor) -> Tensor:
    """The first frame from which more than half is near the truth until the end, ``[n, T]`` to ``[n]``; ``T`` if there is none."""
    length = shares.shape[-1]
    lost = torch.arange(1, length + 1, device=shares.device) * (shares <= 0.5)
    return lost.amax(-1)
