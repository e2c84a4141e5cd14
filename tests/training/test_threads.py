"""A small training computes with one thread, whatever there are, and leaves the setting as it was."""

import pytest
import torch

from mdpf.training import threads
from mdpf.training.fit import fit


@pytest.fixture
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((1, 64, 1500), 1),  # Bearings-only tracking.
        ((11, 64, 1500), 1),
        ((55, 64, 1500), 4),
        ((1, 64, 20_000), 1),
        ((1, 64, 40_000), 2),
        ((1, 64, 1_000_000), 4),  # Networks for images.
    ],
)
def test_threads_are_used_where_there_is_work_for_them(size, expected, four_threads):
    assert threads.worthwhile(*size) == expected


def test_never_more_than_allowed():
    assert threads.worthwhile(55, 64, 1_000_000) == torch.get_num_threads()


def test_fit_computes_with_the_worthwhile_number_and_restores_it(four_threads, make_stack, make_stage, data):
    seen = []
    fit(make_stack(), make_stage(epochs=1), *data, num_runs=2, seed=0, watch=lambda entry: seen.append(torch.get_num_threads()))
    assert seen == [1]
    assert torch.get_num_threads() == 4
