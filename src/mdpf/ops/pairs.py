"""The scores of any block of pairs, to base two."""

from typing import NamedTuple

import torch
from torch import Tensor

from mdpf.ops import deviations, features
from mdpf.ops.binary import LOG2_E, units
from mdpf.ops.blocks import Block, Buffers
from mdpf.ops.features import Features


class Pairs(NamedTuple):
    """All that is needed to compute a block.

    Args:
        x: The queries, coordinate by coordinate, ``[b, d, m]``.
        locs: The components, ``[b, d, n]``.
        parameters: The kernel's parameters in the units of base two, ``[b, d]``.
        kinds: The kinds of the coordinates.
        expanded: The coordinates that are expanded.
        direct: Those that are not.
        buffers: Memory for the scores, for two more matrices, and for one in the precision of the expansion.
    """

    x: Tensor
    locs: Tensor
    parameters: Tensor
    kinds: str
    expanded: Features
    direct: tuple[int, ...]
    buffers: Buffers

    @staticmethod
    def of(x: Tensor, locs: Tensor, log_weights: Tensor, parameters: Tensor, kinds: str) -> "Pairs":
        """Decide what is expanded and get ready for the blocks."""
        x, locs, parameters = x.mT.contiguous(), locs.mT.contiguous(), parameters * units(kinds, like=x)
        expanded = features.expand(x, locs, log_weights * LOG2_E, parameters, kinds)
        direct = tuple(dim for dim in range(len(kinds)) if dim not in expanded.dims)
        buffers = Buffers((len(x), x.shape[-1], locs.shape[-1]), [x.dtype, x.dtype, x.dtype, expanded.query.dtype], x.device)
        return Pairs(x, locs, parameters, kinds, expanded, direct, buffers)

    @property
    def is_mixed(self) -> bool:
        """Whether the expansion is more precise than the rest."""
        return self.expanded.query.dtype != self.x.dtype

    def deviation(self, block: Block, dim: int) -> tuple[Tensor, Tensor]:
        """The deviations of a block in one coordinate, in the second buffer, and that coordinate's parameter."""
        points, centres = self.x[block.batch, dim, block.rows, None], self.locs[block.batch, dim, None]
        work = self.buffers.views(block)[1]
        return torch.sub(points, centres, out=work), self.parameters[block.batch, dim, None, None]

    def scores(self, block: Block) -> Tensor:
        """The log-weight plus the log-density, relative to the kernel's peak, of every pair; in the first buffer."""
        scores, _, spare, precise = self.buffers.views(block)
        product = precise if self.is_mixed else scores
        torch.bmm(self.expanded.query[block.batch, :, block.rows].mT, self.expanded.component[block.batch], out=product)
        if self.is_mixed:
            scores.copy_(product)
        for dim in self.direct:
            deviations.add_factor(self.kinds[dim], *self.deviation(block, dim), scores, spare)
        return scores
