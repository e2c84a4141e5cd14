"""From images of any size, as files hold them, to features."""

import math

from torch import Tensor, nn

from mdpf.models.blocks import Linear
from mdpf.models.convolutions import Convolution

SMALLEST = 4  # Pixels: images are halved until one of their sides has fewer than twice as many.


class PictureEncoder(nn.Module):
    """Turn images, channels last and in bytes, into features: convolutions, each followed by averages of 2 by 2 pixels.

    Args:
        shape: Height, width and channels of an image.
        feature_dim: How many numbers a feature has.
        channels: Channels after the first convolution; they double with each further one, up to four times as many.

    Example:
        >>> import torch
        >>> PictureEncoder((24, 32, 3), feature_dim=16)(torch.zeros(5, 24, 32, 3, dtype=torch.uint8)).shape
        torch.Size([5, 16])
    """

    def __init__(self, shape: tuple[int, int, int], *, feature_dim: int, channels: int = 8):
        super().__init__()
        height, width, incoming = shape
        layers: list[nn.Module] = []
        outgoing = channels
        while True:
            layers.append(Convolution(incoming, outgoing))
            height, width = math.ceil(height / 2), math.ceil(width / 2)
            if min(height, width) < 2 * SMALLEST:
                break
            incoming, outgoing = outgoing, min(2 * outgoing, 4 * channels)
        self.convolutions = nn.ModuleList(layers)
        self.head = Linear(outgoing * height * width, feature_dim)

    def forward(self, images: Tensor) -> Tensor:
        pixels = images.movedim(-1, -3).to(self.head.weight.dtype) / 255 - 0.5
        for convolution in self.convolutions:
            pixels = _halved(convolution(pixels).relu())
        return self.head(pixels.flatten(-3)).relu()


def _halved(pixels: Tensor) -> Tensor:
    rows = pixels.reshape(math.prod(pixels.shape[:-3]), *pixels.shape[-3:])
    small = nn.functional.avg_pool2d(rows, 2, ceil_mode=True)
    return small.reshape(*pixels.shape[:-2], *small.shape[-2:])
