"""Map a function over the tensors of a value.

A value is a tensor, ``None`` (an absent part), or a tuple of values: a NamedTuple such as a belief, a mixture or a kernel.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor

Value = TypeVar("Value")


def tree_map(function: Callable[..., Tensor], value: Value, *others: Any) -> Value:  # noqa: ANN401 - values of the same type
    """Apply ``function`` to every tensor of ``value`` and the tensors at the same place in ``others``."""
    if isinstance(value, Tensor):
        return function(value, *others)
    if value is None:
        return value
    if isinstance(value, tuple):
        parts = [tree_map(function, part, *rest) for part, *rest in zip(value, *others, strict=True)]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)  # type: ignore[call-arg]
    raise TypeError(
        f"tree_map needs tensors, None and tuples of them, got {type(value).__name__}. Values that flow hold nothing else."
    )


def leaves(value: Any) -> Iterator[Tensor]:  # noqa: ANN401 - any value
    """The tensors of a value, in order."""
    if isinstance(value, Tensor):
        yield value
    elif value is not None:
        for part in value:
            yield from leaves(part)


def detach(value: Value) -> Value:
    """Cut the gradient of every tensor of a value."""
    return tree_map(torch.detach, value)


def stack(values: list[Value], dim: int) -> Value:
    """Stack equal values along a new axis of every tensor."""
    first, *rest = values
    return tree_map(lambda *tensors: torch.stack(tensors, dim), first, *rest)


def where(condition: Tensor, value: Value, other: Value) -> Value:
    """Choose between two values; ``condition`` has the leading axes of every tensor."""

    def choose(tensor: Tensor, alternative: Tensor) -> Tensor:
        return torch.where(condition.reshape(condition.shape + (1,) * (tensor.ndim - condition.ndim)), tensor, alternative)

    return tree_map(choose, value, other)
