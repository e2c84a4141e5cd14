"""Pictures that surfaces are painted with, ready to be looked up from any distance."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from mdpf.checks import check_tensor


@dataclass(frozen=True, eq=False)
class Atlas:
    """Square textures of one size, each with smaller versions of itself for what is far away.

    Args:
        texels: All of them one after the other, ``[number, 3]``: first every texture in full size, row by row and topmost first,
            then every one at half its side, and so on down to a single texel.
        size: The side of a texture, a power of two.
        count: How many textures there are.
    """

    texels: Tensor
    size: int
    count: int

    @staticmethod
    def of(textures: Tensor) -> "Atlas":
        """Build one from pictures ``[count, size, size, 3]`` with values from 0 to 1 (or bytes)."""
        if textures.dtype == torch.uint8:
            textures = textures.float() / 255
        check_tensor("Atlas.of", textures, ["texture", "row", "column", 3], "Pictures have three colours, channels last.")
        count, size, width, _ = textures.shape
        if size != width or size & (size - 1):
            raise ValueError(
                f"Atlas.of needs square textures whose side is a power of two, got {size} x {width}. Resize them first."
            )
        level, texels = textures.movedim(-1, 1), []
        while True:
            texels.append(level.movedim(1, -1).reshape(-1, 3))
            if level.shape[-1] == 1:
                return Atlas(torch.cat(texels), size, count)
            level = avg_pool2d(level, 2)

    @property
    def num_levels(self) -> int:
        return self.size.bit_length()

    def to(self, device: torch.device | str) -> "Atlas":
        return Atlas(self.texels.to(device), self.size, self.count)

    def level(self, spacing: Tensor) -> Tensor:
        """Which version to look at where neighbouring rays are ``spacing`` full-size texels apart; int32."""
        return spacing.clamp_min(1.0).log2().round().clamp_max(self.num_levels - 1).to(torch.int32)

    def start(self, level: Tensor) -> Tensor:
        """Where the textures of a level begin; int32."""
        # The sides of the levels before it form a geometric series.
        side = self.side(level)
        return self.count * ((4 * self.size * self.size - 4 * side * side) // 3)

    def side(self, level: Tensor) -> Tensor:
        """The side of a texture at a level; int32."""
        return torch.bitwise_right_shift(torch.full_like(level, self.size), level)
