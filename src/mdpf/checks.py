"""The checks of the library's doors: what was needed, what came, what to do.

Shape, dtype and device are properties of a tensor, not of its values: asking for them costs nothing and never waits for a device.
They are checked wherever a value enters. Finiteness costs a pass over the data and, on a device, a wait; it is checked only at the
doors (``init``, ``evaluate``, ``fit``, readers), by ``check_finite``.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


class MdpfWarning(UserWarning):
    """The one category of every warning this library gives."""


class DegenerateWeightsError(ValueError):
    """Every particle of some batch element was scored as impossible."""


def describe(value: object) -> str:
    """A short description of what came, for the second half of a message."""
    if isinstance(value, Tensor):
        return f"a {str(value.dtype).removeprefix('torch.')} tensor of shape {list(value.shape)}"
    return repr(value) if isinstance(value, int | float | str | bool) or value is None else type(value).__name__


def check_tensor(call: str, value: object, axes: Sequence[str | int], advice: str = "") -> Tensor:
    """Check that ``value`` is a floating-point tensor whose last axes are ``axes``.

    Args:
        call: Who asks, as in ``"ParticleFilter.init"``; the first words of the message.
        value: What came.
        axes: The trailing axes: a name for an axis of any length, a number for one of exactly that length.
        advice: What to do about it; the last sentence of the message.
    """
    names = ", ".join(str(axis) for axis in axes)
    if not isinstance(value, Tensor):
        raise TypeError(f"{call} needs a tensor of shape [*batch, {names}], got {describe(value)}. {advice}".rstrip())
    if not value.is_floating_point():
        raise TypeError(
            f"{call} needs a floating-point tensor of shape [*batch, {names}], got {describe(value)}. "
            f"{advice or 'Convert it with .float().'}"
        )
    trailing = value.shape[max(value.ndim - len(axes), 0) :]
    fits = value.ndim >= len(axes) and all(
        isinstance(axis, str) or axis == length for axis, length in zip(axes, trailing, strict=False)
    )
    if not fits:
        raise ValueError(f"{call} needs a tensor of shape [*batch, {names}], got {describe(value)}. {advice}".rstrip())
    return value


def check_batch(call: str, value: Tensor, name: str, batch: tuple[int, ...], advice: str = "") -> None:
    """Check that the leading axes of ``value`` are ``batch``."""
    if tuple(value.shape[: len(batch)]) != tuple(batch):
        raise ValueError(
            f"{call} needs {name} with leading axes {list(batch)}, got {describe(value)}. "
            f"{advice or 'Every input of one call shares its batch axes.'}"
        )


def check_same_kind(call: str, **tensors: Tensor) -> None:
    """Check that all tensors have one dtype and one device."""
    (first_name, first), *rest = tensors.items()
    for name, tensor in rest:
        if tensor.dtype != first.dtype:
            raise TypeError(
                f"{call} needs {name} of the dtype of {first_name} ({first.dtype}), got {tensor.dtype}. "
                f"Convert one of them with .to({first.dtype})."
            )
        if tensor.device != first.device:
            raise ValueError(
                f"{call} needs {name} on the device of {first_name} ({first.device}), got {tensor.device}. "
                f"Move it with .to({str(first.device)!r})."
            )


def check_finite(call: str, value: Tensor, name: str, advice: str = "") -> None:
    """Check the values themselves; waits for the device, so only at the doors."""
    finite = torch.isfinite(value)
    if bool(finite.all()):
        return
    place = (~finite).nonzero()[0].tolist()
    raise ValueError(
        f"{call} needs finite {name}, got {value[tuple(place)].item()} at index {place} of shape {list(value.shape)}. "
        f"{advice or 'Remove or mask such values first.'}"
    )


def check_positive(call: str, value: float, name: str, *, advice: str = "") -> None:
    """Check that a number of a choice is finite and positive."""
    if not (isinstance(value, int | float) and 0 < value < float("inf")):
        raise ValueError(f"{call} needs a positive {name}, got {value!r}. {advice}".rstrip())


def check_count(call: str, value: int, name: str, *, at_least: int = 1) -> None:
    """Check that a count is an integer and large enough."""
    if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
        raise ValueError(f"{call} needs {name} to be an integer of at least {at_least}, got {value!r}.")
