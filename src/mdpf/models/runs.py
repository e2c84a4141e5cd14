"""Several independent networks as one: a leading run axis on every parameter.

Runs that differ only in their seed have parameters of equal shape. Stacked, they are trained in one process at a small multiple of
the cost of one; a trained run is taken out again and used alone.
"""

import copy
from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import nn

Module = TypeVar("Module", bound=nn.Module)


def stack_runs(modules: Sequence[Module]) -> Module:
    """One module whose parameters are those of ``modules``, stacked along a new first axis."""
    if not modules:
        raise ValueError("stack_runs needs at least one module, got none.")
    _check_alike(modules)
    stacked = copy.deepcopy(modules[0])
    for name, owner in stacked.named_modules():
        others = [module.get_submodule(name) for module in modules]
        if owner._parameters and not getattr(owner, "runs_allowed", False):
            raise TypeError(
                f"stack_runs needs layers that accept a run axis, got {type(owner).__name__} at {name!r}. "
                "Build networks from mdpf.models.blocks, or train one run at a time."
            )
        _check_equal_buffers(name, owner, others)
        for key, parameter in list(owner._parameters.items()):
            if parameter is not None:
                values = torch.stack([other._parameters[key].detach() for other in others])  # type: ignore[union-attr]
                owner._parameters[key] = nn.Parameter(values, requires_grad=parameter.requires_grad)
    return stacked


def _check_alike(modules: Sequence[nn.Module]) -> None:
    shapes = [{name: tuple(value.shape) for name, value in module.named_parameters()} for module in modules]
    for index, other in enumerate(shapes[1:], 1):
        if other != shapes[0]:
            name = next(name for name in shapes[0] | other if shapes[0].get(name) != other.get(name))
            raise ValueError(
                f"stack_runs needs modules that differ in their values alone, got {name!r} of shape {shapes[0].get(name)} in the "
                f"first and {other.get(name)} in number {index}. Build all of them by the same call."
            )


def _check_equal_buffers(name: str, owner: nn.Module, others: Sequence[nn.Module]) -> None:
    for key, buffer in owner._buffers.items():
        if buffer is not None and not all(torch.equal(buffer, other.get_buffer(key)) for other in others):
            raise ValueError(
                f"stack_runs needs modules that share what is not learned, got different values of {key!r} at {name!r}. "
                "Build all of them by the same call."
            )


def take_run(module: Module, run: int) -> Module:
    """The run number ``run`` of a stacked module, as a module of its own."""
    counts = {parameter.shape[0] if parameter.ndim else 0 for parameter in module.parameters()}
    if len(counts) != 1 or not 0 <= run < next(iter(counts)):
        raise ValueError(
            f"take_run needs a module with a run axis and a run it holds, got run {run} and leading axes {sorted(counts)}. "
            "Count from 0; stack_runs makes such a module."
        )
    taken = copy.deepcopy(module)
    for owner in taken.modules():
        for key, parameter in list(owner._parameters.items()):
            if parameter is not None:
                owner._parameters[key] = nn.Parameter(parameter.detach()[run].clone(), requires_grad=parameter.requires_grad)
    return taken
