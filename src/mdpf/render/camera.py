"""The camera: upright, looking along the horizon."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from mdpf.checks import check_count, check_positive


@dataclass(frozen=True)
class Camera:
    """A pinhole camera with square pixels that looks along the horizon.

    Args:
        width: Pixels in a row.
        height: Pixels in a column.
        field_of_view: Between the left and right edge of the image, in radians.
        eye: Height above the floor, in the units of the scene.
        samples: Rays along each side of a pixel, whose mean is the pixel: 2 means four.
        far: Depth is cut off here; what shows the sky has this depth.

    Example:
        >>> Camera(width=4, height=4, field_of_view=math.pi / 2).columns()
        tensor([-0.7500, -0.2500,  0.2500,  0.7500])
    """

    width: int = 32
    height: int = 32
    field_of_view: float = math.pi / 2
    eye: float = 0.5
    samples: int = 1
    far: float = math.inf

    def __post_init__(self) -> None:
        for name in ("width", "height", "samples"):
            check_count("Camera", getattr(self, name), name)
        check_positive("Camera", self.eye, "eye")
        if not 0 < self.field_of_view < math.pi:
            raise ValueError(
                f"Camera needs a field_of_view between 0 and pi, got {self.field_of_view!r}. "
                "It is in radians; convert degrees with math.radians."
            )

    @property
    def reach(self) -> float:
        """Half of the image's width at depth one."""
        return math.tan(self.field_of_view / 2)

    @property
    def ray_width(self) -> float:
        """How far apart the rays of neighbouring samples are at depth one."""
        return 2 * self.reach / (self.width * self.samples)

    def columns(self, like: Tensor | None = None) -> Tensor:
        """How far to the right every column of samples looks at depth one, ``[width * samples]``."""
        return _centres(self.width * self.samples, like) * self.reach

    def slopes(self, like: Tensor | None = None) -> Tensor:
        """How far up every row of samples looks at depth one, topmost first, ``[height * samples]``."""
        return -_centres(self.height * self.samples, like) * (self.reach * self.height / self.width)


def _centres(count: int, like: Tensor | None) -> Tensor:
    """Centres of equal parts of the interval from -1 to 1."""
    like = torch.empty(()) if like is None else like
    return (2 * torch.arange(count, dtype=like.dtype, device=like.device) + (1 - count)) / count
