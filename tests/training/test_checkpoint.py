"""Files of training: whole or refused, whatever happens to them."""

import json

import pytest
import safetensors
import safetensors.torch
import torch

from mdpf.models import Linear, stack_runs
from mdpf.training import checkpoint, weights
from mdpf.training.flat import FlatParameters


def tensors():
    whole = torch.arange(24.0)
    return {
        "values": whole[:12].view(3, 4),
        "shared": whole[6:18],
        "count": torch.tensor(7),
        "double": torch.tensor([1 / 3, float("nan")], dtype=torch.float64),
        "mask": torch.tensor([True, False]),
        "half": torch.ones(2, dtype=torch.bfloat16),
        "empty": torch.zeros(0, 3),
        "turned": whole.view(4, 6).mT,
    }


def test_what_is_saved_is_loaded_bit_for_bit(tmp_path):
    path, notes = tmp_path / "new" / "a.safetensors", {"epoch": 3, "history": [{"x": [0.1, 1e-300]}], "name": "größe"}
    checkpoint.save(path, tensors(), notes)
    found = checkpoint.load(path)
    assert found.notes == notes
    assert found.tensors.keys() == tensors().keys()
    for name, tensor in tensors().items():
        assert found.tensors[name].dtype == tensor.dtype
        torch.testing.assert_close(found.tensors[name], tensor, rtol=0, atol=0, equal_nan=True)
    assert [entry.name for entry in path.parent.iterdir()] == ["a.safetensors"]


def test_any_flipped_bit_is_noticed(tmp_path, generator):
    path = tmp_path / "a.safetensors"
    checkpoint.save(path, tensors(), {"epoch": 3})
    content = path.read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    everywhere = torch.randint(0, 8 * len(content), (150,), generator=generator).tolist()
    body = torch.randint(8 * header, 8 * len(content), (50,), generator=generator).tolist()
    for bit in [*everywhere, *body]:
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="needs a file that mdpf wrote, whole|needs format 1"):
            checkpoint.load(path)


def test_any_truncated_file_is_noticed(tmp_path):
    path = tmp_path / "a.safetensors"
    checkpoint.save(path, tensors(), {"epoch": 3})
    content = path.read_bytes()
    for length in (0, 1, 7, 8, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=f"got {length} bytes that are not one"):
            checkpoint.load(path)
    path.write_bytes(content + b"\0")
    with pytest.raises(ValueError, match="damaged or of another program"):
        checkpoint.load(path)


def test_files_of_other_programs_and_times_are_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    safetensors.torch.save_file({"a": torch.ones(2)}, path)
    with pytest.raises(ValueError, match="of another program"):
        checkpoint.load(path)
    safetensors.torch.save_file({"a": torch.ones(2)}, path, {"format": "2", "notes": "{}", "checksum": ""})
    with pytest.raises(ValueError, match="needs format 1, got '2'. Use the version of mdpf that wrote it"):
        checkpoint.load(path)
    path.write_bytes(b"\x80\x04K\x01.")
    with pytest.raises(ValueError, match="damaged or of another program"):
        checkpoint.load(path)


def test_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.safetensors"
    checkpoint.save(path, tensors(), {"epoch": 3})
    with pytest.raises(TypeError):
        checkpoint.save(path, tensors(), {"epoch": object()})
    assert checkpoint.load(path).notes == {"epoch": 3}


def test_weights_come_back_with_their_configuration(tmp_path):
    module = stack_runs([Linear(2, 3)])
    FlatParameters(module, 1)  # Its parameters share memory, as after training.
    config = {"method": "MDPF", "networks": {"hidden_dim": 8}}
    weights.save(tmp_path / "w.safetensors", module, config)
    found = weights.load(tmp_path / "w.safetensors")
    assert found.config == config
    other = stack_runs([Linear(2, 3)]).double()
    weights.fill(other, found)
    torch.testing.assert_close(other.weight, module.weight.double(), rtol=0, atol=0)
    with safetensors.safe_open(tmp_path / "w.safetensors", "pt") as file:  # Readable by anybody.
        assert json.loads(file.metadata()["notes"]) == {"config": config}


def test_weights_of_another_module_are_refused(tmp_path):
    weights.save(tmp_path / "w.safetensors", Linear(2, 3), {})
    found = weights.load(tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match=r"got 'weight' of shape \(3, 2\) for \(3, 4\). Build the module from the configuration"):
        weights.fill(Linear(4, 3), found)
    with pytest.raises(ValueError, match="got '0.bias' of shape None"):
        weights.fill(torch.nn.Sequential(Linear(2, 3)), found)
    checkpoint.save(tmp_path / "c.safetensors", {"values": torch.ones(2)}, {"recipe": {}, "epoch": 1})
    with pytest.raises(ValueError, match="got a checkpoint of a training that may go on"):
        weights.load(tmp_path / "c.safetensors")
