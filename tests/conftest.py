"""What every test shares: one thread, a random stream of its own, and the precisions."""

import importlib.util
import zlib
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture
def generator(request):
    """A stream seeded by the name of the test: order does not matter, and adding a case moves no other."""
    return torch.Generator().manual_seed(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request):
    return request.param


@pytest.fixture(params=[(), (3,), (2, 3)], ids=["unbatched", "batch3", "batch2x3"])
def batch(request):
    return request.param


@pytest.fixture(scope="session")
def records():
    """The module ``records.py`` beside this file; what it imports, few tests need."""
    spec = importlib.util.spec_from_file_location("records", Path(__file__).with_name("records.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pytest_collection_modifyitems(items):
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
