"""All parameters of a training run in one buffer.

The optimiser of R runs works on ``[R, P]``: one row for each run, one column for each number that run learns. The parameters of the
module are views into that buffer, so that clipping, guarding and stepping take a handful of operations whatever the number of
layers, and a checkpoint is one tensor.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mdpf.checks import check_same_kind


class Slot(NamedTuple):
    """Where a parameter lives in the buffer, and its shape without the run axis."""

    start: int
    stop: int
    shape: tuple[int, ...]


class FlatParameters:
    """The parameters of a module with a run axis, moved into one buffer.

    Args:
        module: A module whose every parameter is ``[runs, ...]``; its parameters become views.
        num_runs: How many runs it holds.
    """

    def __init__(self, module: nn.Module, num_runs: int):
        parameters = dict(module.named_parameters())
        if num_runs < 1 or not parameters or any(parameter.shape[:1] != (num_runs,) for parameter in parameters.values()):
            shapes = {name: list(parameter.shape) for name, parameter in parameters.items()}
            raise ValueError(f"FlatParameters needs parameters with a leading run axis of {num_runs}, got {shapes}.")
        self.slots: dict[str, Slot] = {}
        start = 0
        for name, parameter in parameters.items():
            stop = start + parameter[0].numel()
            self.slots[name] = Slot(start, stop, tuple(parameter.shape[1:]))
            start = stop
        first, *rest = parameters.values()
        for parameter in rest:
            check_same_kind("FlatParameters", parameters=first, others=parameter)
        self.values = torch.zeros(num_runs, start, dtype=first.dtype, device=first.device)
        self._parameters = parameters
        for name, parameter in parameters.items():
            slot = self.slots[name]
            view = self.values[:, slot.start : slot.stop].view(num_runs, *slot.shape)
            view.copy_(parameter.detach())
            parameter.data = view

    def collect_gradients(self) -> Tensor:
        """The gradients of all parameters, ``[R, P]``, zero where there is none; the parameters let go of theirs."""
        parts, num_runs = [], len(self.values)
        for name, parameter in self._parameters.items():
            slot, gradient = self.slots[name], parameter.grad
            empty = self.values.new_zeros(num_runs, slot.stop - slot.start)
            parts.append(empty if gradient is None else gradient.reshape(num_runs, -1))
            parameter.grad = None
        return torch.cat(parts, 1)

    @contextmanager
    def learning(self, columns: Tensor) -> Iterator[None]:
        """Let only the parameters learn that have a rate above zero in ``columns`` ``[P]``; the others cost no gradient."""
        before = {name: parameter.requires_grad for name, parameter in self._parameters.items()}
        try:
            for name, parameter in self._parameters.items():
                slot = self.slots[name]
                parameter.requires_grad_(bool((columns[slot.start : slot.stop] > 0).any()))
            yield
        finally:
            for name, parameter in self._parameters.items():
                parameter.requires_grad_(before[name])

    def columns(self, rates: Mapping[str, float]) -> Tensor:
        """Spread numbers given by the leading part of a parameter's name over the columns ``[P]``; zero where none is given.

        The longest matching part wins: ``{"": 1.0, "bandwidth": 0.1}`` gives every parameter 1.0, those of the bandwidth 0.1.
        """
        spread = torch.zeros_like(self.values[0])
        for prefix in sorted(rates, key=len):
            matched = False
            for name, slot in self.slots.items():
                if prefix == "" or name == prefix or name.startswith(prefix + "."):
                    spread[slot.start : slot.stop] = rates[prefix]
                    matched = True
            if not matched:
                parts = sorted({name.split(".")[0] for name in self.slots})
                raise ValueError(f"A learning rate needs the name of a part, got {prefix!r}. The parts are {parts}.")
        return spread
