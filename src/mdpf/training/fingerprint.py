"""Describe what a training is made of, so that a checkpoint of another one is recognised.

The description is the same in every process: it holds names and values, never addresses.
"""

import dataclasses
import functools
import hashlib
import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

_SAMPLED = 2**20  # Elements of a tensor that are looked at; a large data set is told apart by far fewer.
_DEEPEST = 20


def fingerprint(value: Any) -> str:  # noqa: ANN401 - anything a stage may hold
    """A short digest of ``describe(value)``.

    Example:
        >>> fingerprint({"a": 1.0}) == fingerprint({"a": 1.0}), fingerprint({"a": 1.0}) == fingerprint({"a": 2.0})
        (True, False)
    """
    return hashlib.sha256(describe(value).encode()).hexdigest()[:16]


def describe(value: Any, depth: int = 0) -> str:  # noqa: ANN401 - anything a stage may hold
    """Spell out a value: choices by their fields, modules by their parts, functions by name and what they close over.

    The parameters of a module are told by their shapes alone: they are what training changes.

    Example:
        >>> from mdpf.training.stages import Cosine
        >>> describe(Cosine())
        'mdpf.training.stages.Cosine(warmup=1.0, final=0.01)'
    """
    if depth > _DEEPEST:
        return "..."
    if isinstance(value, Tensor):
        return _describe_tensor(value)
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if value is None or isinstance(value, bool | int | float | str | bytes | torch.dtype | torch.device):
        return repr(value)
    if hasattr(value, "__wrapped__"):
        value = inspect.unwrap(value)
    name, parts = _name(value), _parts(value)
    spelled = ", ".join(f"{key}={describe(part, depth + 1)}" for key, part in parts.items())
    return f"{name}({spelled})"


def _name(value: Any) -> str:  # noqa: ANN401
    owner = value if hasattr(value, "__qualname__") else type(value)
    return f"{owner.__module__}.{owner.__qualname__}"


def _parts(value: Any) -> dict[str, Any]:  # noqa: ANN401
    """What a value consists of, by name."""
    if isinstance(value, nn.Module):
        return _module_parts(value)
    if isinstance(value, Mapping):
        return {repr(key): part for key, part in value.items()}
    if hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, tuple | list):
        return {str(index): part for index, part in enumerate(value)}
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, functools.partial):
        return {"function": value.func, "args": value.args, "keywords": value.keywords}
    if hasattr(value, "__self__"):
        return {"of": value.__self__}
    if hasattr(value, "__code__"):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return {"closure": cells, "defaults": value.__defaults__, "keywords": value.__kwdefaults__}
    return dict(sorted(getattr(value, "__dict__", {}).items()))


def _module_parts(module: nn.Module) -> dict[str, Any]:
    parts: dict[str, Any] = {f"{name}.shape": tuple(parameter.shape) for name, parameter in module.named_parameters(recurse=False)}
    parts |= dict(module.named_buffers(recurse=False)) | dict(module.named_children())
    for name, value in vars(module).items():
        # A method that was replaced on the object, such as by its compiled self, computes the same.
        if not name.startswith("_") and name != "training" and not callable(getattr(type(module), name, None)):
            parts[name] = value
    return parts


def _describe_tensor(tensor: Tensor) -> str:
    flat = tensor.detach().reshape(-1)
    sample = flat[:: max(1, flat.numel() // _SAMPLED)].cpu().contiguous().view(torch.uint8)
    return f"{tensor.dtype} {list(tensor.shape)} {hashlib.sha256(sample.numpy().data).hexdigest()}"
