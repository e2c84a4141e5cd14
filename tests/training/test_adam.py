"""Adam for several runs: torch's for each of them, and no run notices another."""

import pytest
import torch

from mdpf.training import adam

NUM_RUNS, NUM_VALUES = 3, 7
RATES = torch.tensor([1e-2] * 4 + [3e-3] * 2 + [0.0], dtype=torch.float64)


def start(generator):
    values = torch.randn(NUM_RUNS, NUM_VALUES, generator=generator, dtype=torch.float64)
    gradients = torch.randn(20, NUM_RUNS, NUM_VALUES, generator=generator, dtype=torch.float64)
    return values, gradients * torch.tensor([0.01, 1.0, 30.0], dtype=torch.float64).unsqueeze(-1)


def everyone():
    return torch.ones(NUM_RUNS, dtype=torch.bool)


def torchs(values, gradients, clip, decay):
    """Every run alone under torch's own optimiser; the last value, of rate zero, is not handed to it."""
    parts = [value.clone().requires_grad_() for value in values.split([4, 2, 1])]
    groups = [{"params": [part], "lr": rate} for part, rate in zip(parts[:2], (1e-2, 3e-3), strict=True)]
    optimiser = torch.optim.Adam(groups, weight_decay=decay)
    for gradient in gradients:
        for part, found in zip(parts, gradient.split([4, 2, 1]), strict=True):
            part.grad = found.clone()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(parts[:2], clip)
        optimiser.step()
    return torch.cat(parts).detach()


@pytest.mark.parametrize("clip", [None, 2.0])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_update_equals_torch_for_each_run(clip, decay, generator):
    values, gradients = start(generator)
    expected = torch.stack([torchs(values[run], gradients[:, run], clip, decay) for run in range(NUM_RUNS)])
    state = adam.start(values)
    for gradient in gradients:
        norm = adam.update(state, values, gradient, RATES, everyone(), torch.inf if clip is None else clip, decay)
        torch.testing.assert_close(norm, gradient[:, :6].norm(dim=-1))
    torch.testing.assert_close(values, expected, rtol=1e-12, atol=1e-12)
    assert state.updates.tolist() == [20] * NUM_RUNS
    assert not state.skipped.any()


def test_update_in_single_precision_stays_close_to_double(generator):
    values, gradients = start(generator)
    single, state, other = values.float(), adam.start(values), adam.start(values.float())
    for gradient in gradients:
        adam.update(state, values, gradient, RATES, everyone(), 2.0)
        adam.update(other, single, gradient.float(), RATES.float(), everyone(), 2.0)
    torch.testing.assert_close(single.double(), values, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_gradient_that_is_not_finite_moves_nothing_of_its_run_and_of_no_other(bad, generator):
    values, gradients = start(generator)
    twin = values.clone()
    state, other = adam.start(values), adam.start(twin)
    for step, gradient in enumerate(gradients):
        before = [tensor[1].clone() for tensor in (values, *state)]
        poisoned = gradient.clone()
        if step in (0, 7, 8):
            poisoned[1, 2] = bad
        adam.update(state, values, poisoned, RATES, everyone(), 2.0, 0.1)
        active = torch.tensor([True, step not in (0, 7, 8), True])
        adam.update(other, twin, gradient, RATES, active, 2.0, 0.1)
        if step in (0, 7, 8):
            for left, right in zip(before[:-1], (values, *state[:-1]), strict=True):
                assert torch.equal(left, right[1])
    assert torch.equal(values, twin)
    for left, right in zip(state[:-1], other[:-1], strict=True):
        assert torch.equal(left, right)
    assert state.skipped.tolist() == [0, 3, 0]
    assert other.skipped.tolist() == [0, 0, 0]
    assert state.updates.tolist() == [20, 17, 20]


def test_infinite_gradient_of_a_part_that_stays_is_no_obstacle(generator):
    values, gradients = start(generator)
    before = values.clone()
    gradients[0, :, -1] = float("nan")
    state = adam.start(values)
    adam.update(state, values, gradients[0], RATES, everyone(), 2.0, 0.1)
    assert torch.equal(values[:, -1], before[:, -1])
    assert (values[:, :-1] != before[:, :-1]).all()
    assert not state.first[:, -1].any()
    assert not state.skipped.any()


def test_run_that_has_ended_rests(generator):
    values, gradients = start(generator)
    before = values.clone()
    state = adam.start(values)
    adam.update(state, values, gradients[0], RATES, torch.tensor([True, False, True]))
    assert torch.equal(values[1], before[1])
    assert state.updates.tolist() == [1, 0, 1]
    assert not state.first[1].any()


def test_no_gradient_at_all_moves_nothing(generator):
    values, _ = start(generator)
    before = values.clone()
    adam.update(adam.start(values), values, torch.zeros_like(values), RATES, everyone(), 2.0)
    assert torch.equal(values, before)
