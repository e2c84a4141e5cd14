"""The layers: what torch's own compute, with or without a run axis."""

import pytest
import torch
from torch import nn

from mdpf.models import Linear, LstmLayer, PReLU, blocks, mlp, stack_runs


def test_linear_equals_torch_values_start_and_gradients(dtype, generator):
    torch.manual_seed(3)
    ours = Linear(5, 4).to(dtype)
    torch.manual_seed(3)
    theirs = nn.Linear(5, 4).to(dtype)
    assert torch.equal(ours.weight, theirs.weight)
    assert torch.equal(ours.bias, theirs.bias)
    x = torch.randn(2, 3, 5, generator=generator, dtype=torch.float64).to(dtype)
    assert torch.equal(ours(x), theirs(x))
    for left, right in zip(torch.autograd.grad(ours(x).sin().sum(), list(ours.parameters())), grads(theirs, x), strict=True):
        assert torch.equal(left, right)


def grads(layer, x):
    return torch.autograd.grad(layer(x).sin().sum(), list(layer.parameters()))


@pytest.mark.parametrize("rows", [(), (4,), (4, 3), (0,), (4, 0)])
def test_linear_of_runs_equals_each_run(rows, generator):
    layers = [Linear(5, 2).double() for _ in range(3)]
    stacked = stack_runs(layers)
    x = torch.randn(3, *rows, 5, generator=generator, dtype=torch.float64)
    y = stacked(x)
    assert y.shape == (3, *rows, 2)
    for run, layer in enumerate(layers):
        torch.testing.assert_close(y[run], layer(x[run]), rtol=1e-13, atol=1e-13)
    for together, *alone in zip(grads(stacked, x), *(grads(layer, x[run]) for run, layer in enumerate(layers)), strict=True):
        torch.testing.assert_close(together, torch.stack(alone), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rows", [(4, 3), (4, 2, 3), (0, 3), (4, 0)])
def test_gradients_in_shares_are_those_of_the_whole(rows, generator, monkeypatch):
    stacked = stack_runs([Linear(5, 2).double() for _ in range(3)])
    x = torch.randn(3, *rows, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    inputs = [x, *stacked.parameters()]
    whole = stacked(x)
    expected = torch.autograd.grad(whole.sin().sum(), inputs)
    monkeypatch.setattr(blocks, "has_shares", lambda x, weight: x.ndim > 3)
    parts = stacked(x)
    assert torch.equal(parts, whole)
    for left, right in zip(torch.autograd.grad(parts.sin().sum(), inputs), expected, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-12)
    if x.numel():
        assert torch.autograd.gradcheck(lambda x, *_: stacked(x), inputs)
        assert torch.autograd.gradgradcheck(lambda *inputs: blocks.AffineInShares.apply(*inputs), inputs)


@pytest.mark.compile
# While it traces, torch builds an autograd function in a way it warns of itself.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_layers_in_shares_compile_without_a_break(generator, monkeypatch):
    monkeypatch.setattr(blocks, "has_shares", lambda x, weight: x.ndim > 3)
    stacked = stack_runs([mlp([20, 20, 2]) for _ in range(2)])
    x = torch.randn(2, 3, 4, 20, generator=generator)
    torch._dynamo.reset()
    compiled = torch.compile(stacked, fullgraph=True, backend="aot_eager")
    for left, right in zip(grads(compiled, x), grads(stacked, x), strict=True):
        torch.testing.assert_close(left, right)


@pytest.mark.compile
@pytest.mark.parametrize("rows", [(), (4,), (4, 3), (0, 3)])
def test_tiny_layers_are_sums_of_products_while_compiling(rows, generator, monkeypatch):
    stacked = stack_runs([mlp([5, 4, 2]).double() for _ in range(3)])
    x = torch.randn(3, *rows, 5, generator=generator, dtype=torch.float64)
    called, products = [], blocks._products
    monkeypatch.setattr(blocks, "_products", lambda *inputs: called.append(len(inputs)) or products(*inputs))
    expected = grads(stacked, x)
    assert not called
    torch._dynamo.reset()
    found = grads(torch.compile(stacked, fullgraph=True, backend="aot_eager"), x)
    assert called
    for left, right in zip(found, expected, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-12)


def test_prelu_equals_torch_with_one_slope_for_each_run(generator):
    x = torch.randn(3, 4, 5, generator=generator, dtype=torch.float64)
    ours, theirs = PReLU().double(), nn.PReLU().double()
    assert torch.equal(ours(x), theirs(x))
    assert torch.equal(grads(ours, x)[0], grads(theirs, x)[0].squeeze())
    layers = [PReLU().double() for _ in range(3)]
    for slope, layer in zip((-0.5, 0.1, 2.0), layers, strict=True):
        nn.init.constant_(layer.slope, slope)
    stacked = stack_runs(layers)
    assert torch.equal(stacked(x), torch.stack([layer(x[run]) for run, layer in enumerate(layers)]))
    torch.testing.assert_close(grads(stacked, x)[0], torch.stack([grads(layer, x[run])[0] for run, layer in enumerate(layers)]))


def test_mlp_has_activations_between_maps_and_none_after_the_last():
    layers = list(mlp([2, 3, 3, 1], PReLU))
    assert [type(layer) for layer in layers] == [Linear, PReLU, Linear, PReLU, Linear]
    assert [tuple(layer.weight.shape) for layer in layers[::2]] == [(3, 2), (3, 3), (1, 3)]


def test_lstm_layer_equals_torch_values_and_gradients(generator):
    ours, theirs = LstmLayer(3, 4).double(), nn.LSTM(3, 4, batch_first=True).double()
    names = {"weight_ih_l0": "incoming.weight", "weight_hh_l0": "recurrent.weight"}
    names |= {"bias_ih_l0": "incoming.bias", "bias_hh_l0": "recurrent.bias"}
    own = dict(ours.named_parameters())
    theirs.load_state_dict({name: own[mine].detach() for name, mine in names.items()})
    x = torch.randn(2, 5, 3, generator=generator, dtype=torch.float64)
    hidden = cell = torch.zeros(2, 4, dtype=torch.float64)
    shown = []
    for t in range(5):
        hidden, cell = ours(x[:, t], hidden, cell)
        shown.append(hidden)
    expected, (_, last) = theirs(x)
    torch.testing.assert_close(torch.stack(shown, 1), expected)
    torch.testing.assert_close(cell, last[0])
    left = torch.autograd.grad(torch.stack(shown, 1).sin().sum(), [own[mine] for mine in names.values()])
    right = torch.autograd.grad(expected.sin().sum(), [getattr(theirs, name) for name in names])
    for mine, torchs in zip(left, right, strict=True):
        torch.testing.assert_close(mine, torchs)


def test_lstm_layer_starts_within_torch_bounds():
    """Every parameter of torch's starts uniformly within one over the root of what the layer remembers, whatever comes in."""
    layer = LstmLayer(2, 64)
    for parameter in layer.parameters():
        assert parameter.abs().max() <= 1 / 8
        assert parameter.abs().max() > 0.11
