"""Mapping over values: every tensor in its place, nothing else touched."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mdpf import Mixture, trees
from mdpf.kernels import Gaussian, Product, VonMises


class Pair(NamedTuple):
    left: Tensor | None
    right: tuple


def value(fill=1.0, batch=()):
    tensor = torch.full((*batch, 2), fill)
    return Pair(None, (tensor, Pair(tensor + 1, ())))


def mixture():
    kernel = Product((Gaussian(torch.ones(3, 2)), VonMises(torch.ones(3, 1))))
    return Mixture(torch.zeros(3, 4, 3), torch.zeros(3, 4), kernel)


def test_map_keeps_types_and_absent_parts():
    doubled = trees.tree_map(lambda tensor: 2 * tensor, value())
    assert isinstance(doubled, Pair)
    assert isinstance(doubled.right[1], Pair)
    assert doubled.left is None
    assert_close(doubled.right[0], torch.full((2,), 2.0))
    assert_close(doubled.right[1].left, torch.full((2,), 4.0))
    assert trees.tree_map(torch.neg, None) is None


def test_map_takes_the_tensors_of_others_at_the_same_place():
    total = trees.tree_map(lambda left, right: left - right, value(5.0), value(2.0))
    assert [tensor.tolist() for tensor in trees.leaves(total)] == [[3.0, 3.0], [3.0, 3.0]]


def test_map_reaches_the_parameters_of_a_kernel():
    halved = trees.tree_map(lambda tensor: tensor[0], mixture())
    assert isinstance(halved.kernel, Product)
    assert isinstance(halved.kernel.parts[1], VonMises)
    assert [tuple(tensor.shape) for tensor in trees.leaves(halved)] == [(4, 3), (4,), (2,), (1,)]


@pytest.mark.parametrize("stranger", [3.0, [torch.zeros(1)], {"a": torch.zeros(1)}, "text"])
def test_map_refuses_what_does_not_flow(stranger):
    with pytest.raises(TypeError, match=f"got {type(stranger).__name__}. Values that flow hold nothing else"):
        trees.tree_map(torch.neg, (torch.zeros(1), stranger))


def test_map_refuses_values_of_different_make():
    with pytest.raises(ValueError, match="zip"):
        trees.tree_map(torch.add, (torch.zeros(1), torch.zeros(1)), (torch.zeros(1),))


def test_leaves_come_in_order():
    assert [float(tensor[0]) for tensor in trees.leaves(value())] == [1.0, 2.0]
    assert list(trees.leaves(None)) == []


def test_detach_cuts_every_gradient():
    held = trees.detach(trees.tree_map(lambda tensor: tensor.requires_grad_(), mixture()))
    assert not any(tensor.requires_grad for tensor in trees.leaves(held))


def test_stack_adds_an_axis_to_every_tensor():
    stacked = trees.stack([value(1.0, (3,)), value(5.0, (3,))], 1)
    assert isinstance(stacked, Pair)
    assert stacked.right[0].shape == (3, 2, 2)
    assert stacked.right[0][0, :, 0].tolist() == [1.0, 5.0]


def test_where_chooses_whole_batch_elements(batch, generator):
    condition = torch.rand(batch, generator=generator) < 0.5
    chosen = trees.where(condition, value(1.0, batch), value(5.0, batch))
    assert chosen.left is None
    expected = torch.where(condition, 1.0, 5.0)[..., None].expand(*batch, 2)
    assert torch.equal(chosen.right[0], expected)
    assert torch.equal(chosen.right[1].left, expected + 1)


def test_where_keeps_the_gradient_of_what_was_chosen():
    left, right = torch.ones(2, 3, requires_grad=True), torch.ones(2, 3, requires_grad=True)
    trees.where(torch.tensor([True, False]), left, right).sum().backward()
    assert torch.equal(left.grad, torch.tensor([[1.0] * 3, [0.0] * 3]))
    assert torch.equal(right.grad, torch.tensor([[0.0] * 3, [1.0] * 3]))
