"""Learn when a tracker is lost: how surprising observations are to tracks that are right."""

import torch

from mdpf.checks import check_count
from mdpf.data.sequences import SequenceBatch
from mdpf.tracking import Tracked, Tracker, Vigilance

RARE = 0.002  # The share of frames of right tracks at which the running evidence is below the threshold.
FEWEST = 50  # With fewer frames of right tracks nothing can be said about what is rare.


def learn(tracker: Tracker, data: SequenceBatch, *, limit: float, seed: int = 0) -> Vigilance | None:
    """Follow sequences whose states are known and see how low the evidence falls while the track is right.

    Args:
        tracker: A tracker without vigilance.
        data: Sequences that begin with a known state, ``[n, T, ...]``.
        limit: A track is right if its position never errs by more, at any frame whose state is known.
        seed: Of the random numbers.

    Returns:
        When the tracker counts as lost; ``None`` if too few tracks are right to tell.
    """
    check_count("learn", data.length, "frames", at_least=2)
    generator = torch.Generator().manual_seed(seed)
    linear = list(tracker.space.linear) or list(range(tracker.space.dim))
    belief = tracker.init(data.states[:, 0], generator=generator)
    evidence, right = [], torch.ones(data.num_sequences, dtype=torch.bool)
    for frame in range(1, data.length):
        belief = follow(tracker, belief, data, frame, generator)
        evidence.append(belief.log_evidence)
        error = tracker.space.difference(belief.mean(), data.states[:, frame])[:, linear].norm(dim=-1)
        right &= (error <= limit) | ~data.targets[:, frame]
    seen = present(data)[:, 1:]
    log_evidence = torch.stack(evidence, 1)[right]
    counted = seen[right]
    if int(counted.sum()) < FEWEST:
        return None
    plain = Vigilance(float(log_evidence[counted].clamp_min(-50.0).median()), -float("inf"))
    running, levels = torch.full((len(log_evidence),), plain.typical), []
    for column, observed in zip(log_evidence.unbind(1), counted.unbind(1), strict=True):
        running = plain.after(running, column, observed)
        levels.append(running)
    threshold = torch.stack(levels, 1)[counted].quantile(RARE)
    return Vigilance(plain.typical, float(threshold), plain.memory)


def follow(tracker: Tracker, belief: Tracked, data: SequenceBatch, frame: int, generator: torch.Generator | None) -> Tracked:
    """One step of a tracker along recorded sequences, to ``frame``."""
    action = None if data.actions is None else data.actions[:, frame - 1]
    seen = present(data)[:, frame]
    return tracker.step(belief, data.observations[:, frame], action, observed=seen, generator=generator)


def present(data: SequenceBatch) -> torch.Tensor:
    """Which frames have an observation, ``[n, T]``."""
    everywhere = torch.ones_like(data.targets) if data.valid is None else data.valid
    return everywhere if data.observed is None else everywhere & data.observed
