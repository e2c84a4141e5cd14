"""Convolutions with or without a run axis, and the encoder of small images that is made of them."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from mdpf.checks import check_tensor
from mdpf.models.blocks import Linear, matching

KERNEL = 3
POOL, POOL_STRIDE = 3, 2


class Convolution(nn.Module):
    """A 3 by 3 convolution that keeps the size of the image, one for each run if there is a run axis. Starts as torch's own does.

    Shapes:
        ``[*batch, in, h, w]`` to ``[*batch, out, h, w]``; the first axis of the batch is that of the runs, if there are any.
    """

    runs_allowed = True

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        bound = 1 / math.sqrt(in_channels * KERNEL**2)
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels, KERNEL, KERNEL).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(out_channels).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = matching(self.weight, x), matching(self.bias, x)
        if weight.ndim == 4:
            images = x.reshape(math.prod(x.shape[:-3]), *x.shape[-3:])
            found = nn.functional.conv2d(images, weight, bias, padding=KERNEL // 2)
            return found.reshape(*x.shape[:-3], *found.shape[1:])
        runs, *batch = x.shape[:-3]
        images = x.reshape(runs, math.prod(batch), *x.shape[-3:])
        # A processor takes up to four times as long for groups.
        how = ON_A_GPU if x.is_cuda and runs > 1 else one_by_one
        return how(images, weight, bias).reshape(runs, *batch, weight.shape[1], *x.shape[-2:])


def one_by_one(images: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Convolutions of several runs, one after the other: ``[R, n, in, h, w]`` to ``[R, n, out, h, w]``."""
    runs = zip(images, weight, bias, strict=True)
    return torch.stack([nn.functional.conv2d(*parts, padding=KERNEL // 2) for parts in runs])


def side_by_side(images: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The same with runs as groups of channels, in one convolution."""
    runs = len(images)
    grouped = images.transpose(0, 1).flatten(1, 2)
    found = nn.functional.conv2d(grouped, weight.flatten(0, 1), bias.flatten(), padding=KERNEL // 2, groups=runs)
    return found.unflatten(1, (runs, -1)).transpose(0, 1)


def interleaved(images: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """One after the other, with the channels of a pixel next to each other in memory: units made for products of matrices want it.

    What comes out is laid out in the same way, so that no layer behind has to arrange it anew.
    """
    layouts = [part.contiguous(memory_format=torch.channels_last) for part in images]
    runs = zip(layouts, weight, bias, strict=True)
    found = [nn.functional.conv2d(*parts, padding=KERNEL // 2) for parts in runs]
    return torch.stack([part.movedim(1, -1) for part in found]).movedim(-1, 2)


# The fastest way for several runs, as `mdpf bench mazes` found it.
ON_A_GPU: Callable[[Tensor, Tensor, Tensor], Tensor] = side_by_side


class ImageEncoder(nn.Module):
    """Convolutions with an activation behind each and pooling where asked, then two affine maps with an activation between them.

    Args:
        in_channels: Channels of an image.
        side: Its rows and columns.
        widths: Channels after each convolution.
        pools: Behind which of them the maximum of 3 by 3 pixels is taken, every two pixels.
        out_dim: Numbers that come out.
        activation: What stands behind every layer but the last.
        reduced: Compute in half the precision (bfloat16) on a CUDA device. Parameters and what comes out keep theirs.

    Shapes:
        Floats ``[*batch, in_channels, side, side]`` to ``[*batch, out_dim]``.

    Example:
        >>> ImageEncoder(3, 24, pools=(True, True, False))(torch.zeros(5, 3, 24, 24)).shape
        torch.Size([5, 64])
    """

    def __init__(
        self,
        in_channels: int,
        side: int,
        *,
        widths: Sequence[int] = (16, 32, 64),
        pools: Sequence[bool] = (True, True, False),
        out_dim: int = 64,
        activation: Callable[[], nn.Module] = nn.ReLU,
        reduced: bool = False,
    ):
        super().__init__()
        if len(widths) != len(pools):
            raise ValueError(f"ImageEncoder needs one entry of pools for each of {len(widths)} convolutions, got {len(pools)}.")
        self.in_channels, self.side, self.pools, self.reduced = in_channels, side, tuple(pools), reduced
        channels = [in_channels, *widths]
        self.convolutions = nn.ModuleList(Convolution(*pair) for pair in zip(channels[:-1], widths, strict=True))
        self.activations = nn.ModuleList(activation() for _ in widths)
        for pooled in pools:
            side = (side - POOL) // POOL_STRIDE + 1 if pooled else side
        self.head = nn.Sequential(Linear(widths[-1] * side**2, out_dim), activation(), Linear(out_dim, out_dim))

    def forward(self, images: Tensor) -> Tensor:
        check_tensor("ImageEncoder", images, [self.in_channels, self.side, self.side], "Channels come first; resize other images.")
        x = images.to(torch.bfloat16) if self.reduced and images.is_cuda else images
        for convolution, activation, pooled in zip(self.convolutions, self.activations, self.pools, strict=True):
            x = activation(convolution(x))
            if pooled:
                x = _pool(x)
        return self.head(x.flatten(-3)).to(images.dtype)


def _pool(x: Tensor) -> Tensor:
    images = x.reshape(math.prod(x.shape[:-3]), *x.shape[-3:])
    small = nn.functional.max_pool2d(images, POOL, POOL_STRIDE)
    return small.reshape(*x.shape[:-2], *small.shape[-2:])
