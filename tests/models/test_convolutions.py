"""Convolutions: what torch's own compute, with or without a run axis; the sizes of the published encoders."""

import pytest
import torch
from torch import nn

from mdpf.models import Convolution, ImageEncoder, PReLU, stack_runs
from mdpf.models.convolutions import one_by_one, side_by_side


def grads(layer, x):
    return torch.autograd.grad(layer(x).sin().sum(), list(layer.parameters()))


def test_convolution_equals_torch_values_start_and_gradients(dtype, generator):
    torch.manual_seed(3)
    ours = Convolution(2, 4).to(dtype)
    torch.manual_seed(3)
    theirs = nn.Conv2d(2, 4, 3, padding=1).to(dtype)
    assert torch.equal(ours.weight, theirs.weight)
    assert torch.equal(ours.bias, theirs.bias)
    x = torch.randn(5, 2, 6, 7, generator=generator, dtype=torch.float64).to(dtype)
    assert torch.equal(ours(x), theirs(x))
    for left, right in zip(grads(ours, x), grads(theirs, x), strict=True):
        assert torch.equal(left, right)


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("batch", [(), (4,), (2, 3), (0,)])
def test_an_encoder_of_runs_equals_each_run(runs, batch, generator):
    torch.manual_seed(4)
    singles = [ImageEncoder(2, 7, widths=(3, 4), pools=(True, False), out_dim=5, activation=PReLU).double() for _ in range(runs)]
    stacked = stack_runs(singles)
    x = torch.randn(runs, *batch, 2, 7, 7, generator=generator, dtype=torch.float64)
    together = stacked(x)
    assert together.shape == (runs, *batch, 5)
    for run, single in enumerate(singles):
        torch.testing.assert_close(together[run], single(x[run]), rtol=1e-12, atol=1e-12)
    alone = [grads(single, x[run]) for run, single in enumerate(singles)]
    for left, right in zip(grads(stacked, x), zip(*alone, strict=True), strict=True):
        torch.testing.assert_close(left, torch.stack(right), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("channels", "side", "pools", "activation", "count"),
    [
        (3, 24, (True, True, False), nn.ReLU, 130_208),
        (3, 56, (True, True, False), PReLU, 720_036),
        (1, 28, (True, False, False), PReLU, 719_748),
    ],
)
def test_encoders_have_the_published_number_of_parameters(channels, side, pools, activation, count):
    encoder = ImageEncoder(channels, side, pools=pools, activation=activation)
    assert sum(parameter.numel() for parameter in encoder.parameters()) == count


def test_reduced_precision_is_for_a_gpu_and_small(generator):
    exact, reduced = ImageEncoder(1, 28, pools=(True, False, False)), ImageEncoder(1, 28, pools=(True, False, False), reduced=True)
    reduced.load_state_dict(exact.state_dict())
    x = torch.rand(3, 1, 28, 28, generator=generator)
    assert torch.equal(exact(x), reduced(x))
    # What the layers compute in half the precision, by hand.
    half = exact.head(_features(exact, x.to(torch.bfloat16)))
    assert half.dtype == torch.bfloat16
    assert (half.float() - exact(x)).abs().max() < 0.02 * exact(x).abs().max()


def _features(encoder, x):
    for convolution, activation, pooled in zip(encoder.convolutions, encoder.activations, encoder.pools, strict=True):
        x = activation(convolution(x))
        x = nn.functional.max_pool2d(x, 3, 2) if pooled else x
    return x.flatten(-3)


@pytest.mark.gpu
def test_reduced_precision_on_a_gpu_agrees_in_values_and_gradients(generator):
    exact = ImageEncoder(3, 56, activation=PReLU).cuda()
    reduced = ImageEncoder(3, 56, activation=PReLU, reduced=True).cuda()
    reduced.load_state_dict(exact.state_dict())
    x = torch.rand(16, 3, 56, 56, generator=generator).cuda()
    assert reduced(x).dtype == torch.float32
    torch.testing.assert_close(reduced(x), exact(x), rtol=0.05, atol=0.02)
    for left, right in zip(grads(reduced, x), grads(exact, x), strict=True):
        assert (left - right).norm() < 0.05 * right.norm()


def test_an_image_of_another_size_is_refused():
    with pytest.raises(
        ValueError, match=r"needs a tensor of shape \[\*batch, 3, 56, 56\], got .*\[2, 3, 57, 56\]. Channels come first"
    ):
        ImageEncoder(3, 56)(torch.zeros(2, 3, 57, 56))
    with pytest.raises(ValueError, match="one entry of pools for each of 3 convolutions, got 2"):
        ImageEncoder(3, 56, pools=(True, False))


def test_runs_one_by_one_and_side_by_side_are_the_same(generator):
    shapes = ((3, 4, 2, 6, 5), (3, 7, 2, 3, 3), (3, 7))
    parts = [torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True) for shape in shapes]
    found = [how(*parts) for how in (one_by_one, side_by_side)]
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-12)
    for left, right in zip(*(torch.autograd.grad(value.sin().sum(), parts) for value in found), strict=True):
        torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-10)
