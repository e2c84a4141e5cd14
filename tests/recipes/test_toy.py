"""The synthetic problem's recipe: gradients that are right, runs that do not touch each other, files that can be drawn."""

import pytest
import torch

from mdpf.evaluation.results import load
from mdpf.models import stack_runs
from mdpf.recipes import toy
from mdpf.report import style
from mdpf.report import toy as figure
from mdpf.tasks import bimodal
from mdpf.training.flat import FlatParameters

TINY = toy.Config(updates=3, record_every=1, batch=500, num_particles=5)


def test_loss_of_the_exact_filter_is_the_mean_over_the_batch(generator):
    batch = bimodal.simulate(8, generator=generator)
    model = bimodal.BimodalModel()
    expected = -model.exact_beliefs(batch).posteriors[-1].log_prob(batch.states[:, -1]).mean()
    stacked = stack_runs([model])
    found = toy.final_loss("exact", stacked, TINY)(batch.map(lambda tensor: tensor.unsqueeze(0)))
    torch.testing.assert_close(found, expected.unsqueeze(0))


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


def test_run_is_the_same_twice(tmp_path):
    for folder in ("a", "b"):
        toy.run(tmp_path / folder, num_runs=1, methods=("IWSG",), config=TINY)
    first, second = (load(tmp_path / folder / "IWSG.json") for folder in ("a", "b"))
    assert first.runs == second.runs
