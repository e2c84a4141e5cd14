"""Convolutions with or without a run axis, and the encoder of small images that is made of them."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from mdpf.checks import check_tensor
from mdpf.models.blocks import Linear, matching

KERNEL = 3
POOL, POOL_STRIDE = 3, 2
ALIGNED = 8  # Numbers of half the precision: rows of so many are what the units for products of matrices read.
PORTION = 2**14  # Images at a time: of more, products and patches would be more than libraries count by 16 and 32 bits.

Way = Callable[[Tensor, Tensor, Tensor], Tensor]


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
            found = _way(x, 1)(images[None], weight[None], bias[None])
            return found.reshape(*x.shape[:-3], *found.shape[2:])
        runs, *batch = x.shape[:-3]
        images = x.reshape(runs, math.prod(batch), *x.shape[-3:])
        return _way(x, runs)(images, weight, bias).reshape(runs, *batch, weight.shape[1], *x.shape[-2:])


def _way(x: Tensor, runs: int) -> Way:
    """How to compute the convolutions of some runs where ``x`` is, and in its precision."""
    if not x.is_cuda:
        return one_by_one  # A processor takes up to four times as long for groups.
    if runs > 1:
        return ON_A_GPU
    return IN_HALF if x.dtype in (torch.bfloat16, torch.float16) else one_by_one


def one_by_one(images: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Convolutions of several runs, one after the other: ``[R, n, in, h, w]`` to ``[R, n, out, h, w]``."""
    runs = zip(images, weight, bias, strict=True)
    found = [nn.functional.conv2d(*parts, padding=KERNEL // 2) for parts in runs]
    return found[0][None] if len(found) == 1 else torch.stack(found)


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


def in_products(images: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The same as products of matrices, kernels by all patches of an image: a library has few programs for few channels."""
    kernels = torch.cat([weight.flatten(2), bias[..., None]], -1)
    found = [PatchProducts.apply(part, kernels) for part in images.split(PORTION, 1)]
    return found[0] if len(found) == 1 else torch.cat(found, 1)


class PatchProducts(torch.autograd.Function):
    """What kernels ``[R, out, 9 in + 1]``, each with its bias, make of images ``[R, n, in, h, w]``: ``[R, n, out, h, w]``.

    There is one product for each image, also for the kernels' gradient, whose shares are then added up: kernels have few numbers,
    and one product for all images would keep few processors of a GPU busy.
    """

    @staticmethod
    def forward(images: Tensor, kernels: Tensor) -> Tensor:
        (runs, count, _, *size), out = images.shape, kernels.shape[1]
        found = torch.bmm(_for_each(kernels, count), _patches(images))
        return found[..., : math.prod(size)].view(runs, count, out, *size)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:  # noqa: ANN401
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor]:  # noqa: ANN401
        images, kernels = ctx.saved_tensors
        grad = _aligned(grads[0].flatten(0, 1).flatten(-2))
        to_images = None
        if ctx.needs_input_grad[0]:
            to_images = _put_together(torch.bmm(_for_each(kernels, images.shape[1]).mT, grad), images)
        shares = torch.bmm(grad, _patches(images).mT).unflatten(0, images.shape[:2])
        return to_images, shares.sum(1)[..., : kernels.shape[-1]]


def _for_each(kernels: Tensor, count: int) -> Tensor:
    """The kernels of every run for each of its images, without copies of them if there is one run."""
    return _aligned(kernels)[:, None].expand(-1, count, -1, -1).flatten(0, 1)


def _patches(images: Tensor) -> Tensor:
    """The 3 by 3 pixels around every one, and a one for the bias, as columns: ``[R, n, c, h, w]`` to ``[R n, 9 c + 1, h w]``."""
    edge, (runs, count, channels, height, width) = KERNEL // 2, images.shape
    around = pad(images, (edge,) * 4).unfold(3, KERNEL, 1).unfold(4, KERNEL, 1)
    columns = around.movedim((3, 4), (5, 6)).reshape(runs * count, KERNEL**2 * channels, height * width)
    # As many rows as `_aligned` kernels have numbers; those behind the one meet zeros.
    ones = 1 + -(columns.shape[1] + 1) % ALIGNED
    return _aligned(pad(columns, (0, 0, 0, ones), value=1.0))


def _put_together(columns: Tensor, like: Tensor) -> Tensor:
    """Add up in every pixel what all patches hold of it: from the gradient of patches to that of the images."""
    edge, (*batch, channels, height, width) = KERNEL // 2, like.shape
    patches = columns[:, : KERNEL**2 * channels, : height * width].reshape(*batch, channels, KERNEL, KERNEL, height, width)
    wide, precise = pad(patches, (edge,) * 4), torch.promote_types(columns.dtype, torch.float32)
    total = torch.zeros((), dtype=precise, device=columns.device)
    for i in range(KERNEL):
        for j in range(KERNEL):
            moved = wide[..., i, j, KERNEL - 1 - i :, KERNEL - 1 - j :]
            total = total + moved[..., :height, :width].to(precise)
    return total.to(columns.dtype)


def _aligned(rows: Tensor) -> Tensor:
    """Filled up with zeros to a multiple of ``ALIGNED`` numbers."""
    return pad(rows, (0, -rows.shape[-1] % ALIGNED))


# For several runs: of the first two ways the faster one with five runs on an H200, the slower one with three. The other two are not
# measured on a GPU yet; `mdpf bench mazes` does.
ON_A_GPU: Way = side_by_side
# For one run in half the precision: chosen by counting what is read and written, not measured yet; `mdpf bench house` does.
IN_HALF: Way = in_products


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
