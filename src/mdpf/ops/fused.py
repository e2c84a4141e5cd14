"""The fused implementation for CUDA: a few Triton programs, memory linear in the number of points.

Both sides are packed by one program and the density is evaluated by a second in one pass; the backward pass packs again, recomputes
the responsibilities and takes the gradients of the components, and those of the queries if they are wanted. Nothing waits for the
host, so a step that calls this can be captured.
"""

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mdpf.ops import programs
from mdpf.ops.operator import Gradients, register

THREADS_PER_WARP = 32
MOST_OWNED = 512

# Where blocks of owned points are too few to fill a device, several programs share the walk over the other side: so many programs
# for each of its processors, as long as each walks past that many points.
PROGRAMS_PER_PROCESSOR = 8
SHORTEST_WALK = 256


class Tile(NamedTuple):
    """What one program has in hand at a time; all of it lies in registers.

    Args:
        own: How many points a program owns at most: a power of two, up to ``MOST_OWNED``.
        points_per_thread: How many of them a thread owns, where there are enough.
        group: How many points of the other side are taken at a time.
    """

    own: int
    points_per_thread: int
    group: int


# The most that leaves no register spilled; counted for compute capability 9.0.
FORWARD, BACKWARD = Tile(512, 4, 16), Tile(256, 2, 16)


class Layout(NamedTuple):
    """How one program is spread over a device.

    Args:
        own: How many points a program owns.
        splits: How many programs share the walk over the other side.
        programs: How many there are in all.
    """

    own: int
    splits: int
    programs: int

    @staticmethod
    def of(tile: Tile, batch: int, own_padded: int, other_padded: int, device: torch.device) -> "Layout":
        own = min(tile.own, _own(own_padded))
        blocks = batch * (own_padded // own)
        wanted = -(-PROGRAMS_PER_PROCESSOR * _processors(device) // max(blocks, 1))
        splits = max(1, min(wanted, other_padded // SHORTEST_WALK))
        return Layout(own, splits, blocks * splits)


@cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def _own(count: int) -> int:
    return max(THREADS_PER_WARP, min(MOST_OWNED, 1 << (max(count, 1) - 1).bit_length()))


def _padded(count: int) -> int:
    """Room for a whole number of groups, and for a whole program where there are fewer points than one owns."""
    own = _own(count)
    return -(-max(count, 1) // own) * own


def _code(kinds: str) -> int:
    return sum(programs.CODES[kind] << (2 * dim) for dim, kind in enumerate(kinds))


class Packed(NamedTuple):
    """What the programs read: both sides ``[b, 2 d + 2, padded]`` and the kernel's parameters ``[b, d]``."""

    queries: Tensor
    components: Tensor
    parameters: Tensor

    @staticmethod
    def of(
        x: Tensor,
        locs: Tensor,
        log_weights: Tensor,
        parameters: Tensor,
        kinds: str,
        outcome: Tensor | None = None,
        grad: Tensor | None = None,
    ) -> "Packed":
        batch, m, dims = x.shape
        n = locs.shape[1]
        parameters = parameters.contiguous()
        queries, components = (x.new_empty(batch, 2 * dims + 2, _padded(count)) for count in (m, n))
        sizes = (batch, m, n, queries.shape[-1], components.shape[-1])
        block = min(sizes[3], sizes[4], MOST_OWNED)
        if batch:
            own_rows = [parameters if each is None else each.contiguous() for each in (outcome, grad)]
            pack: Any = programs.pack
            launch = pack[(batch * (-(-sizes[3] // block) + -(-sizes[4] // block)),)]
            inputs = (x.contiguous(), locs.contiguous(), log_weights.contiguous(), parameters, *own_rows)
            shape = {"D": dims, "KINDS": _code(kinds), "BLOCK": block, "WITH_OUTCOME": outcome is not None}
            launch(*inputs, queries, components, *sizes, **shape, enable_fp_fusion=True)
        return Packed(queries, components, parameters)

    def launch(self, program: Any, tile: Tile, layout: Layout, kinds: str, count: int, *targets: Tensor) -> None:  # noqa: ANN401
        """Run a program that fills ``targets`` for ``count`` points."""
        if layout.programs:
            warps = max(1, layout.own // (THREADS_PER_WARP * tile.points_per_thread))
            shape = {"OWN": layout.own, "GROUP": tile.group, "num_warps": warps}
            sizes = (count, self.queries.shape[-1], self.components.shape[-1], layout.splits)
            program[(layout.programs,)](*self, *targets, *sizes, D=len(kinds), KINDS=_code(kinds), **shape, enable_fp_fusion=True)


def _forward(x: Tensor, locs: Tensor, log_weights: Tensor, parameters: Tensor, kinds: str) -> Tensor:
    packed = Packed.of(x, locs, log_weights, parameters, kinds)
    batch, m = x.shape[:2]
    layout = Layout.of(FORWARD, batch, packed.queries.shape[-1], packed.components.shape[-1], x.device)
    out = x.new_empty(batch, layout.splits, m)
    packed.launch(programs.log_prob, FORWARD, layout, kinds, m, out)
    return out.view(batch, m) if layout.splits == 1 else out.logsumexp(1)


def _backward(
    grad: Tensor,
    outcome: Tensor,
    x: Tensor,
    locs: Tensor,
    log_weights: Tensor,
    parameters: Tensor,
    kinds: str,
    with_x: bool,
) -> Gradients:
    packed = Packed.of(x, locs, log_weights, parameters, kinds, outcome, grad)
    (batch, m, dims), n = x.shape, locs.shape[1]
    sides = (packed.queries.shape[-1], packed.components.shape[-1])
    layout = Layout.of(BACKWARD, batch, sides[1], sides[0], x.device)
    to_locs, to_log_weights = x.new_empty(batch, layout.splits, n, dims), x.new_empty(batch, layout.splits, n)
    to_parameters = x.new_empty(batch, layout.programs // max(batch, 1), dims)
    packed.launch(programs.to_components, BACKWARD, layout, kinds, n, to_locs, to_log_weights, to_parameters)
    to_x = x.new_empty(0)
    if with_x:
        layout = Layout.of(BACKWARD, batch, *sides, x.device)
        to_x = x.new_empty(batch, layout.splits, m, dims)
        packed.launch(programs.to_queries, BACKWARD, layout, kinds, m, to_x)
        to_x = _total(to_x)
    return to_x, _total(to_locs), _total(to_log_weights), to_parameters.sum(1)


def _total(parts: Tensor) -> Tensor:
    """Add up what programs that shared a walk found, ``[b, splits, ...]``."""
    return parts.squeeze(1) if parts.shape[1] == 1 else parts.sum(1)


relative_log_prob = register("mixture_fused", _forward, _backward)
