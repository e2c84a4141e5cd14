"""Sequences in memory: choosing, cutting, moving, and one epoch after the other."""

import pytest
import torch

from mdpf import noise
from mdpf.data.sequences import SequenceBatch, epoch_order, minibatches


@pytest.fixture
def batch() -> SequenceBatch:
    index = torch.arange(10.0)[:, None, None]
    return SequenceBatch(
        states=index.expand(10, 6, 3).clone(),
        observations=torch.arange(10, dtype=torch.uint8).reshape(10, 1, 1, 1, 1).expand(10, 6, 4, 4, 3),
        actions=(index + torch.arange(5.0)[:, None] / 10).expand(10, 5, 2).clone(),
        labelled=(torch.arange(6) % 2 == 0).expand(10, 6),
    )


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_take_keeps_fields_together(batch):
    chosen = batch.take(torch.tensor([7, 2]))
    assert chosen.num_sequences == 2
    assert chosen.length == 6
    assert chosen.states[:, 0, 0].tolist() == [7, 2]
    assert chosen.observations[:, 0, 0, 0, 0].tolist() == [7, 2]
    assert chosen.actions is not None
    assert chosen.actions[:, 0, 0].tolist() == [7, 2]
    assert chosen.valid is None
    assert chosen.observed is None


def test_take_with_run_axis_has_it_first(batch):
    chosen = batch.take(torch.tensor([[7, 2, 1], [0, 0, 9]]))
    assert chosen.states.shape == (2, 3, 6, 3)
    assert chosen.num_sequences == 3
    assert chosen.length == 6


def test_frames_cut_one_action_less(batch):
    window = batch.frames(2, 5)
    assert window.length == 3
    assert window.actions.shape == (10, 2, 2)
    assert torch.allclose(window.actions[0, :, 0], torch.tensor([0.2, 0.3]))
    assert window.labelled[0].tolist() == [True, False, True]


def test_frames_cut_behind_a_run_axis(batch):
    window = batch.take(torch.tensor([[7, 2, 1], [0, 0, 9]])).frames(0, 4)
    assert window.states.shape == (2, 3, 4, 3)
    assert window.observations.shape == (2, 3, 4, 4, 4, 3)


def test_labelled_frames_are_those_with_a_label_somewhere(batch):
    frames = batch._replace(valid=(torch.arange(6) < 5).expand(10, 6)).labelled_frames()
    assert frames.length == 3
    assert torch.equal(frames.states, batch.states[:, ::2])
    assert torch.equal(frames.observations, batch.observations[:, ::2])
    assert frames.actions is None
    assert frames.targets.all()
    one_more = batch._replace(labelled=batch.labelled.clone().index_put((torch.tensor(7), torch.tensor(3)), torch.tensor(True)))
    frames = one_more.labelled_frames()
    assert torch.equal(frames.states, batch.states[:, [0, 2, 3, 4]])
    assert frames.targets.sum(0).tolist() == [10, 10, 1, 10]


def test_to_converts_only_floating_point(batch):
    moved = batch.to("cpu", torch.float64)
    assert moved.states.dtype == moved.actions.dtype == torch.float64
    assert moved.observations.dtype == torch.uint8
    assert moved.labelled.dtype == torch.bool


def test_targets_are_labelled_and_valid(batch):
    valid = torch.arange(6).expand(10, 6) < 3
    assert batch._replace(valid=valid).targets[0].tolist() == [True, False, True, False, False, False]
    assert batch._replace(labelled=None).targets.all()


def test_minibatches_visit_every_sequence_once(batch):
    parts = list(minibatches(batch, 4, generator=generator()))
    assert [part.num_sequences for part in parts] == [4, 4, 2]
    seen = torch.cat([part.states[:, 0, 0] for part in parts])
    assert seen.sort().values.tolist() == list(range(10))
    assert seen.tolist() != list(range(10))


def test_minibatches_reshuffle_every_epoch_and_repeat_with_the_seed(batch):
    stream = generator()
    first, second = (torch.cat([p.states[:, 0, 0] for p in minibatches(batch, 4, generator=stream)]) for _ in range(2))
    again = torch.cat([p.states[:, 0, 0] for p in minibatches(batch, 4, generator=generator())])
    assert not torch.equal(first, second)
    assert torch.equal(first, again)


def test_minibatches_shuffle_each_run_by_itself(batch):
    parts = list(minibatches(batch, 4, generator=generator(), runs=3))
    assert [tuple(part.states.shape[:2]) for part in parts] == [(3, 4), (3, 4), (3, 2)]
    seen = torch.cat([part.states[..., 0, 0] for part in parts], 1)
    assert torch.equal(seen.sort(-1).values, torch.arange(10.0).expand(3, 10))
    assert len({tuple(row.tolist()) for row in seen}) == 3


def test_minibatches_without_shuffle_keep_order(batch):
    parts = list(minibatches(batch, 3, shuffle=False, runs=2))
    assert torch.equal(torch.cat([part.states[1, :, 0, 0] for part in parts]), torch.arange(10.0))


def test_minibatches_draw_when_called_not_when_read(batch):
    stream = generator()
    before = stream.get_state()
    minibatches(batch, 4, generator=stream)
    assert not torch.equal(before, stream.get_state())
    with pytest.raises(ValueError, match="size to be an integer of at least 1, got 0"):
        minibatches(batch, 0)


def test_epoch_order_of_one_run_is_a_row_of_many():
    recorder = noise.Recorder(generator())
    many = epoch_order(20, runs=3, generator=recorder)
    (draw,) = recorder.noise.draws
    alone = epoch_order(20, runs=1, generator=noise.Noise((draw[1:2],)))
    assert torch.equal(alone[0], many[1])


@pytest.mark.statistical
def test_epoch_order_is_uniform_over_permutations():
    orders = epoch_order(3, runs=60_000, generator=generator(5))
    codes = (orders * torch.tensor([9, 3, 1])).sum(-1)
    counts = torch.unique(codes, return_counts=True)[1].double()
    assert len(counts) == 6
    # Chi-squared with 5 degrees of freedom exceeds 38.0 with probability 4e-7.
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 38.0
