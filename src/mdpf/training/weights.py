"""What was learned, in one file that says how it was made: for sharing, and for use long after training."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor, nn

from mdpf.training import checkpoint


class Weights(NamedTuple):
    """Tensors by name, and the configuration that builds the module they belong to."""

    tensors: dict[str, Tensor]
    config: dict[str, Any]


def save(path: str | Path, module: nn.Module, config: Mapping[str, Any]) -> None:
    """Write what a module has learned, and how to build it, whole or not at all.

    Args:
        path: The file.
        module: A single run (``models.take_run``); what it keeps besides parameters is written too.
        config: Whatever JSON can hold; enough to build the module again.
    """
    checkpoint.save(path, module.state_dict(), {"config": dict(config)})


def load(path: str | Path) -> Weights:
    """Read what ``save`` wrote; nothing in the file is ever executed."""
    saved = checkpoint.load(path)
    if not isinstance(saved.notes, dict) or "config" not in saved.notes:
        raise ValueError(
            f"Reading {str(path)!r} needs the weights of one run, got a checkpoint of a training that may go on. "
            "Weights are written at its end, one file for each run."
        )
    return Weights(saved.tensors, saved.notes["config"])


def fill(module: nn.Module, weights: Weights) -> None:
    """Give a module, built from ``weights.config``, what was learned; in place, in its own dtype and on its own device."""
    own = module.state_dict()
    shapes = {name: tuple(tensor.shape) for name, tensor in own.items()}
    theirs = {name: tuple(tensor.shape) for name, tensor in weights.tensors.items()}
    if shapes != theirs:
        name = next(name for name in sorted(shapes | theirs) if shapes.get(name) != theirs.get(name))
        raise ValueError(
            f"fill needs weights of this very module, got {name!r} of shape {theirs.get(name)} for {shapes.get(name)}. "
            "Build the module from the configuration in the file."
        )
    module.load_state_dict(weights.tensors)
