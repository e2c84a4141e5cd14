"""Scenes: walls, floor, and ceiling or sky, with what they are painted with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from mdpf import trees
from mdpf.render.grid import GridWalls
from mdpf.render.segments import SegmentWalls
from mdpf.render.surfaces import Surfaces
from mdpf.render.textures import Atlas

Walls = GridWalls | SegmentWalls


class Material(NamedTuple):
    """What surfaces are painted with, each ``[S, M]``.

    Args:
        texture: An index into the atlas.
        tint: What its colours are multiplied by, ``[S, M, 3]``, or None: left as they are.
    """

    texture: Tensor
    tint: Tensor | None = None


class Plane(NamedTuple):
    """A floor or a ceiling, painted region by region.

    Args:
        material: Of every region of a grid, indices into the scene's materials, ``[S, gx, gy]``; the
            outermost regions go on for ever.
        corner: Where the grid begins, ``[S, 2]``.
        cell: The side of a region, ``[S]``.
        period: The side of one tile of the texture, ``[S]``.
    """

    material: Tensor
    corner: Tensor
    cell: Tensor
    period: Tensor


@dataclass(frozen=True, eq=False)
class Scene:
    """One scene, or ``S`` of them that share an atlas.

    Args:
        walls: Where the walls are.
        surfaces: What they look like, ``[S, W]``; for ``GridWalls``, the faces that its tables name.
        materials: What there is to paint with.
        atlas: The textures.
        floor: The floor, at height zero.
        ceiling: The ceiling, or None: open sky.
        ceiling_height: Of each scene's ceiling, ``[S]``.
        sky: The material seen in every one of the four directions above all walls, ``[S]``; needed where there is no ceiling.
    """

    walls: Walls
    surfaces: Surfaces
    materials: Material
    atlas: Atlas
    floor: Plane
    ceiling: Plane | None = None
    ceiling_height: Tensor | None = None
    sky: Tensor | None = None

    def __post_init__(self) -> None:
        shape = tuple(self.surfaces.material.shape)
        if len(shape) != 2 or shape[0] != self.walls.num_scenes:
            raise ValueError(
                f"Scene needs surfaces of shape [{self.walls.num_scenes}, faces], got {list(shape)}. "
                "Walls, surfaces and planes share the leading axis of scenes; a single scene has one of length 1."
            )
        if isinstance(self.walls, SegmentWalls) and shape != tuple(self.walls.start.shape[:-1]):
            raise ValueError(
                f"Scene needs one surface for each of the {list(self.walls.start.shape[:-1])} walls, got {list(shape)}."
            )
        if (self.ceiling is None) == (self.sky is None) or (self.ceiling is None) != (self.ceiling_height is None):
            raise ValueError("Scene needs either a ceiling with its ceiling_height, or a sky. Give exactly one of the two.")

    @property
    def num_scenes(self) -> int:
        return self.walls.num_scenes

    def map(self, change: Callable[[Tensor], Tensor]) -> "Scene":
        """The same scene with every tensor changed."""
        changed = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Atlas):
                changed[field.name] = replace(value, texels=change(value.texels))
            elif value is not None:
                changed[field.name] = trees.tree_map(change, value)
        return replace(self, **changed)

    def to(self, device: torch.device | str) -> "Scene":
        """The same scene on another device."""
        return self.map(lambda tensor: tensor.to(device))

    def full(self) -> Tensor:
        """Walls that nothing behind them can be seen over or under, ``[S, W]``: from the floor to the greatest height of all."""
        top = self.surfaces.top
        return (self.surfaces.bottom <= 0) & (top >= top.amax(-1, keepdim=True))


def stack_scenes(scenes: Sequence[Scene]) -> Scene:
    """Put scenes of walls that are segments together, so that one batch of frames may come from all of them.

    They share one atlas. Shorter tables of walls and materials and smaller grids of regions are filled up with what is never seen.
    """
    first = scenes[0]
    if any(scene.atlas is not first.atlas for scene in scenes) or not all(
        isinstance(scene.walls, SegmentWalls) for scene in scenes
    ):
        raise ValueError("stack_scenes needs scenes of SegmentWalls that share one atlas. Build one atlas for all of them.")
    walls = [scene.walls for scene in scenes]
    return Scene(
        walls=trees.tree_map(_padded, *walls),
        surfaces=trees.tree_map(_padded, *(scene.surfaces for scene in scenes)),
        materials=trees.tree_map(_padded, *(scene.materials for scene in scenes)),
        atlas=first.atlas,
        floor=_stack_planes(*(scene.floor for scene in scenes)),
        ceiling=None if first.ceiling is None else _stack_planes(*(scene.ceiling for scene in scenes if scene.ceiling is not None)),
        ceiling_height=trees.tree_map(_joined, *(scene.ceiling_height for scene in scenes)),
        sky=trees.tree_map(_joined, *(scene.sky for scene in scenes)),
    )


def _stack_planes(*planes: Plane) -> Plane:
    grids = [plane.material for plane in planes]
    across, along = (max(grid.shape[axis] for grid in grids) for axis in (1, 2))
    # The outermost regions go on for ever.
    columns, rows = torch.arange(across), torch.arange(along)
    grids = [grid[:, columns.clamp_max(grid.shape[1] - 1)[:, None], rows.clamp_max(grid.shape[2] - 1)] for grid in grids]
    rest = trees.tree_map(_joined, *(plane._replace(material=plane.cell) for plane in planes))
    return rest._replace(material=torch.cat(grids))


def _joined(*tensors: Tensor) -> Tensor:
    return torch.cat(tensors)


def _padded(*tensors: Tensor) -> Tensor:
    """Concatenate along the first axis what may differ in length along the second, filled up with zeros."""
    longest = max(tensor.shape[1] for tensor in tensors)
    return torch.cat([pad(tensor, (0, 0) * (tensor.ndim - 2) + (0, longest - tensor.shape[1])) for tensor in tensors])
