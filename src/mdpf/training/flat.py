"""All parameters of a training run in one buffer.

The optimiser of R runs works on ``[R, P]``: one row for each run, one column for each number that run learns. The parameters of the
module are views into that buffer, so that clipping, guarding and stepping take a handful of operations whatever the number of
layers, and a checkpoint is one tensor.
"""

from collections.abc import Mapping
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
        for name, view in self.views(self.values).items():
            view.copy_(parameters[name].detach())
            parameters[name].data = view

    def collect_gradients(self) -> Tensor:
        """The gradients of all parameters, ``[R, P]``, zero where there is none; the parameters let go of theirs."""
        parts, num_runs = [], len(self.values)
        for name, parameter in self._parameters.items():
            slot, gradient = self.slots[name], parameter.grad
            empty = self.values.new_zeros(num_runs, slot.stop - slot.start)
            parts.append(empty if gradient is None else gradient.reshape(num_runs, -1))
            parameter.grad = None
        return torch.cat(parts, 1)

    def views(self, values: Tensor, learned: frozenset[str] | None = None) -> dict[str, Tensor]:
        """The parameters by name, as parts of any ``[R, P]`` that is laid out like the buffer.

        Gradients to those that are ``learned``, by default to all, add up in ``values``; the others are constants.
        """
        parts = values.split([slot.stop - slot.start for slot in self.slots.values()], 1)
        named = {name: part.view(len(values), *self.slots[name].shape) for name, part in zip(self.slots, parts, strict=True)}
        return {name: part if learned is None or name in learned else part.detach() for name, part in named.items()}

    def learned(self, columns: Tensor) -> frozenset[str]:
        """The parameters that have a rate above zero in ``columns`` ``[P]``."""
        return frozenset(name for name, slot in self.slots.items() if bool((columns[slot.start : slot.stop] > 0).any()))

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
