"""The file of sequences, FILE.npz: what users bring and what tasks write.

==============  ====================  ===========================================================================================
array           shape                 holds
==============  ====================  ===========================================================================================
states          ``[n, T, d]``         true states; NaN in every coordinate where unknown
observations    ``[n, T, ...]``       vectors of numbers, or images, channels last and uint8; NaN in every column where missing
actions         ``[n, T - 1, a]``     optional; action t leads from frame t to frame t + 1
labelled        ``[n, T]`` bool       optional; which states are known (without it: those that are not NaN)
valid           ``[n, T]`` bool       optional; which frames exist, for shorter sequences padded at their end
observed        ``[n, T]`` bool       optional; which observations came (without it: those that are not NaN)
space           text                  JSON that names the coordinates and says which are angles, in radians
==============  ====================  ===========================================================================================

Numbers of any precision are read as float32; images stay uint8.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mdpf.checks import MdpfWarning
from mdpf.data.archive import MAX_BYTES, read_arrays, write_arrays
from mdpf.data.inspection import KEYS, Finding, Inspection, inspect
from mdpf.data.sequences import SequenceBatch
from mdpf.spaces import StateSpace


def read(path: str | Path, *, max_bytes: int = MAX_BYTES) -> tuple[SequenceBatch, StateSpace]:
    """Read a file of sequences.

    Args:
        path: The npz file. It may come from anywhere: nothing in it is executed, and nothing is allocated on its word alone.
        max_bytes: What its arrays may take in memory.

    Example:
        >>> import tempfile, torch
        >>> path = Path(tempfile.mkdtemp()) / "walk.npz"
        >>> write(path, SequenceBatch(torch.zeros(2, 5, 1), torch.zeros(2, 5, 3)), StateSpace.of("x"))
        >>> batch, space = read(path)
        >>> batch.observations.shape, space.names
        (torch.Size([2, 5, 3]), ('x',))
    """
    inspection = _inspect_file(Path(path), max_bytes)
    if inspection.batch is None or inspection.space is None:
        raise ValueError(inspection.errors[0])
    for message in inspection.warnings:
        warnings.warn(message, MdpfWarning, stacklevel=2)
    return inspection.batch, inspection.space


def write(path: str | Path, batch: SequenceBatch, space: StateSpace) -> None:
    """Write a file of sequences, complete or not at all; what could not be read again is refused.

    Args:
        path: Where to; an existing file is replaced in one step.
        batch: The sequences, ``[n, T, ...]``.
        space: The coordinates of the states.
    """
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in batch._asdict().items() if tensor is not None}
    arrays["space"] = np.array(space.to_json())
    errors = inspect(f"Writing {Path(path).name!r}", arrays).errors
    if errors:
        raise ValueError(errors[0])
    write_arrays(path, arrays)


@dataclass(frozen=True)
class Coverage:
    """Over which values one coordinate of the labelled states runs."""

    name: str
    angle: bool
    smallest: float
    largest: float


@dataclass(frozen=True)
class Summary:
    """What is in a data file and what is wrong with it.

    Args:
        path: The file.
        findings: Errors, warnings and notes, in that order. With an error the other fields keep their empty values.
        num_sequences: How many sequences there are.
        lengths: The shortest and the longest, in frames.
        observation: Shape of one frame's observation.
        image: Whether that is an image.
        action_dim: Numbers per action; zero without actions.
        coordinates: One entry per coordinate of the state.
        labelled: Share of the valid frames whose state is known.
        observed: Share of the valid frames whose observation came.
    """

    path: str
    findings: tuple[Finding, ...]
    num_sequences: int = 0
    lengths: tuple[int, int] = (0, 0)
    observation: tuple[int, ...] = ()
    image: bool = False
    action_dim: int = 0
    coordinates: tuple[Coverage, ...] = ()
    labelled: float = 0.0
    observed: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the file can be used."""
        return not any(finding.severity == "error" for finding in self.findings)


def summarise(path: str | Path, *, max_bytes: int = MAX_BYTES) -> Summary:
    """Say what is in a data file and everything that is wrong with it, without raising for any of it.

    Args:
        path: The npz file.
        max_bytes: What its arrays may take in memory.
    """
    try:
        inspection = _inspect_file(Path(path), max_bytes)
    except (ValueError, OSError) as error:
        return Summary(str(path), (Finding("error", str(error)),))
    order = ("error", "warning", "note")
    findings = tuple(sorted(inspection.findings, key=lambda finding: order.index(finding.severity)))
    if inspection.batch is None or inspection.space is None:
        return Summary(str(path), findings)
    return _describe(str(path), findings, inspection.batch, inspection.space)


def _inspect_file(path: Path, max_bytes: int) -> Inspection:
    arrays, others = read_arrays(path, KEYS, max_bytes=max_bytes)
    call = f"Reading {path.name!r}"
    inspection = inspect(call, arrays)
    if not others:
        return inspection
    text = (
        f"{call} knows the arrays {', '.join(KEYS)}, got also {', '.join(others)[:200]}. These are left alone; is one misspelled?"
    )
    return inspection._replace(findings=(*inspection.findings, Finding("warning", text)))


def _describe(path: str, findings: tuple[Finding, ...], batch: SequenceBatch, space: StateSpace) -> Summary:
    everywhere = np.ones((batch.num_sequences, batch.length), bool)
    valid = everywhere if batch.valid is None else batch.valid.numpy()
    observed = everywhere if batch.observed is None else batch.observed.numpy()
    targets = batch.targets.numpy()
    states = batch.states.numpy()[targets]
    spans = zip(space.coordinates, states.min(0).tolist(), states.max(0).tolist(), strict=True)
    lengths = valid.sum(1)
    return Summary(
        path=path,
        findings=findings,
        num_sequences=batch.num_sequences,
        lengths=(int(lengths.min()), int(lengths.max())),
        observation=tuple(batch.observations.shape[2:]),
        image=batch.observations.ndim == 5,
        action_dim=0 if batch.actions is None else batch.actions.shape[-1],
        coordinates=tuple(Coverage(name, angle, low, high) for (name, angle), low, high in spans),
        labelled=float(targets.sum() / valid.sum()),
        observed=float((valid & observed).sum() / valid.sum()),
    )
