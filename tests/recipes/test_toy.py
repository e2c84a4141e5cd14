"""The synthetic problem's recipe: gradients that are right, runs that do not touch each other, files that can be drawn."""

import pytest
import torch

from mdpf.evaluation.results import load
from mdpf.exact import GaussianMixture1d, ModalSensor
from mdpf.exact.mixture_kalman import predict, update
from mdpf.models import stack_runs
from mdpf.recipes import toy
from mdpf.report import style
from mdpf.report import toy as figure
from mdpf.tasks import bimodal
from mdpf.testing import assert_mean
from mdpf.training.deadline import Deadline, OutOfTime
from mdpf.training.flat import FlatParameters

TINY = toy.Config(updates=3, record_every=1, batch=500, num_particles=5)


def test_loss_of_the_exact_filter_is_the_mean_over_the_batch(generator):
    batch = bimodal.simulate(8, generator=generator)
    model = bimodal.BimodalModel()
    expected = -model.exact_beliefs(batch).posteriors[-1].log_prob(batch.states[:, -1]).mean()
    stacked = stack_runs([model])
    found = toy.final_loss("exact", stacked, TINY)(batch.map(lambda tensor: tensor.unsqueeze(0)))
    torch.testing.assert_close(found, expected.unsqueeze(0))


@pytest.mark.parametrize(("method", "first"), [("exact", 1), ("IWSG", 1), ("IRG", 1), ("TG", 5)])
def test_loss_of_the_last_state_reaches_back_as_far_as_resampling_lets_it(method, first, generator):
    """With every observation its own leaf; that of frame 0 is used by no filter, and a truncated one forgets all but the last."""
    batch = bimodal.simulate(4, generator=generator).map(lambda tensor: tensor.unsqueeze(0).requires_grad_())
    loss = toy.final_loss(method, stack_runs([bimodal.BimodalModel()]), toy.Config())(batch, generator).sum()
    states, observations, actions = torch.autograd.grad(loss, [batch.states, batch.observations, batch.actions])
    last = batch.length - 1
    assert [frame for frame in range(batch.length) if states[:, :, frame].any()] == [last]
    assert [frame for frame in range(batch.length) if observations[:, :, frame].any()] == list(range(first, last + 1))
    # Action t leads from frame t to t + 1.
    assert [frame for frame in range(last) if actions[:, :, frame].any()] == list(range(first - 1, last))


@pytest.mark.statistical
@pytest.mark.parametrize("method", toy.RESAMPLERS)
def test_loss_of_many_particles_is_that_of_the_exact_filter_smoothed_by_the_kernels(method, generator):
    """The resampling kernel widens every motion but the first, the posterior's kernel what is believed at the end."""
    num_replicates, config = 64, toy.Config(num_particles=4000, resampling_scale=0.3)
    model, batch = bimodal.BimodalModel(bimodal.TRUTH), bimodal.simulate(4, generator=generator)
    sensor, belief = model.as_modal_sensor(), bimodal.initial_belief(batch.states)
    belief = GaussianMixture1d(*(part.expand(4, -1) for part in belief))
    sensor = ModalSensor(*(part.expand(1, -1) if part.ndim else part.reshape(1, 1) for part in sensor))
    for frame in range(1, batch.length):
        if frame > 1:
            belief = belief._replace(variances=belief.variances + config.resampling_scale**2)
        belief = predict(sensor, belief, batch.actions[:, frame - 1])
        belief, _ = update(sensor, belief, batch.observations[:, frame], torch.ones(4, 1, dtype=torch.bool))
    smoothed = belief._replace(variances=belief.variances + config.posterior_scale**2)
    expected = -smoothed.log_prob(batch.states[:, -1]).mean()
    repeated = batch.map(lambda tensor: tensor.expand(num_replicates, *tensor.shape))
    with torch.no_grad():
        found = toy.final_loss(method, stack_runs([model] * num_replicates), config)(repeated, generator)
    assert_mean(found, expected, max_se=0.005)


@pytest.mark.parametrize("method", toy.METHODS)
def test_every_method_has_a_finite_gradient_to_all_eight(method, generator):
    batch = bimodal.simulate(4, generator=generator).map(lambda tensor: tensor.unsqueeze(0))
    model = stack_runs([bimodal.BimodalModel()])
    flat = FlatParameters(model, 1)
    toy.final_loss(method, model, TINY)(batch).sum().backward()
    gradients = flat.collect_gradients()
    assert torch.isfinite(gradients).all()
    assert (gradients != 0).all()


def test_run_writes_what_the_figure_needs(tmp_path):
    seen = []
    toy.run(tmp_path, num_runs=2, config=TINY, watch=lambda method, update, loss: seen.append((method, update)))
    assert seen == [(method, update) for method in toy.METHODS for update in range(3)]
    found = load(tmp_path / "IWSG.json")
    assert [len(run["history"]["A"]) for run in found.runs] == [3, 3]
    assert [run["history"]["A"][0] for run in found.runs] != [run["history"]["A"][1] for run in found.runs]
    assert found.runs[0]["metrics"]["w1"] + found.runs[0]["metrics"]["w2"] == pytest.approx(1)
    assert style.save(figure.draw(tmp_path), tmp_path / "toy.svg").read_text().count("IWSG-PF") == 1


def test_every_run_descends_its_own_loss():
    data = [bimodal.simulate(32, generator=torch.Generator().manual_seed(run)) for run in range(2)]
    config = toy.Config(updates=6, record_every=1, batch=32, rate=0.05)
    together = toy.train("exact", data, config, 0, lambda update, loss: None).recorded
    for run, batch in enumerate(data):
        alone = toy.train("exact", [batch], config, 0, lambda update, loss: None).recorded
        for name, values in alone.items():
            torch.testing.assert_close(together[name][:, run], values[:, 0], rtol=1e-4, atol=1e-4)
    rates = torch.tensor([0.05, 0.05, 0.05, 0.05, 0.005])[:, None]
    for name in ("A", "B", "C1", "C2", "c1", "c2"):
        torch.testing.assert_close(together[name].diff(dim=0), -rates * together[f"d{name}"][:-1], rtol=1e-4, atol=1e-6)
    assert (together["loss"][-1] < together["loss"][0]).all()


def test_every_seed_has_data_of_its_own(tmp_path):
    """A batch of all sequences has the same loss in every order, so that another one is one of other sequences."""
    config, losses = toy.Config(updates=1, record_every=1, batch=bimodal.NUM_SEQUENCES), []
    for seed in (0, 1):
        toy.run(tmp_path / str(seed), num_runs=2, seed=seed, methods=("exact",), config=config)
        losses += [run["metrics"]["loss"] for run in load(tmp_path / str(seed) / "exact.json").runs]
    assert all(abs(one - other) > 1e-3 for index, one in enumerate(losses) for other in losses[:index])


def test_run_is_the_same_twice(tmp_path):
    for folder in ("a", "b"):
        toy.run(tmp_path / folder, num_runs=1, methods=("IWSG",), config=TINY)
    first, second = (load(tmp_path / folder / "IWSG.json") for folder in ("a", "b"))
    assert first.runs == second.runs


@pytest.mark.parametrize("method", ["IWSG", "exact"])
def test_training_that_was_interrupted_ends_where_an_undisturbed_one_does(tmp_path, method, monkeypatch):
    """Interrupted in the middle of an epoch, too: what the file does not hold is done again."""
    data = [bimodal.simulate(64, generator=torch.Generator().manual_seed(run)) for run in range(2)]
    config = toy.Config(updates=7, record_every=1, batch=32, num_particles=5)
    expected = toy.train(method, data, config, 3, lambda update, loss: None).recorded

    class Killed(Exception):
        pass

    def dies_at_update_5(update, loss):
        if update == 5:
            raise Killed

    path = tmp_path / "toy.safetensors"
    with pytest.raises(OutOfTime, match="after update 0 of 7"):
        toy.train(method, data, config, 3, lambda update, loss: None, path=path, until=Deadline(-1))
    monkeypatch.setattr(toy, "WRITE_EVERY", 0.0)
    with pytest.raises(Killed):
        toy.train(method, data, config, 3, dies_at_update_5, path=path)
    updates = []
    found = toy.train(method, data, config, 3, lambda update, loss: updates.append(update), path=path).recorded
    assert updates == [4, 5, 6]
    assert all(torch.equal(found[name], values) for name, values in expected.items())
    with pytest.raises(FileExistsError, match="of another one"):
        toy.train(method, data, config, 4, lambda update, loss: None, path=path)


def test_what_is_there_is_not_done_again_and_another_configuration_is_refused(tmp_path):
    first = toy.run(tmp_path, num_runs=1, methods=("exact",), config=TINY)
    again = toy.run(tmp_path, num_runs=1, methods=("exact",), config=TINY)
    assert (list(first.seconds), list(again.seconds)) == (["exact"], [])
    assert list(toy.run(tmp_path / "other", methods=("exact",), config=TINY, minutes=-1).left) == ["exact"]
    with pytest.raises(FileExistsError, match="runs=1 where this has 2"):
        toy.run(tmp_path, num_runs=2, methods=("exact",), config=TINY)
