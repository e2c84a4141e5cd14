"""Schedules: torch's reduction on a plateau, the early end of the protocol, a cosine; each run on its own."""

import math

import pytest
import torch

from mdpf.training import schedule
from mdpf.training.stages import Cosine, Plateau

NAN, INF = float("nan"), float("inf")
NEVER = {"stop_patience": 10**6, "stop_offset": 0}


def play(plan, losses):
    """The factor and whether the run is active after each epoch, for losses ``[epoch, run]``."""
    progress, factors, active = schedule.start(losses.shape[1]), [], []
    for epoch, row in enumerate(losses):
        progress = schedule.advance(plan, progress, row, epoch)
        factors.append(schedule.batch_factor(plan, progress, epoch + 1, 0.0, len(losses)))
        active.append(progress.active > 0)
    return torch.stack(factors), torch.stack(active), progress


def bumpy(generator, num_epochs, num_runs):
    """Losses that fall, stall and jump, never twice by exactly the threshold."""
    steps = torch.randn(num_epochs, num_runs, generator=generator, dtype=torch.float64)
    return 5 + 0.3 * steps + 3 * torch.exp(-torch.arange(num_epochs, dtype=torch.float64) / 15).unsqueeze(-1)


@pytest.mark.parametrize(("patience", "cooldown", "minimum"), [(0, 0, 0.0), (3, 0, 0.0), (3, 4, 0.0), (5, 2, 1e-3), (2, 1, 0.05)])
def test_plateau_equals_torch(patience, cooldown, minimum, generator):
    losses = bumpy(generator, 120, 4)
    plan = Plateau(patience=patience, cooldown=cooldown, minimum=minimum, threshold=1e-2, **NEVER)
    factors, active, _ = play(plan, losses)
    assert active.all()
    assert (factors[-1] < 0.2).all()
    for run in range(4):
        optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(
            optimiser, factor=0.1, patience=patience, threshold=1e-2, cooldown=cooldown, min_lr=minimum, eps=0.0
        )
        for epoch in range(120):
            theirs.step(losses[epoch, run].item())
            assert factors[epoch, run].item() == pytest.approx(optimiser.param_groups[0]["lr"], rel=1e-12)


def test_plateau_with_negative_losses_asks_for_a_real_improvement():
    """A threshold relative to a negative loss would call a slightly worse one an improvement."""
    plan = Plateau(patience=0, cooldown=0, threshold=0.1, **NEVER)
    factors, _, _ = play(plan, torch.tensor([[-1.0], [-0.95], [-1.05], [-1.2]]))
    torch.testing.assert_close(factors[:, 0], torch.tensor([1.0, 0.1, 0.01, 0.01], dtype=torch.float64))


def early_end(losses, drops, *, patience, offset, restarts):
    """The protocol's early stopping, written out: the number of epochs that are trained."""
    best, bad, used = INF, 0, 0
    for epoch, loss in enumerate(losses):
        if epoch >= offset:
            if loss < best:
                best, bad = loss, 0
            else:
                bad += 1
        if drops[epoch] and used < restarts:
            used, bad = used + 1, 0
        if bad >= patience:
            return epoch + 1
    return len(losses)


@pytest.mark.parametrize(("offset", "restarts"), [(0, 3), (20, 3), (20, 1), (7, 0)])
def test_early_end_equals_the_protocol(offset, restarts, generator):
    losses = bumpy(generator, 150, 8)
    options = {"patience": 6, "cooldown": 2, "threshold": 1e-3}
    free, _, _ = play(Plateau(**options, **NEVER), losses)
    _, active, progress = play(Plateau(**options, stop_patience=9, stop_offset=offset, restarts=restarts), losses)
    drops = torch.cat([free[:1] < 1, free[1:] < free[:-1]])
    rules = {"patience": 9, "offset": offset, "restarts": restarts}
    ends = [early_end(losses[:, run].tolist(), drops[:, run].tolist(), **rules) for run in range(8)]
    assert [1 + int(active[:, run].sum()) for run in range(8)] == ends
    assert len(set(ends)) > 2
    for run, end in enumerate(ends):
        assert progress.best[run] == losses[:end, run].min()


def test_run_that_has_ended_keeps_everything():
    plan = Plateau(patience=1, cooldown=0, stop_patience=2, stop_offset=0, restarts=0)
    losses = torch.tensor([[1.0, 3.0], [1.0, 2.0], [1.0, 1.0], [0.1, 0.5], [0.1, 0.4]], dtype=torch.float64)
    _, active, progress = play(plan, losses)
    assert active.tolist() == [[True, True], [True, True], [False, True], [False, True], [False, True]]
    assert progress.best.tolist() == [1.0, 0.4]


@pytest.mark.parametrize("bad", [NAN, INF])
def test_loss_that_is_no_number_is_no_improvement(bad):
    plan = Plateau(patience=1, cooldown=0, stop_patience=3, stop_offset=0, restarts=0)
    losses = torch.tensor([[bad, 1.0], [bad, bad], [bad, bad], [bad, 0.5]])
    factors, active, progress = play(plan, losses)
    assert progress.best.tolist() == [INF, 0.5]
    assert active[:, 0].tolist() == [True, True, False, False]
    assert active[:, 1].all()
    assert factors[:, 1].tolist()[-1] < 1
    assert not any(tensor.isnan().any() for tensor in progress)


def test_cosine_rises_then_falls_along_half_a_period():
    plan, progress = Cosine(warmup=2.0, final=0.1), schedule.start(2)
    early = 0.1 + 0.9 * (1 + math.cos(0.1 * math.pi)) / 2
    assert schedule.batch_factor(plan, progress, 0, 0.0, 10)[0] == pytest.approx(0.0005)
    assert schedule.batch_factor(plan, progress, 1, 0.0, 10)[0] == pytest.approx(0.5005 * early)
    assert schedule.batch_factor(plan, progress, 5, 0.0, 10)[1] == pytest.approx(0.1 + 0.9 / 2)
    assert schedule.batch_factor(plan, progress, 9, 1.0, 10)[1] == pytest.approx(0.1)
    assert schedule.batch_factor(Cosine(warmup=0.0), progress, 0, 0.0, 10)[0] == 1.0
    advanced = schedule.advance(plan, progress, torch.tensor([2.0, NAN]), 0)
    assert advanced.best.tolist() == [2.0, INF]
    assert advanced.active.all()
