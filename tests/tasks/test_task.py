"""Tasks as such: their splits, seeds and caches, and the check that every task must pass."""

from dataclasses import replace

import pytest
import torch

from mdpf.data.sequences import SequenceBatch
from mdpf.tasks import TASKS, Split, bearings
from mdpf.testing.tasks import check_task

TASK = bearings.task()


@pytest.mark.parametrize("name", TASKS)
def test_every_task_keeps_to_the_contract(name):
    task = TASKS[name]()
    assert task.name == name
    check_task(task)


def test_split_can_be_sized():
    batch = TASK.split("train", num_sequences=7, length=9)
    assert batch.states.shape == (7, 9, 3)
    assert batch.labelled[3].tolist() == [True, False, False, False, True, False, False, False, True]


def test_split_names_the_known_ones():
    with pytest.raises(ValueError, match=r"one of the splits \['train', 'validation', 'evaluation'\] of bearings, got 'test'"):
        TASK.split("test")


def test_split_is_kept_in_a_folder(tmp_path):
    task = replace(TASK, simulate=lambda split, generator: calls.append(split) or bearings.simulate(split, generator))
    calls: list[Split] = []
    first, second = (task.split("train", num_sequences=4, folder=tmp_path) for _ in range(2))
    assert len(calls) == 1
    assert torch.equal(first.states, second.states)
    assert torch.equal(first.labelled, second.labelled)
    replace(task, version=2).split("train", num_sequences=4, folder=tmp_path)
    assert len(calls) == 2


def test_prior_takes_any_batch_axes():
    states = torch.zeros(2, 3, 3, dtype=torch.float64)
    particles = TASK.prior(states, 25)
    assert particles.shape == (2, 3, 25, 3)
    assert particles.dtype == torch.float64
    with pytest.raises(ValueError, match=r"Task.prior needs a tensor of shape \[\*batch, 3\].*\['x', 'y', 'theta'\]"):
        TASK.prior(torch.zeros(4, 2), 25)


def unlabelled(split, generator):
    batch = bearings.simulate(split, generator)
    return batch._replace(labelled=torch.zeros(batch.states.shape[:2], dtype=torch.bool))


def unseeded(split, _):
    return bearings.simulate(split, torch.Generator().manual_seed(int(torch.randint(10**9, ()))))


def same_every_time(split, _):
    return bearings.simulate(split, torch.Generator().manual_seed(0))


def unwrapped(split, generator):
    batch = bearings.simulate(split, generator)
    return batch._replace(states=batch.states + 3)


def off_by_one(split, generator):
    batch = bearings.simulate(split, generator)
    return batch._replace(states=batch.states[:, 1:])


def copied(split, generator):
    batch = bearings.simulate(split, generator)
    return SequenceBatch(batch.states[:1].expand_as(batch.states), batch.observations, labelled=batch.labelled)


@pytest.mark.parametrize(
    ("simulate", "message"),
    [
        (unlabelled, "a label at frame 0"),
        (unseeded, "the same states of train for the same seed"),
        (same_every_time, "other states of train for another seed"),
        (unwrapped, "angles between -pi and pi"),
        (off_by_one, "tensors of shapes"),
        (copied, "every sequence of every split to be its own"),
    ],
)
def test_check_task_rejects_mutants(simulate, message):
    with pytest.raises(AssertionError, match=message):
        check_task(replace(TASK, simulate=simulate))


def test_check_task_rejects_splits_that_share_a_stream():
    shared = {"train": 0, "validation": 0, "evaluation": 1}
    seeds = iter([0, 0, 7, 0, 0, 7, 0, 0, 7])

    def simulate(split, _):
        return bearings.simulate(split, torch.Generator().manual_seed(next(seeds) + shared[split.name]))

    with pytest.raises(AssertionError, match="every sequence of every split to be its own"):
        check_task(replace(TASK, simulate=simulate))
