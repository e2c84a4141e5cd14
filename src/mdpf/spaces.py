"""Which coordinates of a state are angles, and what follows from it.

A coordinate is linear or angular, in any mix and order. Everything that must respect the difference (differences, means, what a
network sees) asks the space; nothing else in the library knows about the number pi.
"""

import json
import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from mdpf.checks import check_tensor

TWO_PI = 2 * math.pi


def wrap(angle: Tensor) -> Tensor:
    """Bring an angle to the half-open interval from -pi to pi; leave it exactly alone if it is inside already."""
    turned = torch.remainder(angle + math.pi, TWO_PI) - math.pi
    # Rounding can reach the open end.
    turned = torch.where(turned >= math.pi, turned - TWO_PI, turned)
    return torch.where(angle.abs() < math.pi, angle, turned)


class Coordinate(NamedTuple):
    """One coordinate of a state."""

    name: str
    angle: bool = False


@dataclass(frozen=True)
class StateSpace:
    """The coordinates of a state, in order.

    Example:
        >>> space = StateSpace.of("x", "y", theta="angle")
        >>> space.dim, space.encoded_dim
        (3, 4)

    Shapes:
        States are ``[..., dim]``, encoded states ``[..., encoded_dim]``: linear coordinates first, in order, then the sines and
        the cosines of the angles, each angle a pair ``(sin, cos)``.
    """

    # Coordinates are picked by unbind and stack, never by a list of indices: a list would be copied to the device at every call.
    coordinates: tuple[Coordinate, ...]

    def __post_init__(self) -> None:
        names = [coordinate.name for coordinate in self.coordinates]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"StateSpace needs at least one coordinate, each with its own name, got {names}.")

    @staticmethod
    def of(*linear: str, **kinds: str) -> "StateSpace":
        """Write a space in one line: names of linear coordinates, then ``name="angle"`` or ``name="linear"``."""
        unknown = {name: kind for name, kind in kinds.items() if kind not in ("angle", "linear")}
        if unknown:
            raise ValueError(f'StateSpace.of needs each kind to be "angle" or "linear", got {unknown}.')
        coordinates = [Coordinate(name) for name in linear]
        return StateSpace((*coordinates, *(Coordinate(name, kind == "angle") for name, kind in kinds.items())))

    @staticmethod
    def from_json(text: str) -> "StateSpace":
        """Read a space as data files store it: ``{"coordinates": [{"name": "x"}, {"name": "theta", "angle": true}]}``."""
        example = '{"coordinates": [{"name": "x"}, {"name": "theta", "angle": true}]}'
        try:
            entries = json.loads(text)["coordinates"]
            if not all(isinstance(entry["name"], str) and isinstance(entry.get("angle", False), bool) for entry in entries):
                raise TypeError("a name is a string, angle is true or false")
            if any(not {"name", "angle"}.issuperset(entry) for entry in entries):
                raise TypeError("a coordinate has a name, and angle if it is one; a word that is misspelled would make it linear")
            coordinates = tuple(Coordinate(entry["name"], entry.get("angle", False)) for entry in entries)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"StateSpace.from_json needs text such as {example}, got {str(text)[:200]!r}.") from error
        return StateSpace(coordinates)

    def to_json(self) -> str:
        """Write the space as data files store it."""
        entries = [{"name": name, "angle": True} if angle else {"name": name} for name, angle in self.coordinates]
        return json.dumps({"coordinates": entries})

    @property
    def dim(self) -> int:
        return len(self.coordinates)

    @property
    def encoded_dim(self) -> int:
        return self.dim + len(self.angular)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(coordinate.name for coordinate in self.coordinates)

    @property
    def linear(self) -> tuple[int, ...]:
        """Indices of the linear coordinates."""
        return tuple(index for index, coordinate in enumerate(self.coordinates) if not coordinate.angle)

    @property
    def angular(self) -> tuple[int, ...]:
        """Indices of the angular coordinates."""
        return tuple(index for index, coordinate in enumerate(self.coordinates) if coordinate.angle)

    def select(self, dims: tuple[int, ...]) -> "StateSpace":
        """The space of some of the coordinates, in the order given."""
        return StateSpace(tuple(self.coordinates[dim] for dim in dims))

    def _check(self, call: str, state: Tensor) -> None:
        check_tensor(f"StateSpace.{call}", state, [self.dim], f"The space has the coordinates {list(self.names)}.")

    def wrap(self, state: Tensor) -> Tensor:
        """Bring every angle to the interval from -pi to pi; leave linear coordinates alone."""
        self._check("wrap", state)
        columns = zip(state.unbind(-1), self.coordinates, strict=True)
        return torch.stack([wrap(column) if coordinate.angle else column for column, coordinate in columns], -1)

    def difference(self, left: Tensor, right: Tensor) -> Tensor:
        """``left - right``, angles the short way round."""
        self._check("difference", left)
        self._check("difference", right)
        return self.wrap(left - right)

    def mean(self, states: Tensor, weights: Tensor) -> Tensor:
        """The weighted mean over the second-last axis, circular for angles.

        Args:
            states: States of shape ``[*batch, n, dim]``.
            weights: Weights of shape ``[*batch, n]``; they sum to one.

        Shapes:
            Returns ``[*batch, dim]``. An angle whose unit vectors cancel exactly has mean zero.
        """
        self._check("mean", states)
        check_tensor("StateSpace.mean", weights, [states.shape[-2]], "One weight per state.")
        return self.decode(torch.einsum("...n,...nd->...d", weights, self.encode(states)))

    def encode(self, state: Tensor) -> Tensor:
        """What a network should see: linear coordinates, then (sin, cos) of each angle."""
        self._check("encode", state)
        columns = state.unbind(-1)
        pairs = [part for dim in self.angular for part in (columns[dim].sin(), columns[dim].cos())]
        return torch.stack([columns[dim] for dim in self.linear] + pairs, -1)

    def decode(self, encoded: Tensor) -> Tensor:
        """The inverse of ``encode``; the (sin, cos) pairs need not have length one."""
        check_tensor("StateSpace.decode", encoded, [self.encoded_dim], f"The space has the coordinates {list(self.names)}.")
        columns = encoded.unbind(-1)
        values = dict(zip(self.linear, columns, strict=False))
        sines, cosines = columns[len(self.linear) :: 2], columns[len(self.linear) + 1 :: 2]
        for dim, sine, cosine in zip(self.angular, sines, cosines, strict=True):
            values[dim] = wrap(torch.atan2(sine, cosine))
        return torch.stack([values[dim] for dim in range(self.dim)], -1)
