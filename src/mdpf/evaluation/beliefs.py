"""The file of beliefs, BELIEFS.npz: what a filter believed at every frame of some sequences.

================  ==================  ==============================================================================================
array             shape               holds
================  ==================  ==============================================================================================
mean              ``[n, T, d]``       the mean of the posterior; frame 0 is the initial belief
particles         ``[n, T, N, d]``    where the particles are
log_weights       ``[n, T, N]``       their normalised log-weights
bandwidth         ``[n, T, d]``       the width of the kernel; for an angle the inverse of its concentration
ess               ``[n, T]``          effective sample size
log_evidence      ``[n, T]``          log-probability of the observation, zero at frame 0
space             text                JSON that names the coordinates and says which are angles
kernel            text                optional: gaussian (the default), epanechnikov or biweight, for linear coordinates
states            ``[n, T, d]``       optional: the truth
observations      ``[n, T, ...]``     optional: what was seen
labelled          ``[n, T]`` bool     optional: which states are known
valid             ``[n, T]`` bool     optional: which frames exist
observed          ``[n, T]`` bool     optional: which observations came
scene             text                optional: JSON with what does not move, see ``Beliefs.scene``
notes             text                optional: JSON with where the beliefs come from
================  ==================  ==============================================================================================
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from mdpf import trees
from mdpf.checks import describe
from mdpf.data.archive import MAX_BYTES, read_arrays, write_arrays
from mdpf.data.sequences import SequenceBatch
from mdpf.filters.belief import StepInfo
from mdpf.filters.weights import effective_sample_size
from mdpf.kernels import Biweight, Epanechnikov, Gaussian, Kernel, Product, VonMises
from mdpf.mixture import Mixture
from mdpf.models.bandwidth import kernel_of
from mdpf.spaces import StateSpace

FAMILIES: dict[str, Callable[[Tensor], Kernel]] = {"gaussian": Gaussian, "epanechnikov": Epanechnikov, "biweight": Biweight}
NUMBERS = ("mean", "particles", "log_weights", "bandwidth", "ess", "log_evidence")
OPTIONAL = ("states", "observations", "labelled", "valid", "observed")


class Beliefs(NamedTuple):
    """What a filter believed at every frame of some sequences, and what was true and seen where that is known.

    Args:
        mean: The mean of the posterior, ``[n, T, d]``.
        particles: Where the particles are, ``[n, T, N, d]``.
        log_weights: Their normalised log-weights, ``[n, T, N]``.
        bandwidth: The kernel's width, for an angle the inverse of its concentration, ``[n, T, d]``.
        ess: The effective sample size, ``[n, T]``.
        log_evidence: Of the observations, ``[n, T]``; zero at frame 0.
        space: The coordinates.
        kernel: The kernel of linear coordinates, one of ``FAMILIES``.
        data: What was true and seen, if known.
        scene: What does not move, for whoever draws: ``sensor`` (a point whose observations are the sine and cosine of a direction
            seen from it), ``walls`` (segments ``[x, y, x, y]``), ``extent`` (left, right, bottom, top).
        notes: Where the beliefs come from.
    """

    mean: Tensor
    particles: Tensor
    log_weights: Tensor
    bandwidth: Tensor
    ess: Tensor
    log_evidence: Tensor
    space: StateSpace
    kernel: str = "gaussian"
    data: SequenceBatch | None = None
    scene: Mapping[str, Any] = {}
    notes: Mapping[str, Any] = {}

    @property
    def posterior(self) -> Mixture:
        """The beliefs themselves, ``[n, T]``."""
        return Mixture(self.particles, self.log_weights, kernel_of(self.space, self.bandwidth, FAMILIES[self.kernel]))

    def at(self, sequence: int, frame: int) -> Mixture:
        """The belief at one frame of one sequence, without batch axes."""
        return trees.tree_map(lambda tensor: tensor[sequence, frame], self.posterior)

    @property
    def num_sequences(self) -> int:
        return self.mean.shape[0]

    @property
    def length(self) -> int:
        """Frames per sequence, the initial one included."""
        return self.mean.shape[1]

    def take(self, indices: Tensor | slice) -> "Beliefs":
        """Choose sequences."""
        chosen = {name: getattr(self, name)[indices] for name in NUMBERS}
        return self._replace(**chosen, data=None if self.data is None else self.data.take(indices))


def record(
    initial: Mixture,
    posterior: Mixture,
    info: StepInfo,
    space: StateSpace,
    *,
    data: SequenceBatch | None = None,
    scene: Mapping[str, Any] | None = None,
) -> Beliefs:
    """Put together the beliefs of a filter's run over sequences.

    Args:
        initial: What was believed at frame 0, ``[n]``.
        posterior: What was believed at the frames after it, ``[n, T - 1]``.
        info: What the steps noticed, ``[n, T - 1]``.
        space: The coordinates, with their names.
        data: What was true and seen at all frames, ``[n, T]``.
        scene: What does not move.
    """
    family = _family(posterior.kernel)

    def joined(first: Tensor, rest: Tensor) -> Tensor:
        return torch.cat([first.unsqueeze(1), rest], 1).cpu()

    first, rest = _bandwidths(initial.kernel, initial), _bandwidths(posterior.kernel, posterior)
    ess = effective_sample_size(initial.log_weights)
    return Beliefs(
        joined(initial.mean(), posterior.mean()),
        joined(initial.locs, posterior.locs),
        joined(initial.log_weights, posterior.log_weights),
        joined(first, rest),
        joined(ess, info.ess),
        joined(torch.zeros_like(ess), info.log_evidence),
        space,
        family,
        None if data is None else data.to("cpu"),
        dict(scene or {}),
    )


def write(path: str | Path, beliefs: Beliefs) -> None:
    """Write a file of beliefs, complete or not at all."""
    tensors = {name: getattr(beliefs, name) for name in NUMBERS}
    if beliefs.data is not None:
        tensors |= {name: getattr(beliefs.data, name) for name in OPTIONAL if getattr(beliefs.data, name) is not None}
    arrays = {name: np.asarray(tensor.detach().cpu().numpy()) for name, tensor in tensors.items()}
    texts = {
        "space": beliefs.space.to_json(),
        "kernel": beliefs.kernel,
        "scene": json.dumps(dict(beliefs.scene)),
        "notes": json.dumps(dict(beliefs.notes)),
    }
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_arrays(path, arrays | {name: np.array(text) for name, text in texts.items()})


def read(path: str | Path, *, max_bytes: int = MAX_BYTES) -> Beliefs:
    """Read a file of beliefs; nothing in it is ever executed."""
    call = f"Reading {Path(path).name!r}"
    arrays, _ = read_arrays(path, (*NUMBERS, *OPTIONAL, "space", "kernel", "scene", "notes"), max_bytes=max_bytes)
    absent = [name for name in (*NUMBERS, "space") if name not in arrays]
    if absent:
        raise ValueError(f"{call} needs a file of beliefs, got one without {', '.join(absent)}. `mdpf track` writes such files.")
    space, kernel = StateSpace.from_json(str(arrays["space"])), str(arrays.get("kernel", "gaussian"))
    if kernel not in FAMILIES:
        raise ValueError(f"{call} needs one of the kernels {', '.join(FAMILIES)}, got {kernel!r:.80}. Write the file again.")
    numbers = {name: torch.from_numpy(arrays[name].astype(np.float32)) for name in NUMBERS}
    _check_shapes(call, numbers, space)
    try:
        scene, notes = (json.loads(str(arrays.get(name, "{}"))) for name in ("scene", "notes"))
    except ValueError as error:
        raise ValueError(f"{call} needs scene and notes in JSON, got {error}. Write the file again.") from error
    return Beliefs(**numbers, space=space, kernel=kernel, data=_data(call, arrays, numbers["mean"]), scene=scene, notes=notes)


def is_file_of_beliefs(path: str | Path) -> bool:
    """Whether a file is one; a damaged file is none."""
    try:
        return not {"mean", "particles"} - set(read_arrays(path, ()).others)
    except (ValueError, OSError):
        return False


def _check_shapes(call: str, numbers: Mapping[str, Tensor], space: StateSpace) -> None:
    if numbers["particles"].ndim != 4:
        raise ValueError(f"{call} needs particles of shape [n, T, N, d], got {describe(numbers['particles'])}.")
    n, length, count, _ = numbers["particles"].shape
    expected = {"mean": (n, length, space.dim), "particles": (n, length, count, space.dim), "log_weights": (n, length, count)}
    expected |= {"bandwidth": (n, length, space.dim), "ess": (n, length), "log_evidence": (n, length)}
    for name, shape in expected.items():
        if tuple(numbers[name].shape) != shape:
            raise ValueError(f"{call} needs {name} of shape {list(shape)}, got {describe(numbers[name])}. Write the file again.")


def _data(call: str, arrays: Mapping[str, np.ndarray], mean: Tensor) -> SequenceBatch | None:
    """What was true and seen; where only one of them is known the other is empty or unlabelled."""
    found = {name: torch.from_numpy(np.ascontiguousarray(arrays[name])) for name in OPTIONAL if name in arrays}
    if not {"states", "observations"} & set(found):
        return None
    for name, tensor in found.items():
        if tensor.shape[:2] != mean.shape[:2] or (name == "states" and tensor.shape != mean.shape):
            raise ValueError(f"{call} needs {name} of the same frames as mean, {list(mean.shape)}, got {describe(tensor)}.")
    if "states" not in found:
        found |= {"states": mean, "labelled": torch.zeros(mean.shape[:2], dtype=torch.bool)}
    found.setdefault("observations", mean.new_zeros(*mean.shape[:2], 0))
    known = ~found["states"].isnan().any(-1)
    if not known.all():
        found["labelled"] = known & found.get("labelled", known)
    return SequenceBatch(**found)


def _bandwidths(kernel: Kernel, mixture: Mixture) -> Tensor:
    """The width of every coordinate, ``[*batch, d]``."""
    parts = kernel.parts if isinstance(kernel, Product) else (kernel,)
    widths = [1 / part.concentration if isinstance(part, VonMises) else part[0] for part in parts]  # type: ignore[index]
    return torch.cat([width.expand(*mixture.batch_shape, width.shape[-1]) for width in widths], -1)


def _family(kernel: Kernel) -> str:
    parts = kernel.parts if isinstance(kernel, Product) else (kernel,)
    names = {name for part in parts for name, family in FAMILIES.items() if type(part) is family}
    if len(names) > 1 or any(type(part) not in (VonMises, *FAMILIES.values()) for part in parts):
        kinds = ", ".join(type(part).__name__ for part in parts)
        raise TypeError(f"record needs one kind of kernel for all linear coordinates, von Mises for angles, got {kinds}.")
    return next(iter(names), "gaussian")
