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
    stacked = copy.deepcopy(modules[0])
    for name, owner in stacked.named_modules():
        others = [module.get_submodule(name) for module in modules]
        if owner._parameters and not getattr(owner, "runs_allowed", False):
            raise TypeError(
                f"stack_runs needs layers that accept a run axis, got {type(owner).__name__} at {name!r}. "
                "Build networks from mdpf.models.blocks, or train one run at a time."
            )
        for key, parameter in list(owner._parameters.items()):
            if parameter is not None:
                values = torch.stack([other._parameters[key].detach() for other in others])  # type: ignore[union-attr]
                owner._parameters[key] = nn.Parameter(values, requires_grad=parameter.requires_grad)
    return stacked


def take_run(module: Module, run: int) -> Module:
    """The run number ``run`` of a stacked module, as a module of its own."""
    taken = copy.deepcopy(module)
    for owner in taken.modules():
        for key, parameter in list(owner._parameters.items()):
            if parameter is not None:
                owner._parameters[key] = nn.Parameter(parameter.detach()[run].clone(), requires_grad=parameter.requires_grad)
    return taken
