"""The task of homes: splits by home, observations that say from where one looks."""

import pytest
import torch

from mdpf.tasks.homes import geometry, task
from mdpf.tasks.homes.geometry import PIXEL
from mdpf.testing.tasks import check_task


@pytest.fixture(scope="module")
def homes():
    return tuple(home for split in ("train", "validation", "evaluation") for home in geometry.homes(split, count=3))


def test_the_task_keeps_to_its_declaration(homes):
    check_task(task.task(lambda: homes), num_sequences=6, max_length=9)


def test_walks_of_a_split_are_in_its_homes_alone(homes):
    made = task.task(lambda: homes)
    for place, split in enumerate(("train", "validation", "evaluation")):
        batch = made.split(split, num_sequences=6, length=3)
        assert set(batch.observations[..., 3].unique().tolist()) == {3.0 * place, 3.0 * place + 1, 3.0 * place + 2}
        assert torch.equal(batch.observations[..., :3], batch.states)
        for state, number in zip(batch.states[:, 0], batch.observations[:, 0, 3], strict=True):
            homes[int(number)].check_start(*(state[:2] * PIXEL).tolist())


def test_sizes_are_those_of_the_paper():
    sizes = {split.name: (split.num_sequences, split.length, split.label_every) for split in task.SPLITS}
    assert sizes["train"] == (74_800, 24, 4)
    assert sizes["evaluation"] == (820, 100, 1)
    assert task.task().limit_lost * PIXEL == pytest.approx(2.0)


def test_a_split_without_homes_is_refused(homes):
    with pytest.raises(ValueError, match="split 'evaluation' need homes of it, got none among 3"):
        task.task(lambda: homes[:3]).split("evaluation", num_sequences=2)
