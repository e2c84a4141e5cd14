"""Walls of a maze on a grid: found by the lines of the grid, not one by one."""

from typing import NamedTuple

import torch
from torch import Tensor


class Hits(NamedTuple):
    """What the rays of every column meet, nearest first; each ``[F, C, K]``.

    Args:
        depth: Along the axis of the camera; infinite where there is nothing.
        face: Which face, counted through all scenes; any valid index where there is nothing.
        position: Along the face, from 0 at its start to 1 at its end.
        clipped: Frames in which a column meets more than ``K`` faces that could be seen, ``[F]``.
    """

    depth: Tensor
    face: Tensor
    position: Tensor
    clipped: Tensor


class GridWalls(NamedTuple):
    r"""Walls along the lines of a grid of unit cells, all of one thickness, with a square pillar at every end.

    A ray that goes right meets the lines :math:`x = 0, 1, \ldots` one after the other; where it does, a table says whether a wall
    stands there. So every ray looks at the lines of the grid, in one go and whatever the number of walls. All walls reach from the
    floor to one height, and the camera is in none of them.

    Tables hold indices of faces, -1 for none. Along a line they alternate: the pillar at 0, the wall from 0 to 1, the pillar at 1.

    Args:
        across_x: For rays that go right (0) or left (1): faces on the lines of constant x, ``[S, 2, nx + 1, 2 ny + 1]``.
        across_y: For rays that go up (0) or down (1): faces on the lines of constant y, ``[S, 2, ny + 1, 2 nx + 1]``.
        half_thickness: Of all walls, ``[S]``.
    """

    across_x: Tensor
    across_y: Tensor
    half_thickness: Tensor

    @property
    def num_scenes(self) -> int:
        return len(self.across_x)

    def hit(self, scene: Tensor, origin: Tensor, direction: Tensor, num_hits: int, full: Tensor) -> Hits:
        """Follow rays to the first wall; ``num_hits`` and ``full`` play no role, since no ray goes past it.

        Args:
            scene: Which scene each frame is in, ``[F]``.
            origin: Where its rays start, ``[F, 2]``.
            direction: Where they go, ``[F, C, 2]``; the length of a direction is that of a unit of depth.
            num_hits: Not needed.
            full: Not needed.
        """
        x, y = origin[:, None, None, 0], origin[:, None, None, 1]
        dx, dy = direction[..., 0, None], direction[..., 1, None]
        half = self.half_thickness.to(origin.dtype)[scene][:, None, None]
        first = _meet(self.across_x, scene, half, x, dx, y, dy)
        second = _meet(self.across_y, scene, half, y, dy, x, dx)
        nearer = first[0] <= second[0]
        depth, face, place = (torch.where(nearer, one, other) for one, other in zip(first, second, strict=True))
        clipped = torch.zeros(len(origin), dtype=torch.bool, device=origin.device)
        return Hits(depth, face, place - place.floor(), clipped)


def _meet(
    table: Tensor, scene: Tensor, half: Tensor, start: Tensor, step: Tensor, side_start: Tensor, side_step: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Where rays first meet a face on the lines of one direction: depth, face, coordinate along the line; each ``[F, C, 1]``."""
    _, _, num_lines, num_places = table.shape
    lines = torch.arange(num_lines, dtype=start.dtype, device=start.device)
    back = step < 0
    plane = torch.where(back, half, -half)
    depth = (lines + (plane - start)) / step
    place = side_start + depth * side_step
    corner = place.round()
    # The pillar at a corner has an even index, the wall between two corners an odd one.
    column = torch.where((place - corner).abs() <= half, 2 * corner, 2 * place.floor() + 1)
    inside = (column >= 0) & (column < num_places) & (depth > 0)
    # Rays along a line meet it nowhere: a depth that is no number fails every comparison.
    column = column.nan_to_num(0.0, 0.0, 0.0).clamp(0, num_places - 1).to(torch.int32)
    row = torch.arange(num_lines, dtype=torch.int32, device=start.device) * num_places
    base = (2 * scene.to(torch.int32)[:, None, None] + back.to(torch.int32)) * (num_lines * num_places)
    face = table.reshape(-1).take((base + row + column).long())
    depth = torch.where(inside & (face >= 0), depth, torch.inf)
    nearest, line = depth.min(-1, keepdim=True)
    return nearest, face.gather(-1, line).clamp_min(0), (side_start + nearest * side_step).nan_to_num(0.0, 0.0, 0.0)
