"""The check of devices rejects what differs between two calls, which is all that a machine without a second device can show."""

import pytest
import torch

from mdpf.testing import check_device


def changing(*values):
    """A function that gives one value after the other: the first on the processor, then twice on the device."""
    remaining = iter(values)
    return lambda x: (next(remaining) * x,)


def test_what_is_the_same_everywhere_is_accepted():
    x = torch.tensor([1.0, torch.inf, torch.nan, 2.0], requires_grad=True)
    check_device(lambda x: (x.square(), x > 1, -x.detach()), x, device="cpu")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((1.0, 1.01, 1.01), "tensor 0 of 2: off by 0.01 on cpu, more than 0.001"),
        ((1.0, torch.inf, torch.inf), "off by inf"),
        ((1.0, torch.nan, torch.nan), "off by nan"),
        ((torch.inf, 1.0, 1.0), "tensor 0 of 2: what is not finite is another value on cpu"),
        ((torch.nan, 0.0, 0.0), "tensor 0 of 2: what is not finite is another value on cpu"),
        ((torch.inf, -torch.inf, -torch.inf), "tensor 0 of 2: what is not finite is another value on cpu"),
    ],
)
def test_another_value_is_rejected(values, message):
    with pytest.raises(AssertionError, match=message):
        check_device(changing(*values), torch.tensor([3.0], requires_grad=True), device="cpu", tolerance=1e-3)


def test_another_gradient_is_rejected():
    class Doubled(torch.autograd.Function):
        calls = 0

        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            Doubled.calls += 1
            return gradient * Doubled.calls

    with pytest.raises(AssertionError, match="tensor 1 of 2: off by"):
        check_device(Doubled.apply, torch.ones(3, requires_grad=True), device="cpu")


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ((torch.zeros(2),), r"tensor 0 of 1: \(\[2\], torch.float32\) on cpu, \(\[3\], torch.float32\) on the processor"),
        ((torch.zeros(3).double(),), "torch.float64"),
        ((torch.zeros(3), torch.zeros(3)), "2 tensors on cpu, 1 on the processor"),
        ((torch.zeros(3, device="meta"),), "tensor 0 of 1 is on meta, not on cpu"),
    ],
)
def test_another_kind_of_value_is_rejected(others, message):
    outcomes = iter([(torch.zeros(3),), others, others])
    with pytest.raises(AssertionError, match=message):
        check_device(lambda: next(outcomes), device="cpu")


def test_another_integer_is_rejected():
    outcomes = iter([torch.tensor([1, 2]), torch.tensor([1, 3]), torch.tensor([1, 3])])
    with pytest.raises(AssertionError, match="1 of 2 entries differ"):
        check_device(lambda: next(outcomes), device="cpu")
