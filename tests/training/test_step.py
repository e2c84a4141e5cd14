"""One update: the same numbers however it is carried out, and nothing left behind."""

import functools

import pytest
import torch

from mdpf.checks import MdpfWarning
from mdpf.training import adam
from mdpf.training.fit import fit
from mdpf.training.flat import FlatParameters
from mdpf.training.stages import Cosine
from mdpf.training.step import EXECUTIONS, Update, choose

CPU = torch.device("cpu")
METHODS = ("importance", "adaptive", "implicit", "transport", "recurrent")


def trained(make_stack, make_stage, data, method, execution, device=CPU):
    stacked = make_stack(2, method).to(device)
    parts = [part.to(device) for part in data]
    stage = make_stage(epochs=2, schedule=Cosine())
    fitted = fit(stacked, stage, *parts, num_runs=2, seed=1, execution=execution)
    assert "step" not in vars(stacked)
    return fitted


def assert_same(found, expected, *, losses, values):
    for left, right in zip(found.history, expected.history, strict=True):
        for name in ("train", "validation", "norm"):
            torch.testing.assert_close(torch.tensor(left[name]), torch.tensor(right[name]), rtol=losses, atol=losses)
    torch.testing.assert_close(found.values, expected.values, rtol=0.0, atol=values)


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
@pytest.mark.parametrize("method", METHODS)
def test_compiled_training_gives_the_numbers_of_the_eager_one(method, make_stack, make_stage, data, monkeypatch):
    torch._dynamo.reset()
    # The compiler's front end is what may go wrong here; code for the processor would take minutes and change only the rounding.
    monkeypatch.setattr("mdpf.training.step.torch.compile", functools.partial(torch.compile, backend="aot_eager"))
    found = trained(make_stack, make_stage, data, method, "compiled")
    expected = trained(make_stack, make_stage, data, method, "eager")
    assert_same(found, expected, losses=1e-4, values=1e-4)


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
def test_another_training_of_the_same_filter_compiles_nothing(make_stack, make_stage, data, monkeypatch):
    """The next stage of a method, or the same method on other data, finds the step compiled, and its own numbers."""
    torch._dynamo.reset()
    compiled = []

    def backend(graph, inputs):
        compiled.append(graph)
        return graph.forward

    monkeypatch.setattr("mdpf.training.step.torch.compile", functools.partial(torch.compile, backend=backend))
    stage, counts, found = make_stage(epochs=1, schedule=Cosine()), [], []
    for start, execution in ((0, "compiled"), (9, "compiled"), (9, "eager")):
        stacked = make_stack(2, "importance")
        with torch.no_grad():
            for parameter in stacked.parameters():
                parameter.mul_(1 + 0.01 * start)
        found.append(fit(stacked, stage, *data, num_runs=2, seed=start, execution=execution))
        counts.append(len(compiled))
    assert counts == [2, 2, 2]  # The first step, which does not resample, and all others.
    torch.testing.assert_close(found[1].values, found[2].values, rtol=0.0, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.compile
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("method", METHODS)
def test_captured_training_gives_the_numbers_of_the_eager_one(method, make_stack, make_stage, data):
    device = torch.device("cuda")
    torch._dynamo.reset()
    expected = trained(make_stack, make_stage, data, method, "eager", device)
    again = trained(make_stack, make_stage, data, method, "eager", device)
    assert torch.equal(again.values, expected.values)
    found = trained(make_stack, make_stage, data, method, "captured", device)
    assert_same(found, expected, losses=2e-3, values=2e-3)
    twice = trained(make_stack, make_stage, data, method, "captured", device)
    assert torch.equal(twice.values, found.values)


def test_execution_is_chosen_by_device_and_what_cannot_be_done_says_so():
    assert choose("auto", CPU) == "eager"
    assert choose("auto", torch.device("cuda")) == "captured"
    assert choose("compiled", CPU) == "compiled"
    with pytest.warns(MdpfWarning, match="on cpu cannot be captured"):
        assert choose("captured", CPU) == "compiled"
    with pytest.raises(ValueError, match=f"execution to be one of .*{EXECUTIONS[-1]}.*, got 'fast'"):
        choose("fast", CPU)


def test_a_last_batch_that_is_not_full_counts_its_own_sequences_alone(make_stack, make_stage, data):
    """With one batch of all sequences, or one larger than them, the same is learned."""
    whole = fit(make_stack(), make_stage(epochs=1, batch=16), *data, num_runs=2, seed=1)
    larger = fit(make_stack(), make_stage(epochs=1, batch=999), *data, num_runs=2, seed=1)
    assert torch.equal(whole.values, larger.values)


def test_sequences_that_fill_up_a_batch_do_not_change_its_loss(make_stack, make_stage, data):
    losses, stage = [], make_stage()
    for fillers in ([3, 4], [5, 6]):
        stacked = make_stack()
        flat, generator = FlatParameters(stacked, 2), torch.Generator()
        start = adam.start(flat.values)
        update = Update(stacked, flat, stage, data[0], start, flat.columns(stage.rates), generator, "eager")
        generator.manual_seed(0)
        update.start(torch.ones(2, dtype=torch.bool))
        update(torch.tensor([[0, 1, 2, 7, *fillers]] * 2), torch.arange(6) < 4, torch.ones(2))
        losses.append(update.losses.clone())
    assert torch.equal(*losses)
