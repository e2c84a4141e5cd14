"""Convolutions: what torch's own compute, with or without a run axis; the sizes of the published encoders."""

import pytest
import torch
from torch import nn

from mdpf.models import Convolution, ImageEncoder, PReLU, convolutions, stack_runs
from mdpf.models.convolutions import in_products, interleaved, one_by_one, side_by_side


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


ROUNDINGS = 2 * (5 + 4)  # Of every layer and every activation of an encoder, on the way there and on the way back.
UNIT = 2.0**-9  # By this share at most bfloat16 rounds a number.


def grads_and_terms(network, x):
    """The gradients of all parameters, and what the terms of each would add up to if they all had one sign."""
    layers, found = [layer for layer in network.modules() if layer._parameters], {}

    def watch(layer, inputs, output):
        def note(grad):
            # Every layer is linear in its parameters; numbers below zero are those that a slope sees.
            value = layer.forward(-inputs[0].detach().abs())
            found[layer] = [term.abs() for term in torch.autograd.grad(value, list(layer.parameters()), grad.abs())]

        output.register_hook(torch.enable_grad()(note))

    handles = [layer.register_forward_hook(watch) for layer in layers]
    gradients = grads(network, x)
    for handle in handles:
        handle.remove()
    terms = {parameter: term for layer in layers for parameter, term in zip(layer.parameters(), found[layer], strict=True)}
    return gradients, [terms[parameter] for parameter in network.parameters()]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_reduced_precision_agrees_in_values_and_gradients(device, generator):
    """A gradient is a sum whose terms cancel each other, all but a thousandth of them for a slope; what is rounded are the terms.

    So it is judged by what its terms add up to: should every rounding on the way go in one direction, that is ``ROUNDINGS`` times
    ``UNIT`` of it. On a processor the layers are handed reduced precision by hand.
    """
    torch.manual_seed(0)
    exact = ImageEncoder(3, 56, activation=PReLU).to(device)
    reduced = ImageEncoder(3, 56, activation=PReLU, reduced=True).to(device)
    reduced.load_state_dict(exact.state_dict())
    x = torch.rand(16, 3, 56, 56, generator=generator).to(device)
    by_hand = (lambda images: reduced(images.to(torch.bfloat16)).float()) if device == "cpu" else reduced
    assert by_hand(x).dtype == torch.float32
    torch.testing.assert_close(by_hand(x), exact(x), rtol=0.05, atol=0.02)
    found = torch.autograd.grad(by_hand(x).sin().sum(), list(reduced.parameters()))
    for ours, gradient, terms in zip(found, *grads_and_terms(exact, x), strict=True):
        assert (ours - gradient).norm() < ROUNDINGS * UNIT * terms.norm()


def test_an_image_of_another_size_is_refused():
    with pytest.raises(
        ValueError, match=r"needs a tensor of shape \[\*batch, 3, 56, 56\], got .*\[2, 3, 57, 56\]. Channels come first"
    ):
        ImageEncoder(3, 56)(torch.zeros(2, 3, 57, 56))
    with pytest.raises(ValueError, match="one entry of pools for each of 3 convolutions, got 2"):
        ImageEncoder(3, 56, pools=(True, False))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("how", [side_by_side, interleaved, in_products])
@pytest.mark.parametrize("channels", [1, 2, 8])
def test_all_ways_to_convolve_are_the_same(how, channels, device, generator):
    shapes = ((3, 4, channels, 6, 5), (3, 7, channels, 3, 3), (3, 7))
    parts = [torch.randn(shape, generator=generator, dtype=torch.float64).to(device).requires_grad_() for shape in shapes]
    found = [way(*parts) for way in (one_by_one, how)]
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-12)
    for left, right in zip(*(torch.autograd.grad(value.sin().sum(), parts) for value in found), strict=True):
        torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-10)


def test_what_is_interleaved_stays_so_through_an_encoder(generator):
    """Images come from files with channels last; no layer arranges them anew."""
    x = torch.randn(2, 4, 9, 9, 3, generator=generator).movedim(-1, -3)
    for incoming, outgoing in ((3, 5), (5, 6)):
        weight = torch.randn(2, outgoing, incoming, 3, 3, generator=generator)
        x = convolutions._pool(interleaved(x, weight, torch.zeros(2, outgoing)).relu())
        assert x.movedim(-3, -1).is_contiguous()


def test_many_images_are_done_in_portions(generator, monkeypatch):
    images, weight, bias = (torch.randn(shape, generator=generator) for shape in ((2, 7, 3, 5, 4), (2, 4, 3, 3, 3), (2, 4)))
    whole = in_products(images, weight, bias)
    monkeypatch.setattr(convolutions, "PORTION", 3)
    torch.testing.assert_close(in_products(images, weight, bias), whole)
    assert in_products(images[:, :0], weight, bias).shape == (2, 0, 4, 5, 4)


def test_images_that_nobody_learns_from_cost_no_gradient(generator, monkeypatch):
    """The first layer of an encoder that looks at what was seen."""
    monkeypatch.setattr(convolutions, "_put_together", None)
    weight, bias = torch.randn(1, 4, 2, 3, 3, generator=generator).requires_grad_(), torch.zeros(1, 4)
    images = torch.randn(1, 5, 2, 6, 6, generator=generator)
    in_products(images, weight, bias).sin().sum().backward()
    assert weight.grad.isfinite().all()
    with pytest.raises(TypeError):
        in_products(images.requires_grad_(), weight, bias).sum().backward()
