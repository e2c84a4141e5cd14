r"""Where every random number of the library comes from.

Whatever draws takes ``generator=None``. Three things may stand there:

- ``None``: torch's global stream, seeded once at the entrance of a program;
- a ``torch.Generator``: a stream of the caller's own;
- a ``Noise``: the numbers themselves, drawn beforehand.

The third serves every test of equality (many runs at once against one at a time, eager against compiled), export to other
runtimes, and recomputation. It is recorded once and handed in as often as wanted:

    >>> import torch
    >>> from mdpf import noise
    >>> recorder = noise.Recorder()
    >>> first = noise.normal((2, 3), like=torch.zeros(()), generator=recorder)
    >>> again = noise.normal((2, 3), like=torch.zeros(()), generator=recorder.noise)
    >>> torch.equal(first, again)
    True

A function that draws more than once opens its source first, so that a ``Noise`` is consumed in order: ``generator =
noise.source(generator)``. Every recorded tensor starts with the batch axes of what was drawn for, so a slice of a recorded batch is
the noise of that batch element.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import torch
from torch import Generator, Tensor


class Noise(NamedTuple):
    """Random numbers drawn beforehand, in the order in which they will be consumed."""

    draws: tuple[Tensor, ...]


class Plan(NamedTuple):
    """What a computation draws: the kind and the shape of every draw, in order."""

    kinds: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    def draw(self, like: Tensor, generator: Generator | None = None) -> Noise:
        """Draw all of it anew, in one go for each kind, with the dtype and device of ``like``."""
        flat: dict[str, Iterator[Tensor]] = {}
        for kind, fill in (("uniform", uniform), ("normal", normal)):
            sizes = [math.prod(shape) for shape, own in zip(self.shapes, self.kinds, strict=True) if own == kind]
            flat[kind] = iter(fill((sum(sizes),), like, generator).split_with_sizes(sizes))
        return Noise(tuple(next(flat[kind]).view(shape) for kind, shape in zip(self.kinds, self.shapes, strict=True)))


class Recorder:
    """Draw from a stream and remember every draw."""

    def __init__(self, generator: Generator | None = None):
        self._generator = generator
        self._draws: list[Tensor] = []
        self._kinds: list[str] = []

    def __len__(self) -> int:
        """How many draws there were."""
        return len(self._draws)

    @property
    def noise(self) -> Noise:
        return Noise(tuple(self._draws))

    @property
    def plan(self) -> Plan:
        """What was drawn, without the numbers, so that others can be drawn in their place."""
        return Plan(tuple(self._kinds), tuple(tuple(draw.shape) for draw in self._draws))

    def uniform(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        return self._keep("uniform", uniform(shape, like, self._generator))

    def normal(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        return self._keep("normal", normal(shape, like, self._generator))

    def _keep(self, kind: str, draw: Tensor) -> Tensor:
        self._kinds.append(kind)
        self._draws.append(draw)
        return draw


class Replay:
    """Hand out the draws of a ``Noise``, one after the other."""

    def __init__(self, noise: Noise):
        self._draws = noise.draws
        self._next = 0

    def take(self, count: int) -> Noise:
        """Hand out the next ``count`` draws together."""
        self._next += count
        return Noise(self._draws[self._next - count : self._next])

    def _take(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        if self._next >= len(self._draws):
            raise ValueError(
                f"Noise needs at least {self._next + 1} draws, got {len(self._draws)}. "
                "It was recorded for another call; record it again with noise.Recorder."
            )
        draw = self._draws[self._next]
        if tuple(draw.shape) != tuple(shape):
            raise ValueError(
                f"Noise needs draw {self._next} of shape {list(shape)}, got {list(draw.shape)}. "
                "It was recorded for other shapes; record it again with noise.Recorder."
            )
        self._next += 1
        return draw.to(dtype=like.dtype, device=like.device)

    def uniform(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        return self._take(shape, like)

    def normal(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        return self._take(shape, like)


Stream: TypeAlias = Generator | Recorder | Replay | None
Source: TypeAlias = Stream | Noise


def source(generator: Source) -> Stream:
    """Open what was handed in as ``generator``, so that several draws consume it in order."""
    return Replay(generator) if isinstance(generator, Noise) else generator


def uniform(shape: tuple[int, ...], like: Tensor, generator: Source = None) -> Tensor:
    """Draw from the half-open unit interval, with the dtype and device of ``like``."""
    stream = source(generator)
    if isinstance(stream, Recorder | Replay):
        return stream.uniform(shape, like)
    return torch.rand(shape, dtype=like.dtype, device=like.device, generator=stream)


def normal(shape: tuple[int, ...], like: Tensor, generator: Source = None) -> Tensor:
    """Draw standard normal numbers, with the dtype and device of ``like``."""
    stream = source(generator)
    if isinstance(stream, Recorder | Replay):
        return stream.normal(shape, like)
    return torch.randn(shape, dtype=like.dtype, device=like.device, generator=stream)
