"""What proves that a device computes what the processor does, and that the host never waits for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from mdpf import trees

# A value smaller than this may be off by as much as one of this size.
FLOOR = 1.0


def check_device(
    function: Callable[..., Any],
    *inputs: Any,  # noqa: ANN401 - any values that flow
    device: torch.device | str,
    tolerance: float = 1e-8,
    waits: bool = False,
) -> None:
    """Reject unless a function gives on a device what it gives on the processor: values, and gradients of their weighted sum.

    Random numbers are among the inputs: record them (``noise.Recorder``) and hand in the ``Noise``, for the streams of different
    devices differ. Values are compared in norm, tensor by tensor.

    Args:
        function: From the inputs to a value: a tensor, or tuples of them.
        inputs: Values on the processor: tensors, mixtures, kernels, noise. Gradients are taken to those tensors that ask for one.
        device: Where to compute.
        tolerance: How far a value may be off, relative to its norm or to one, whichever is larger.
        waits: Whether the host may wait for the device; if not, doing so is an error on a CUDA device.

    Example:
        >>> from mdpf.kernels import Gaussian
        >>> kernel = Gaussian(torch.ones(1, requires_grad=True))
        >>> check_device(lambda kernel, x: kernel.log_prob(x, -x), kernel, torch.ones(3, 1), device="cpu")
    """
    target = torch.device(device)
    expected = _outcome(function, inputs, torch.device("cpu"), waits=True)
    # The first call makes handles, workspaces and programs, for which torch may wait.
    _outcome(function, inputs, target, waits=True)
    found = _outcome(function, inputs, target, waits=waits)
    if len(found) != len(expected):
        raise AssertionError(f"{len(found)} tensors on {target}, {len(expected)} on the processor")
    for index, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        _compare(f"tensor {index} of {len(expected)}", ours, theirs, target, tolerance)


def _outcome(function: Callable[..., Any], inputs: tuple[Any, ...], device: torch.device, *, waits: bool) -> list[Tensor]:
    """The tensors a function gives on a device, and then the gradients."""
    asking: list[Tensor] = []

    def place(tensor: Tensor) -> Tensor:
        moved = tensor.detach().to(device).requires_grad_(tensor.requires_grad)
        if tensor.requires_grad:
            asking.append(moved)
        return moved

    placed = trees.tree_map(place, inputs)
    with _waiting_is(allowed=waits, device=device):
        values = list(trees.leaves(function(*placed)))
        smooth = [value for value in values if value.requires_grad]
        gradients = ()
        if smooth and asking:
            loss = torch.stack([_weighed(value) for value in smooth]).sum()
            gradients = torch.autograd.grad(loss, asking, allow_unused=True, materialize_grads=True)
    return [*values, *gradients]


def _weighed(value: Tensor) -> Tensor:
    """A sum in which no two entries count the same; what is not finite does not count."""
    weights = torch.linspace(-1, 2, value.numel(), dtype=value.dtype, device=value.device).view_as(value)
    return (weights * torch.where(value.isfinite(), value, 0.0)).sum()


@contextmanager
def _waiting_is(*, allowed: bool, device: torch.device) -> Iterator[None]:
    if allowed or device.type != "cuda":
        yield
        return
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def _compare(what: str, found: Tensor, expected: Tensor, device: torch.device, tolerance: float) -> None:
    if found.device.type != device.type:
        raise AssertionError(f"{what} is on {found.device}, not on {device}")
    here = found.detach().to("cpu")
    if (here.shape, here.dtype) != (expected.shape, expected.dtype):
        got, wanted = ((list(value.shape), value.dtype) for value in (here, expected))
        raise AssertionError(f"{what}: {got} on {device}, {wanted} on the processor")
    truth = expected.detach()
    if not truth.is_floating_point():
        if not torch.equal(here, truth):
            raise AssertionError(f"{what}: {int((here != truth).sum())} of {truth.numel()} entries differ on {device}")
        return
    finite = truth.isfinite()
    same = (here == truth) | (here.isnan() & truth.isnan())
    if not bool((finite | same).all()):
        raise AssertionError(f"{what}: what is not finite is another value on {device}")
    error, size = (here - truth)[finite].norm(), truth[finite].norm().clamp_min(FLOOR)
    if not bool(error <= tolerance * size):
        raise AssertionError(f"{what}: off by {float(error / size):.2g} on {device}, more than {tolerance:.2g}")
