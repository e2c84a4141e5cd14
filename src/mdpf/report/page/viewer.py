"""What the viewer in the page needs of beliefs, as small as it can be."""

import base64
from typing import Any

import torch
from torch import Tensor

from mdpf import trees
from mdpf.evaluation.beliefs import Beliefs
from mdpf.modes import find_modes
from mdpf.report import belief
from mdpf.report.page.content import CLIMBING, LIVE, Tracked, thinned

ROOM = 8  # Modes that are shown of a belief.
SHOWN = 500  # Particles that are shown of a belief.
SEQUENCES = 6  # At most, of one file,
BYTES = 4 * 2**20  # and no more than this.


def payload(tracked: Tracked) -> dict[str, Any]:
    """The beliefs of a few sequences: text, numbers, and arrays in base64."""
    recorded = thinned(tracked.beliefs, SHOWN)
    space, shown = recorded.space, belief.view(recorded)
    each = recorded.particles[0].numel() * 4 + _observation_bytes(recorded)
    count = max(1, min(SEQUENCES, recorded.num_sequences, BYTES // each))
    return {
        "name": tracked.name,
        "dim": space.dim,
        "coordinates": [{"name": name, "angle": angle} for name, angle in space.coordinates],
        "kernel": recorded.kernel,
        "scene": dict(recorded.scene),
        "across": shown.across,
        "down": shown.down,
        "extents": _extents(recorded, shown),
        "count": recorded.particles.shape[2],
        "particles": tracked.beliefs.particles.shape[2],
        "room": ROOM,
        "sequences": [_sequence(recorded, tracked.beliefs, index) for index in range(count)],
    }


def _sequence(recorded: Beliefs, whole: Beliefs, index: int) -> dict[str, Any]:
    data = recorded.data
    length = recorded.length if data is None or data.valid is None else int(data.valid[index].sum())
    few = thinned(whole.take(slice(index, index + 1)), CLIMBING).posterior
    modes = find_modes(trees.tree_map(lambda tensor: tensor[0, :length], few), max_modes=ROOM, min_weight=LIVE)
    known = torch.zeros(length) if data is None else data.targets[index, :length]
    return {
        "name": str(index),
        "length": length,
        "particles": _floats(recorded.particles[index, :length]),
        "weights": _floats(recorded.log_weights[index, :length].exp()),
        "bandwidth": _floats(recorded.bandwidth[index, :length]),
        "mean": _floats(recorded.mean[index, :length]),
        "ess": _floats(recorded.ess[index, :length]),
        "modes": _floats(modes.points),
        "masses": _floats(modes.weights),
        "counts": _small(modes.count),
        "known": _small(known),
        "states": _floats(data.states[index, :length]) if data is not None and bool(known.any()) else None,
        "seen": _observations(recorded, index, length),
    }


def _observations(recorded: Beliefs, index: int, length: int) -> dict[str, Any] | None:
    data = recorded.data
    if data is None or data.observations[0, 0].numel() == 0:
        return None
    values = data.observations[index, :length]
    there = torch.ones(length) if data.observed is None else data.observed[index, :length].float()
    there[0] = 0.0  # A filter does not look at frame 0.
    shape = list(values.shape[1:])
    if values.dtype == torch.uint8 and values.ndim == 4:
        there[0] = 1.0
        return {"kind": "image", "shape": shape, "there": _small(there), "values": _small(values)}
    kind = "direction" if "sensor" in recorded.scene and shape == [2] else "vector"
    return {"kind": kind, "shape": [values[0].numel()], "there": _small(there), "values": _floats(values.float())}


def _observation_bytes(recorded: Beliefs) -> int:
    return 0 if recorded.data is None else recorded.data.observations[0].nbytes


def _extents(recorded: Beliefs, shown: belief.View) -> list[list[float]]:
    spans = [list(belief.span(recorded, dim)) for dim in range(recorded.space.dim)]
    spans[shown.across] = list(shown.extent[:2])
    if shown.down is not None:
        spans[shown.down] = list(shown.extent[2:])
    return spans


def _floats(values: Tensor) -> str:
    return base64.b64encode(values.detach().contiguous().float().numpy().astype("<f4").tobytes()).decode()


def _small(values: Tensor) -> str:
    return base64.b64encode(values.detach().contiguous().to(torch.uint8).numpy().tobytes()).decode()
