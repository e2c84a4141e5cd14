"""The preset of the paper is the published schedule; the others differ in nothing but rates, epochs and, if quick, sizes."""

import pytest

from mdpf import losses
from mdpf.recipes import bearings, training
from mdpf.recipes.methods import METHODS
from mdpf.training.stages import Plateau


def stages(method, preset="paper"):
    return training.stages(bearings.training_of(bearings.Config(method, preset=preset)))


def described(loss):
    """A loss and what is fixed of it."""
    return getattr(loss, "func", loss), getattr(loss, "keywords", {})


def test_paper_preset_has_the_published_schedule():
    found = stages("MDPF")
    # Rates of networks, then of bandwidths; epochs; when to stop.
    assert found["likelihood"].rates == {"": 5e-4, "bandwidth": pytest.approx(5e-5)}
    assert found["refinement"].rates == {"": pytest.approx(1e-4), "bandwidth": pytest.approx(1e-5)}
    assert found["error"].rates == {"": 5e-4, "bandwidth": 0.0}
    assert found["bandwidth"].rates == {"bandwidth": 5e-4}
    assert stages("A-MDPF")["likelihood"].rates["resampling_bandwidth"] == pytest.approx(5e-5)
    for name in ("likelihood", "refinement", "error", "bandwidth"):
        stage = found[name]
        assert (stage.epochs, stage.batch, stage.validation_batch, stage.clip, stage.decay) == (800, 64, 256, 100.0, 0.0)
        assert stage.schedule == Plateau(0.1, 20, 4, 1e-3, 0.0, stop_patience=25, stop_offset=200, restarts=3)
        assert stage.objective.truncate == 4
        assert stage.objective.num_particles == 25
    assert stages("LSTM")["error"].rates == {"": 1e-3, "bandwidth": 0.0}
    first = found["measurement"]
    assert (first.rates, first.epochs, first.decay) == ({"encoder": 1e-4, "measurement": 1e-4}, 400, 1e-3)
    assert first.schedule == Plateau(0.1, 20, 5, 1e-3, 1e-3, stop_patience=26, stop_offset=60)
    assert first.objective.bandwidths == (1.0, 1.0, 0.1)
    assert first.objective.num_particles == 50


@pytest.mark.parametrize("method", METHODS)
def test_other_presets_have_the_losses_and_particles_of_the_paper(method):
    paper = stages(method)
    for preset in ("fast", "quick"):
        for name, stage in stages(method, preset).items():
            theirs = paper[name]
            assert stage.batch == theirs.batch
            assert stage.rates.keys() == theirs.rates.keys()
            if name != "measurement":
                assert described(stage.objective.loss) == described(theirs.objective.loss)
                assert stage.objective.num_particles == theirs.objective.num_particles
    assert bearings.SIZES["paper"] == bearings.SIZES["fast"] == (5000, 1000, 5000)


def test_losses_are_those_of_the_table_of_methods():
    found = stages("MDPF")
    floored = (losses.negative_log_likelihood, {"background": 1e-8})  # As the authors' loss was.
    assert described(found["likelihood"].objective.loss) == described(found["bandwidth"].objective.loss) == floored
    assert found["refinement"].objective.loss is found["error"].objective.loss is losses.squared_error
