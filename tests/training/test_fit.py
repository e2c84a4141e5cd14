"""The loop: the same numbers however often it is interrupted, the best epoch of every run, nothing to learn from nonsense."""

import math
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from mdpf import noise
from mdpf.checks import DegenerateWeightsError, MdpfWarning
from mdpf.data.sequences import SequenceBatch
from mdpf.models import Linear, stack_runs
from mdpf.training import checkpoint
from mdpf.training.fit import fit
from mdpf.training.stages import Cosine, Found, Plateau, Stage

NAN = float("nan")


class Line(torch.nn.Module):
    """Not a filter: the least that an objective can train, so that these tests cost nothing."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.slope = Linear(1, 1)
        self.other = Linear(1, 1)


@dataclass(frozen=True)
class Noisy:
    """Least squares on the observations plus noise; the run ``poisoned`` loses its number from some value on."""

    noise: float = 0.1
    poisoned: int | None = None

    def __call__(self, filter: Any, batch: SequenceBatch, *, generator=None):
        guess = filter.slope(batch.observations)
        loss = (guess - batch.states + self.noise * noise.normal(guess.shape, guess, generator)).square().mean((1, 2, 3))
        if self.poisoned is None:
            return loss
        return loss * torch.where(torch.arange(len(loss)) == self.poisoned, NAN, 1.0)


def make_data(seed=0, num_sequences=20):
    generator = torch.Generator().manual_seed(seed)
    observations = torch.randn(num_sequences, 3, 1, generator=generator)
    return SequenceBatch(1.5 * observations - 0.3, observations)


STAGE = Stage("line", Noisy(), {"": 0.05}, epochs=5, schedule=Cosine(), batch=6, validation_batch=7)


def run(path=None, *, watch=None, stage=STAGE, num_runs=2, seed=3, train=None, validation=None, module=None, **options):
    module = stack_runs([Line(start) for start in range(num_runs)]) if module is None else module
    train = make_data() if train is None else train
    validation = make_data(1) if validation is None else validation
    fitted = fit(module, stage, train, validation, num_runs=num_runs, seed=seed, path=path, watch=watch, **options)
    return fitted, module


def numbers(fitted):
    timeless = [{key: value for key, value in epoch.items() if key != "seconds"} for epoch in fitted.history]
    return fitted.values.tolist(), fitted.validation.tolist(), timeless


def stop_after(epoch):
    def watch(entry):
        if entry.number == epoch:
            raise KeyboardInterrupt

    return watch


def test_fit_learns_what_it_is_given():
    fitted, module = run(stage=replace(STAGE, epochs=40, objective=Noisy(0.0)))
    assert (fitted.validation < 1e-3).all()
    torch.testing.assert_close(module.slope.weight.flatten(), torch.full((2,), 1.5), rtol=0.02, atol=0)
    assert [epoch["number"] for epoch in fitted.history] == list(range(1, 41))
    assert fitted.history[0]["train"][0] > fitted.history[-1]["train"][0]


def test_fit_is_deterministic_and_leaves_the_global_stream_alone():
    torch.manual_seed(11)
    before = torch.get_rng_state()
    module = stack_runs([Line(start) for start in range(2)])
    torch.set_rng_state(before)
    first, _ = run(module=module)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(5)
    assert numbers(run()[0]) == numbers(first)
    assert numbers(run(seed=4)[0]) != numbers(first)


@pytest.mark.parametrize("schedule", [Cosine(), Plateau(patience=0, cooldown=1, stop_patience=2, stop_offset=1, restarts=1)])
@pytest.mark.parametrize("epoch", [1, 2, 4, 5])
def test_interrupted_after_any_epoch_it_ends_with_the_same_numbers(epoch, schedule, tmp_path):
    stage = replace(STAGE, schedule=schedule)
    undisturbed, expected = run(stage=stage)
    path = tmp_path / "c.safetensors"
    if epoch <= len(undisturbed.history):
        with pytest.raises(KeyboardInterrupt):
            run(path, watch=stop_after(epoch), stage=stage)
        assert checkpoint.load(path).notes["epoch"] == epoch
    seen = []
    resumed, module = run(path, watch=seen.append, stage=stage)
    assert numbers(resumed) == numbers(undisturbed)
    assert len(seen) == max(0, len(undisturbed.history) - epoch) or epoch > len(undisturbed.history)
    for left, right in zip(module.parameters(), expected.parameters(), strict=True):
        assert torch.equal(left, right)
    again, _ = run(path, watch=lambda entry: pytest.fail("it had ended"), stage=stage)
    assert numbers(again) == numbers(undisturbed)


def test_a_filter_resumes_with_the_same_numbers(make_stack, make_stage, data, tmp_path):
    path, stage = tmp_path / "c.safetensors", make_stage(epochs=2)
    undisturbed = fit(make_stack(), stage, *data, num_runs=2, seed=0)
    with pytest.raises(KeyboardInterrupt):
        fit(make_stack(), stage, *data, num_runs=2, seed=0, path=path, watch=stop_after(1))
    resumed = fit(make_stack(), stage, *data, num_runs=2, seed=0, path=path)
    assert numbers(resumed) == numbers(undisturbed)


KILLED = """
import importlib.util, os, signal, sys
sys.path[:0] = {path!r}
spec = importlib.util.spec_from_file_location({name!r}, {source!r})
module = sys.modules[{name!r}] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
calls, objective = 0, module.Noisy.__call__

def deadly(*args, **options):
    global calls
    calls += 1
    if calls == {calls}:
        os.kill(os.getpid(), signal.SIGKILL)
    return objective(*args, **options)

module.Noisy.__call__ = deadly
module.run({file!r})
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_killed_in_the_middle_of_an_epoch_it_loses_that_epoch_alone(tmp_path):
    """An epoch calls the objective 4 times to learn and 3 times to judge; the 10th call is in the middle of the second."""
    path = tmp_path / "c.safetensors"
    program = KILLED.format(path=sys.path, name=__name__, source=__file__, calls=10, file=str(path))
    died = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert checkpoint.load(path).notes["epoch"] == 1
    assert numbers(run(path)[0]) == numbers(run()[0])


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"stage": replace(STAGE, epochs=6)}, "the stage differ"),
        ({"stage": replace(STAGE, objective=Noisy(0.2))}, "the stage differ"),
        ({"seed": 4}, "the seed differ"),
        ({"train": make_data(2)}, "the data differ"),
        ({"validation": make_data(2)}, "the data differ"),
        ({"module": stack_runs([Line(7), Line(8)])}, "the start of the parameters differ"),
        ({"num_runs": 3}, "the filter and the start of the parameters differ"),
    ],
)
def test_checkpoint_of_another_training_is_refused_and_kept(change, differs, tmp_path):
    path = tmp_path / "c.safetensors"
    run(path)
    content = path.read_bytes()
    with pytest.raises(FileExistsError, match=f"got .* of another one: {differs}"):
        run(path, **change)
    assert path.read_bytes() == content


def test_damaged_checkpoint_is_refused_and_kept(tmp_path):
    path = tmp_path / "c.safetensors"
    run(path)
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    for damaged in (bytes(content), bytes(content[:-10])):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="needs a file that mdpf wrote, whole.*It is damaged"):
            run(path)
        assert path.read_bytes() == damaged


def test_every_run_ends_with_its_own_best_epoch(tmp_path):
    """A rate so large that some epochs are worse than those before; what is judged best is what is left in the module."""
    stage = replace(STAGE, rates={"": 1.0}, objective=Noisy(0.0), epochs=8, schedule=Plateau(stop_patience=100))
    seen = []

    def watch(entry):
        seen.append([parameter.detach().clone() for parameter in module.parameters()])

    module = stack_runs([Line(start) for start in range(3)])
    fitted, _ = run(module=module, num_runs=3, stage=stage, watch=watch)
    losses = torch.tensor([epoch["validation"] for epoch in fitted.history])
    best = losses.argmin(0)
    assert len(set(best.tolist())) > 1
    assert (best < 7).any()
    torch.testing.assert_close(fitted.validation, losses.min(0).values.double())
    for index, parameter in enumerate(module.parameters()):
        for run_index, epoch in enumerate(best.tolist()):
            assert torch.equal(parameter[run_index], seen[epoch][index][run_index])


def test_run_without_a_number_stays_where_it_was_and_says_so():
    module = stack_runs([Line(start) for start in range(3)])
    before = module.slope.weight.detach().clone()
    fitted, _ = run(module=module, num_runs=3, stage=replace(STAGE, objective=Noisy(0.1, poisoned=1)))
    assert torch.equal(module.slope.weight[1], before[1])
    assert fitted.validation[1] == math.inf
    assert fitted.history[-1]["skipped"] == [0, 20, 0]
    healthy, other = run(num_runs=3)
    for left, right in zip(module.parameters(), other.parameters(), strict=True):
        assert torch.equal(left[[0, 2]], right[[0, 2]])
    assert fitted.validation[[0, 2]].tolist() == healthy.validation[[0, 2]].tolist()


@dataclass(frozen=True)
class Losing(Noisy):
    """Loses all particles of the sequence whose first observation is the largest, at frame 2, in run 1."""

    def find(self, filter: Any, batch: SequenceBatch, *, generator=None):
        degenerate = torch.zeros(*batch.states.shape[:2], 2, dtype=torch.bool)
        degenerate[1, :, 1] = batch.observations[1, :, 0, 0] > 100
        return Found(self(filter, batch, generator=generator), degenerate)


@pytest.fixture
def losing():
    data = make_data()
    data.observations[13, 0, 0], data.states[13] = 101.0, 0.0
    return {"train": data, "stage": replace(STAGE, objective=Losing(), clip=1.0)}


def test_fit_names_run_sequence_and_frame_where_nothing_was_possible(losing):
    with pytest.warns(MdpfWarning, match="got none at run 1, sequence 13, frame 2, in epoch 1 of stage 'line'") as told:
        fitted, _ = run(**losing)
    assert len(told) == 1, "once, and not for every epoch"
    assert [epoch["degenerate"] for epoch in fitted.history] == [[[1, 13, 2]]] * 5
    assert [epoch["degenerate"] for epoch in run()[0].history] == [[]] * 5


def test_strict_fit_stops_there_with_a_checkpoint(losing, tmp_path):
    path = tmp_path / "c.safetensors"
    with pytest.raises(DegenerateWeightsError, match="got none at run 1, sequence 13, frame 2"):
        run(path, strict=True, **losing)
    assert checkpoint.load(path).notes["epoch"] == 1


def test_part_without_a_rate_stays_and_costs_no_gradient():
    module = stack_runs([Line(start) for start in range(2)])
    before = module.slope.bias.detach().clone()
    run(module=module, stage=replace(STAGE, rates={"slope.weight": 0.1}))
    assert torch.equal(module.slope.bias, before)
    assert all(parameter.requires_grad for parameter in module.parameters())
    with pytest.raises(ValueError, match=r"one in stage 'line' that does not depend on \['other'\]"):
        run(stage=replace(STAGE, rates={"other": 0.1}))


def test_early_end_of_all_runs_ends_the_stage():
    stage = replace(STAGE, epochs=50, schedule=Plateau(patience=100, stop_patience=2, stop_offset=0))
    fitted, _ = run(stage=stage)
    assert len(fitted.history) < 50
    assert fitted.history[-1]["active"] == [0, 0]


def unlabelled(first, rest):
    labelled = torch.ones(20, 3, dtype=torch.bool)
    labelled[4, 0], labelled[:, 1:] = first, rest
    return labelled


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train": make_data().take(slice(0))}, "training sequences of at least two frames, got 0 of length 3"),
        ({"validation": make_data().frames(0, 1)}, "validation sequences of at least two frames, got 20 of length 1"),
        ({"train": make_data()._replace(labelled=unlabelled(False, True))}, "labelled at its first frame, got none at index 4"),
        ({"train": make_data()._replace(labelled=unlabelled(True, False))}, "labelled frames after the first, got none in all 20"),
        ({"train": make_data()._replace(states=torch.full((20, 3, 1), NAN))}, "finite training states, got nan at index"),
        ({"validation": make_data()._replace(observations=torch.full((20, 3, 1), NAN))}, "finite validation observations"),
        ({"train": make_data()._replace(actions=torch.full((20, 2, 1), NAN))}, "finite training actions"),
    ],
)
def test_data_that_teach_nothing_are_refused_at_the_door(change, message):
    with pytest.raises(ValueError, match=f"fit needs .*{message}"):
        run(**change)


def test_data_of_another_precision_are_refused_at_the_door():
    with pytest.raises(TypeError, match="fit needs training_states of the dtype of parameters"):
        run(train=make_data().to(dtype=torch.float64))


def test_numbers_behind_a_mask_need_not_be_finite():
    data = make_data()
    hidden = torch.ones(20, 3, dtype=torch.bool)
    hidden[3, 2] = False
    for change in ({"labelled": hidden}, {"valid": hidden}):
        states = data.states.masked_fill(~hidden.unsqueeze(-1), NAN)
        run(validation=data._replace(states=states, **change), stage=replace(STAGE, epochs=1))


@pytest.mark.slow
def test_mdpf_learns_to_track(make_stack, make_stage, task, tracking):
    """From 300 short sequences, without any pre-training."""
    train, validation = (task.split(name, num_sequences=300, length=5) for name in ("train", "validation"))
    objective = replace(tracking, num_particles=10)
    stage = make_stage(epochs=10, rates={"": 2e-2}, batch=20, validation_batch=300, objective=objective)
    stacked = make_stack(2)
    before = objective(stacked, validation.map(lambda tensor: torch.stack([tensor, tensor])))
    fitted = fit(stacked, stage, train, validation, num_runs=2, seed=0)
    assert (before > 12).all(), before
    assert (fitted.validation < 8).all(), fitted.validation
