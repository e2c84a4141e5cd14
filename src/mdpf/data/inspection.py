"""What may be wrong with the arrays of a data file, found and said before anyone waits for training.

Each check yields findings; a stage with errors ends the inspection, because what follows would only repeat them. The arrays that
pass are returned as a ``SequenceBatch``: numbers in single precision, images as they are, NaNs that stand for something absent
replaced by zero and marked in a mask.
"""

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

import numpy as np
import torch

from mdpf.data.sequences import SequenceBatch
from mdpf.spaces import TWO_PI, StateSpace

KEYS = ("states", "observations", "actions", "labelled", "valid", "observed", "space")
_MASKS = ("labelled", "valid", "observed")
_EXAMPLE = '{"coordinates": [{"name": "x"}, {"name": "theta", "angle": true}]}'
_RESOLUTION = 1e-3  # A coordinate should be resolved to a thousandth of its range; noise models cannot use less.

Severity = Literal["error", "warning", "note"]
Arrays = Mapping[str, np.ndarray]


class Finding(NamedTuple):
    """One thing worth knowing about a data file."""

    severity: Severity
    message: str


class Inspection(NamedTuple):
    """What was found; batch and space are there unless an error is."""

    findings: tuple[Finding, ...]
    batch: SequenceBatch | None = None
    space: StateSpace | None = None

    @property
    def errors(self) -> tuple[str, ...]:
        return tuple(finding.message for finding in self.findings if finding.severity == "error")

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(finding.message for finding in self.findings if finding.severity == "warning")


def inspect(call: str, arrays: Arrays) -> Inspection:
    """Check the arrays of a data file and make a batch of them.

    Args:
        call: Who asks; the first words of every message.
        arrays: The arrays by name, as in a file; unknown names are left alone.
    """
    findings: list[Finding] = []
    for check in (_check_names, _check_types, _check_shapes):
        findings += check(call, arrays)
        if _fatal(findings):
            return Inspection(tuple(findings))
    space = StateSpace.from_json(_text(arrays["space"]))
    fields = {name: _convert(name, array) for name, array in arrays.items() if name in KEYS and name != "space"}
    _mark_absent(fields)
    for check in (_check_masks, _check_values, _check_labels, _check_scale):
        findings += check(call, fields, space)
        if _fatal(findings):
            return Inspection(tuple(findings))
    return Inspection(tuple(findings), _batch(fields), space)


def _fatal(findings: list[Finding]) -> bool:
    return any(finding.severity == "error" for finding in findings)


def _error(call: str, needs: str, got: str, advice: str) -> Finding:
    return Finding("error", f"{call} needs {needs}, got {got}. {advice}")


def _describe(array: np.ndarray) -> str:
    return f"{array.dtype} of shape {list(array.shape)}"


def _text(array: np.ndarray) -> str:
    return array.item().decode("utf-8") if array.dtype.kind == "S" else str(array.item())


# Names, types and shapes: what can be said without looking at values.


def _check_names(call: str, arrays: Arrays) -> Iterator[Finding]:
    missing = [name for name in ("states", "observations", "space") if name not in arrays]
    if missing:
        advice = (
            f"`space` names the coordinates, such as {_EXAMPLE}." if missing == ["space"] else "Save them by name with np.savez."
        )
        yield _error(call, f"the arrays {', '.join(missing)}", f"only {sorted(arrays)}", advice)


def _check_types(call: str, arrays: Arrays) -> Iterator[Finding]:
    for name in ("states", "observations", "actions"):
        if name in arrays and arrays[name].dtype.kind not in "iuf":
            yield _error(call, f"numbers in {name}", _describe(arrays[name]), "Convert it with .astype(np.float32).")
    for name in _MASKS:
        if name in arrays and not (arrays[name].dtype.kind in "biuf" and np.isin(arrays[name], (0, 1)).all()):
            yield _error(call, f"True and False in {name}", _describe(arrays[name]), "Convert it with .astype(bool).")
    try:
        StateSpace.from_json(_text(arrays["space"]))
    except (ValueError, RecursionError) as error:
        yield _error(call, f"`space` as text such as {_EXAMPLE}", _describe(arrays["space"]), str(error))


def _check_shapes(call: str, arrays: Arrays) -> Iterator[Finding]:
    states, observations = arrays["states"], arrays["observations"]
    names = StateSpace.from_json(_text(arrays["space"])).names
    if states.ndim != 3 or states.shape[0] < 1 or states.shape[1] < 2:
        advice = "One sequence is states[None]; a filter starts at the first frame and needs another to work on."
        yield _error(call, "states of shape [n, T, d] with n >= 1 and T >= 2", f"shape {list(states.shape)}", advice)
        return
    num_sequences, length, dim = states.shape
    if dim != len(names):
        advice = "Name every column of states, in order, in `space`."
        yield _error(call, f"one column of states for each of {list(names)}", f"{dim} columns", advice)
    if observations.ndim < 3 or observations.shape[:2] != (num_sequences, length) or 0 in observations.shape:
        advice = "A single number per frame is observations[..., None]; pad shorter sequences and mark their frames in `valid`."
        expected = f"observations of shape [{num_sequences}, {length}, ...], as states"
        yield _error(call, expected, f"shape {list(observations.shape)}", advice)
    else:
        yield from _check_images(call, observations)
    actions = arrays.get("actions")
    if actions is not None and (actions.ndim != 3 or actions.shape[:2] != (num_sequences, length - 1) or 0 in actions.shape):
        advice = "Action t leads from frame t to frame t + 1: there is one less than frames."
        yield _error(call, f"actions of shape [{num_sequences}, {length - 1}, a]", f"shape {list(actions.shape)}", advice)
    for name in _MASKS:
        if name in arrays and arrays[name].shape != (num_sequences, length):
            advice = "It says one thing about each frame."
            yield _error(call, f"{name} of shape [{num_sequences}, {length}]", f"shape {list(arrays[name].shape)}", advice)


def _check_images(call: str, observations: np.ndarray) -> Iterator[Finding]:
    shape = list(observations.shape)
    if observations.dtype == np.uint8 and observations.ndim == 4:
        advice = "Give grey images one channel: observations[..., None]."
        yield _error(call, "images of shape [n, T, height, width, channels]", f"shape {shape}", advice)
    elif observations.ndim == 5 and shape[-1] > 4 and shape[2] <= 4:
        advice = "Channels come last: np.moveaxis(observations, 2, -1)."
        yield _error(call, "images of shape [n, T, height, width, channels]", f"shape {shape}", advice)


# Values.


def _convert(name: str, array: np.ndarray) -> np.ndarray:
    """Booleans for masks, bytes for images, single precision for all else."""
    if name in _MASKS:
        return array.astype(bool)
    if name == "observations" and array.dtype == np.uint8 and array.ndim == 5:
        return array
    with np.errstate(over="ignore"):  # What does not fit becomes infinite and is reported with its place.
        return np.ascontiguousarray(array, dtype=np.float32)


def _check_masks(call: str, fields: Arrays, _: StateSpace) -> Iterator[Finding]:
    valid = fields.get("valid")
    if valid is None:
        return
    short = ~valid[:, :2].all(1)
    if short.any():
        advice = "Frames are counted from the first; leave such sequences out."
        yield _error(call, "at least two valid frames at the start", f"fewer in sequence {short.argmax()}", advice)
    gaps = valid[:, 1:] & ~valid[:, :-1]
    if gaps.any():
        sequence, frame = np.argwhere(gaps)[0]
        advice = "`valid` marks where a sequence ends; inside a gap mark frames in `observed` and `labelled` instead."
        yield _error(
            call, "valid frames without gaps", f"one at sequence {sequence}, frame {frame + 1}, after invalid ones", advice
        )


def _mark_absent(fields: dict[str, np.ndarray]) -> None:
    """Where no mask says what is absent, a frame of nothing but NaN does."""
    for mask, name in (("labelled", "states"), ("observed", "observations")):
        if mask not in fields and fields[name].dtype != np.uint8:
            absent = np.asarray(np.isnan(fields[name]).reshape(*fields[name].shape[:2], -1).all(-1))
            if absent.any():
                fields[mask] = ~absent


def _present(fields: Arrays, name: str) -> np.ndarray:
    """The frames (for actions: the transitions) at which ``name`` has something to say, ``[n, T]``."""
    valid = fields.get("valid", np.ones(fields["states"].shape[:2], bool))
    if name == "actions":
        return valid[:, 1:]
    mask = {"states": "labelled", "observations": "observed"}[name]
    return valid & fields[mask] if mask in fields else valid


def _check_values(call: str, fields: Arrays, space: StateSpace) -> Iterator[Finding]:
    for name in ("states", "observations", "actions"):
        if name not in fields or fields[name].dtype == np.uint8:
            continue
        values = fields[name].reshape(*fields[name].shape[:2], -1)
        wrong = ~np.isfinite(values).all(-1) & _present(fields, name)
        if not wrong.any():
            continue
        sequence, frame = np.argwhere(wrong)[0]
        column = (~np.isfinite(values[sequence, frame])).argmax()
        where = f" in {space.names[column]!r}" if name == "states" else f" in column {column}"
        got = f"{values[sequence, frame, column]}{where} at sequence {sequence}, frame {frame} ({wrong.sum()} such frames in all)"
        advice = {
            "states": "A frame without label is NaN in every coordinate, or False in `labelled`.",
            "observations": "A missing observation is NaN in every column, or False in `observed`.",
            "actions": "Every valid frame but the first needs the action that led to it; if none was given, write zero.",
        }[name]
        yield _error(call, f"finite {name} (as float32)", got, advice)


def _check_labels(call: str, fields: Arrays, _: StateSpace) -> Iterator[Finding]:
    present = _present(fields, "states")
    if not present.any():
        advice = "Without a known state nothing can be learned or started; check `labelled`, `valid` and NaNs in states."
        yield _error(call, "labels somewhere", f"none in any of the {len(fields['states'])} sequences (sequence 0 and on)", advice)
        return
    silent = ~present.any(1)
    if silent.any():
        text = f"{silent.sum()} of {len(fields['states'])} sequences have no label at all, the first is sequence {silent.argmax()}"
        yield Finding("warning", f"{call}: {text}. Nothing is learned from them; leave them out or label one frame.")
    late = ~present[:, 0] & ~silent
    if late.any():
        text = f"{late.sum()} of {len(fields['states'])} sequences have no label at frame 0, the first is sequence {late.argmax()}"
        yield Finding("note", f"{call}: {text}. A filter that starts around the true state cannot start there.")
    if not np.any(present & _present(fields, "observations")):
        yield Finding("note", f"{call}: no labelled frame has an observation. A measurement model cannot be trained alone.")


def _check_scale(call: str, fields: Arrays, space: StateSpace) -> Iterator[Finding]:
    present = _present(fields, "states")
    for dim, (name, angle) in enumerate(space.coordinates):
        values = np.where(present, fields["states"][..., dim], 0)
        place = np.unravel_index(np.abs(values).argmax(), values.shape)
        largest = values[place]
        if angle and abs(largest) > TWO_PI:
            text = f"got {largest:.6g} in {name!r} at sequence {place[0]}, frame {place[1]}, beyond 2 pi"
            advice = "These look like degrees: convert them with np.deg2rad. Angles that wind up in radians may stay."
            yield Finding("warning", f"{call} needs angles in radians, {text}. {advice}")
        if not angle:
            extent, step = np.ptp(values[present].astype(np.float64)), np.spacing(abs(largest))
            if step > _RESOLUTION * extent > 0:
                text = f"{name!r} spans {extent:.3g} around {largest:.6g}, where float32 counts in steps of {step:.2g}"
                yield Finding("warning", f"{call}: {text}. Subtract an offset before saving.")


def _batch(fields: dict[str, np.ndarray]) -> SequenceBatch:
    """Hand over to torch. What is not finite by now is absent; it becomes zero, so that no NaN can leak through a mask."""
    for name in ("states", "observations", "actions"):
        if name in fields and fields[name].dtype != np.uint8:
            finite = np.isfinite(fields[name])
            if not finite.all():
                fields[name] = np.where(finite, fields[name], np.float32(0))
    return SequenceBatch(**{name: torch.from_numpy(np.require(array, requirements=["C", "W"])) for name, array in fields.items()})
