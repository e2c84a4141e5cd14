"""What walls look like: how high they stand and what they are painted with."""

from typing import NamedTuple

import torch
from torch import Tensor


class Surfaces(NamedTuple):
    """The faces of a scene's walls; each is ``[W]``, or ``[S, W]`` for ``S`` scenes.

    Along a face, positions run from 0 at its start to 1 at its end.

    Args:
        material: What it is painted with, an index into the scene's materials.
        bottom: Height of its lower edge.
        top: Height of its upper edge.
        tiles: How often the texture is repeated along it; a negative number mirrors it.
        density: How often it is repeated per unit of height, counted from the top.
        picture: What hangs on it, an index into the materials, or -1 for nothing. None if no face has a picture.
        frame: Where the picture hangs: position of its left and right edge (the left one may be larger, which mirrors it),
            height of its lower and upper edge, ``[W, 4]``.
    """

    material: Tensor
    bottom: Tensor
    top: Tensor
    tiles: Tensor
    density: Tensor
    picture: Tensor | None = None
    frame: Tensor | None = None

    @staticmethod
    def plain(material: Tensor, height: float) -> "Surfaces":
        """Faces from the floor to one height, with one tile on each."""
        like = torch.empty(material.shape, device=material.device)
        return Surfaces(
            material=material,
            bottom=torch.zeros_like(like),
            top=torch.full_like(like, height),
            tiles=torch.ones_like(like),
            density=torch.full_like(like, 1 / height),
        )

    @staticmethod
    def tiled(material: Tensor, start: Tensor, end: Tensor, bottom: Tensor, top: Tensor, period: float) -> "Surfaces":
        """Faces of walls from ``start`` to ``end`` ``[W, 2]``, painted with tiles of one size wherever they stand."""
        tiles = (end - start).norm(dim=-1) / period
        return Surfaces(material, bottom, top, tiles, torch.full_like(tiles, 1 / period))
