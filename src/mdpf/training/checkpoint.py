"""Everything a stage of training needs to go on, in one file that appears whole or not at all."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors import torch as safetensors
from torch import Tensor

from mdpf.data.atomic import atomic

FORMAT = "1"


class Checkpoint(NamedTuple):
    """Tensors by name, and whatever JSON can hold."""

    tensors: dict[str, Tensor]
    notes: dict[str, Any]


def save(path: str | Path, tensors: dict[str, Tensor], notes: dict[str, Any]) -> None:
    """Write tensors and notes atomically."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    content = safetensors.save(plain, {"format": FORMAT, "notes": json.dumps(notes)})
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
        version, notes = metadata["format"], json.loads(metadata["notes"])
    except (SafetensorError, KeyError, ValueError, UnicodeDecodeError) as error:
        raise ValueError(
            f"Reading {str(path)!r} needs a file that mdpf wrote, whole; got {len(content)} bytes that are not one ({error}). "
            "It is damaged or of another program; restore it, or start anew."
        ) from error
    if version != FORMAT:
        raise ValueError(f"Reading {str(path)!r} needs format {FORMAT}, got {version!r}. Use the version of mdpf that wrote it.")
    return Checkpoint(tensors, notes)
