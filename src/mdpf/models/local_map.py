"""What the map looks like from where a particle believes to be: a crop of a shared map for every particle, without copies of it."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, pad

from mdpf.checks import check_batch, check_count, check_tensor, describe

FREE = 2.0  # What free space counts; a wall, and whatever lies beyond the map, counts zero.


class LocalMap(nn.Module):
    r"""Crops of maps, each seen from a pose: whoever looks stands at the middle of the lower edge and looks up.

    A pose is ``(x, y, theta)`` in pixels of its map; pixel ``j`` reaches from :math:`j` to :math:`j + 1`. With a spacing of
    :math:`s` pixels and :math:`c` cells, row :math:`i` (0 on top) and column :math:`j` of a crop show the point

    .. math:: s (c - i - \tfrac12) \text{ ahead}, \qquad s (j - \tfrac{c - 1}{2}) \text{ towards } \theta + 90^\circ ,

    by bilinear interpolation, whose weights carry the gradient to the pose. Neighbouring cells are several pixels apart. By default
    a cell shows the mean over as many pixels, taken beforehand: a thin wall is faint but never lost, and what is seen changes
    smoothly with the pose. Sampling single pixels (``blurred=False``) is how the experiments of the paper were run.

    The maps are stored once, as bytes, and are no parameters: weights can be used with other maps.

    Args:
        maps: For each map which pixels are free, bool ``[rows, columns]``, y along the rows. They may differ in size.
        cells: Rows and columns of a crop.
        spacing: Pixels between cells, even.
        blurred: Whether to take the mean over ``spacing`` by ``spacing`` pixels.

    Shapes:
        Poses ``[*batch, n, 3]`` and, for each batch element, the number of its map ``[*batch]``, to ``[*batch, n, cells, cells]``.
    """

    def __init__(self, maps: Sequence[Tensor], *, cells: int = 28, spacing: int = 8, blurred: bool = True):
        super().__init__()
        check_count("LocalMap", cells, "cells")
        check_count("LocalMap", spacing, "spacing", at_least=2)
        if spacing % 2 or not maps:
            raise ValueError(f"LocalMap needs an even spacing and at least one map, got {spacing} and {len(maps)} maps.")
        self.cells, self.spacing, self.blurred = cells, spacing, blurred
        # Blurred maps change slowly: every half cell is often enough, with a border of zeros for whatever lies outside.
        self._step, self._box = (spacing // 2, spacing) if blurred else (1, 1)
        tables = [self._table(index, each) for index, each in enumerate(maps)]
        rows, columns = (max(table.shape[axis] for table in tables) for axis in (0, 1))
        stacked = torch.stack([pad(table, (0, columns - table.shape[1], 0, rows - table.shape[0])) for table in tables])
        self.table: Tensor
        self.register_buffer("table", stacked, persistent=False)

    def _table(self, index: int, free: Tensor) -> Tensor:
        """How many pixels of each box are free, with a border of zeros."""
        if free.dtype != torch.bool or free.ndim != 2 or 0 in free.shape:
            raise ValueError(f"LocalMap needs each map as a bool tensor [rows, columns], got {describe(free)} for map {index}.")
        step, box = self._step, self._box
        margin = (box - step) // 2
        # Rounded up, so that the last pixels are in some box.
        behind = [-size % step + margin for size in free.shape]
        padded = pad(free.float(), (margin, behind[1], margin, behind[0]))
        counts = (avg_pool2d(padded[None], box, step)[0] * box**2).round()
        return pad(counts, (1, 1, 1, 1)).to(torch.uint8)

    def forward(self, poses: Tensor, index: Tensor) -> Tensor:
        check_tensor("LocalMap", poses, ["particle", 3], "Poses are x, y in pixels of the map and a heading in radians.")
        check_batch("LocalMap", index, "the numbers of maps", poses.shape[:-2], "One map for each batch element.")
        if index.shape != poses.shape[:-2] or index.dtype != torch.long:
            raise ValueError(
                f"LocalMap needs one map for each batch element {list(poses.shape[:-2])}, int64, got {describe(index)}."
            )
        x, y = self.places(poses)
        _, rows, columns = self.table.shape
        # In boxes of the table, whose first row and column are the border.
        column, row = (place / self._step + 0.5 for place in (x, y))
        left, upper = column.floor(), row.floor()
        right_share, lower_share = column - left, row - upper
        first = (index * (rows * columns))[..., None, None, None]
        corners = []
        for down in (0, 1):
            for aside in (0, 1):
                i = (upper + down).clamp(0, rows - 1).long()
                j = (left + aside).clamp(0, columns - 1).long()
                corners.append(self.table.view(-1).take(first + i * columns + j).to(poses.dtype))
        above = corners[0] + right_share * (corners[1] - corners[0])
        below = corners[2] + right_share * (corners[3] - corners[2])
        return (above + lower_share * (below - above)) * (FREE / self._box**2)

    def places(self, poses: Tensor) -> tuple[Tensor, Tensor]:
        """The points that the cells of crops show: x and y in pixels, ``[*batch, n, cells, cells]`` each."""
        like = {"dtype": poses.dtype, "device": poses.device}
        cells = torch.arange(self.cells, **like)
        ahead = (self.spacing * (self.cells - cells - 0.5))[:, None]
        aside = self.spacing * (cells - (self.cells - 1) / 2)
        x, y, theta = (poses[..., axis, None, None] for axis in range(3))
        cos, sin = theta.cos(), theta.sin()
        return x + ahead * cos - aside * sin, y + ahead * sin + aside * cos

    @property
    def reach(self) -> float:
        """How far ahead, and how wide, a crop reaches, in pixels."""
        return math.prod((self.cells, self.spacing))
