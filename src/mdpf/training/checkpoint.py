"""Everything a stage of training needs to go on, in one file that appears whole or not at all."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors import torch as safetensors
from torch import Tensor

from mdpf.data.atomic import atomic

FORMAT = "1"
MAX_HEADER = 100 * 2**20


class Checkpoint(NamedTuple):
    """Tensors by name, and whatever JSON can hold."""

    tensors: dict[str, Tensor]
    notes: dict[str, Any]


def save(path: str | Path, tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> None:
    """Write tensors and notes atomically, with a checksum over both."""
    # Copies: safetensors refuses tensors that share memory, as the parameters of one buffer do.
    plain = {name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    text = json.dumps(notes)
    content = safetensors.save(plain, {"format": FORMAT, "notes": text, "checksum": checksum(plain, text)})
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with atomic(path) as stream:
        stream.write(content)


def load(path: str | Path) -> Checkpoint:
    """Read what ``save`` wrote; nothing in the file is ever executed."""
    content = Path(path).read_bytes()
    try:
        tensors = safetensors.load(content)
        length = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + length])["__metadata__"]
        version, text, expected = metadata["format"], metadata["notes"], metadata["checksum"]
        if version != FORMAT:
            raise _Other(f"Reading {str(path)!r} needs format {FORMAT}, got {version!r}. Use the version of mdpf that wrote it.")
        if checksum(tensors, text) != expected:
            raise ValueError("the checksum does not fit")
        notes = json.loads(text)
    except _Other:
        raise
    except (SafetensorError, KeyError, ValueError, TypeError, RecursionError) as error:
        raise ValueError(
            f"Reading {str(path)!r} needs a file that mdpf wrote, whole; got {len(content)} bytes that are not one ({error}). "
            "It is damaged or of another program; restore it, or start anew."
        ) from error
    return Checkpoint(tensors, notes)


def notes(path: str | Path) -> dict[str, Any]:
    """Read the notes alone, without the tensors and without their checksum: for whoever only looks."""
    try:
        with open(path, "rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if length > MAX_HEADER:
                raise ValueError(f"a header of {length} bytes")
            found = json.loads(json.loads(stream.read(length))["__metadata__"]["notes"])
        if not isinstance(found, dict):
            raise TypeError("notes that are no mapping")
        return found
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"Reading {str(path)!r} needs a file that mdpf wrote, got another one ({error}).") from error


def checksum(tensors: Mapping[str, Tensor], text: str) -> str:
    """A digest of names, types, shapes and values, and of a text."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


class _Other(ValueError):
    """A whole file of another format."""
