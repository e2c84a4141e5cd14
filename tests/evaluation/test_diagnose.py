"""Diagnoses of a linear-Gaussian model, where the Kalman filter knows the gradient."""

import math

import pytest
import torch
from torch.testing import assert_close

from mdpf import kernels, noise, resamplers
from mdpf.evaluation import diagnose as diagnosis
from mdpf.evaluation.diagnose import Diagnosis, Row, diagnose, exact, finite_differences, many_particles
from mdpf.exact import LinearGaussian, kalman_filter
from mdpf.filters import bootstrap

DECAY, NOISE, SENSOR, STEPS = 0.7, 0.5, 0.5, 20


def scalar(value):
    return torch.as_tensor(value, dtype=torch.float64).reshape(1, 1)


class Study:
    """A damped walk seen through noise; the decay is the parameter, the log-evidence what is differentiated."""

    def __init__(self, seed=0, steps=STEPS):
        self.decay = torch.tensor(DECAY, dtype=torch.float64, requires_grad=True)
        generator = torch.Generator().manual_seed(seed)
        state, seen = torch.randn((), generator=generator, dtype=torch.float64), []
        for _ in range(steps):
            # Drawn with a longer memory than the model has, so that the gradient is far from zero.
            state = 0.9 * state + NOISE * torch.randn((), generator=generator, dtype=torch.float64)
            seen.append(state + SENSOR * torch.randn((), generator=generator, dtype=torch.float64))
        self.observations = torch.stack(seen).unsqueeze(-1)

    @property
    def parameters(self):
        return {"decay": self.decay}

    def make_filter(self, resampler):
        def move(points, action=None, *, generator=None):
            return self.decay * points + NOISE * noise.normal(points.shape, points, generator)

        def weigh(particles, seen):
            return -0.5 * ((particles[..., 0] - seen) / SENSOR).square() - math.log(SENSOR * math.sqrt(2 * math.pi))

        return bootstrap(move, weigh, kernels.Gaussian(torch.tensor([0.1], dtype=torch.float64)), resampler=resampler)

    def loss(self, pf, num_particles, generator):
        particles = torch.randn(num_particles, 1, generator=generator, dtype=torch.float64)
        _, trajectory = pf(pf.init(particles), self.observations, generator=generator)
        return trajectory.info.log_evidence.sum()

    def score(self):
        model = LinearGaussian(
            transition=self.decay.reshape(1, 1),
            transition_cov=scalar(NOISE**2),
            emission=scalar(1.0),
            emission_cov=scalar(SENSOR**2),
            initial_mean=torch.zeros(1, dtype=torch.float64),
            initial_cov=scalar(1.0),
        )
        (score,) = torch.autograd.grad(kalman_filter(model, self.observations).log_evidence.sum(), self.decay)
        return {"decay": score}


@pytest.mark.statistical
@pytest.mark.slow
def test_diagnose_knows_who_is_biased_on_a_linear_gaussian_model():
    """The known ranking: soft resampling and truncation miss much of the score; stop-gradient is right and noisy."""
    study = Study()
    names = ("Discrete", "Soft", "Truncated", "StopGradient", "ImportanceWeighted", "ImplicitlyReparameterized")
    found = diagnose(
        study.make_filter,
        study.parameters,
        study.loss,
        truth=study.score,
        estimators={name: diagnosis.ESTIMATORS[name] for name in names},
        num_particles=60,
        replicates=64,
    )
    rows = {row.estimator: row for row in found.rows}
    truth = float(study.score()["decay"])
    assert truth > 3
    assert all(row.truth == pytest.approx(truth) for row in found.rows)
    for name in ("Discrete", "Soft", "Truncated"):
        assert rows[name].is_biased
        assert abs(rows[name].bias) - 5 * rows[name].bias_error > 0.2 * truth, name
    # Unbiased up to the order of 1 / N and of the kernel's variance: five standard errors and a tenth of the score.
    for name in ("StopGradient", "ImportanceWeighted", "ImplicitlyReparameterized"):
        assert abs(rows[name].bias) < 5 * rows[name].bias_error + 0.1 * truth, name
        assert rows[name].bias_error < 0.3 * truth, "or the comparison means nothing"
    # A ratio of two spreads of 64 replicates has a relative standard error of sqrt(2 / 126).
    assert rows["StopGradient"].spread > (1 + 5 * math.sqrt(2 / 126)) * rows["ImportanceWeighted"].spread
    # One mode in one dimension: where implicit reparameterisation is at its best.
    assert "Use ImplicitlyReparameterized" in found.hint()
    assert all(row.seconds > 0 for row in found.rows)


@pytest.mark.statistical
@pytest.mark.slow
def test_references_agree_with_the_exact_score():
    study = Study(seed=6, steps=5)
    truth = float(study.score()["decay"])
    common = {"num_particles": 200, "replicates": 100}
    differences = finite_differences(
        study.make_filter, study.parameters, study.loss, resampler=resamplers.Discrete(), step=0.1, **common
    )
    many = many_particles(study.make_filter, study.parameters, study.loss, **common)
    for reference in (differences, many):
        error = float(reference.error["decay"])
        # What the kernel and the number of particles change is below a twentieth.
        assert error < 0.1 * abs(truth), reference.what
        assert abs(float(reference.gradient["decay"]) - truth) < 5 * error + 0.05 * abs(truth), reference.what
    assert study.decay.item() == DECAY, "the parameters are what they were"
    assert study.decay.grad is None


def test_finite_differences_have_their_noise_in_common():
    """What the parameter does not touch cancels to the last digits, and leaves no error."""
    weight = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)

    def loss(pf, num_particles, generator):
        return weight.square().sum() + 100 * torch.randn((), generator=generator, dtype=torch.float64)

    found = finite_differences(lambda resampler: None, {"w": weight}, loss, num_particles=1, replicates=5)
    assert_close(found.gradient["w"], torch.tensor([4.0], dtype=torch.float64), rtol=0, atol=1e-10)
    assert float(found.error["w"]) < 1e-10


def test_finite_differences_of_a_loss_without_noise_are_its_derivative():
    weights = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64, requires_grad=True)
    found = finite_differences(
        lambda resampler: None, {"w": weights}, lambda pf, n, generator: weights.square().sum(), num_particles=1, replicates=2
    )
    torch.testing.assert_close(found.gradient["w"], 2 * weights.detach())
    assert not found.error["w"].any()
    assert "common noise, Truncated" in found.what


def noisy_loss(parameter, slope, spread):
    """The gradient of this is ``slope + spread * normal``, entry by entry."""

    def loss(pf, num_particles, generator):
        shift = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
        return (parameter * (torch.as_tensor(slope[pf], dtype=parameter.dtype) + spread[pf] * shift)).sum()

    return loss


def test_diagnose_finds_bias_spread_and_ratio_that_were_put_in():
    parameter = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    slope = {"good": [3.0, 4.0], "short": [1.5, 2.0], "reverse": [-6.0, -8.0], "noisy": [3.0, 4.0]}
    spread = {"good": 1.0, "short": 1.0, "reverse": 1.0, "noisy": 10.0}
    found = diagnose(
        lambda name: name,
        {"w": parameter},
        noisy_loss(parameter, slope, spread),
        truth=exact({"w": torch.tensor([3.0, 4.0])}),
        estimators={name: name for name in slope},
        replicates=400,
    )
    rows = {row.estimator: row for row in found.rows}
    for name, bias in {"good": 0.0, "short": -2.5, "reverse": -15.0, "noisy": 0.0}.items():
        assert rows[name].bias == pytest.approx(bias, abs=5 * spread[name] / 20)
        assert rows[name].bias_error == pytest.approx(spread[name] / 20, rel=0.2)
        assert rows[name].spread == pytest.approx(spread[name] * math.sqrt(2), rel=0.2)
        assert rows[name].signal_to_noise == pytest.approx(5 / rows[name].spread)
        assert rows[name].truth == pytest.approx(5)
    assert [name for name, row in rows.items() if row.is_biased] == ["short", "reverse"]
    assert [name for name, row in rows.items() if row.points_the_wrong_way] == ["reverse"]
    assert found.hint().startswith("Use good:")
    assert found.hint().endswith("Pointing the wrong way: reverse.")


def test_table_shows_every_row_and_the_hint():
    row = Row("Soft", "decay", -5.6, 0.3, 2.4, 2.3, 5.7, 0.012)
    text = Diagnosis((row, row._replace(estimator="StopGradient", bias=0.1)), "the exact gradient", 200, 64).table()
    for words in (
        "64 runs with 200 particles, against the exact gradient",
        "-5.6 ± 0.3 (!)",
        "+0.1 ± 0.3 ",
        "12",
        "Use StopGradient",
    ):
        assert words in text


def test_table_fits_a_terminal_of_80_columns_whatever_the_numbers():
    row = Row("ImplicitlyReparameterized", "decay", -0.00123456, 0.000456, 0.00012345, 0.0012345, -0.01234, 0.0123456)
    text = Diagnosis((row, row._replace(bias=-123456.0, bias_error=12.3456)), "the exact gradient", 200, 64).table(width=80)
    assert "ImplicitlyReparameterized" in text
    assert "-0.0012 ± 0.00046" in text
    assert "-1.2e+05 ± 12" in text
    assert "…" not in text


def test_hint_does_not_prefer_what_is_too_noisy_for_a_bias_to_be_found():
    quiet = Row("Quiet", "bandwidth", bias=-0.2, bias_error=0.02, spread=0.14, signal_to_noise=3.8, truth=0.53, seconds=0.1)
    loud = quiet._replace(estimator="Loud", bias=-0.1, bias_error=0.4, spread=3.2, signal_to_noise=0.17)
    assert quiet.is_biased
    assert not loud.is_biased
    assert loud.hides_a_bias
    hint = Diagnosis((quiet, loud), "", 25, 64).hint()
    assert hint.startswith("Use Quiet, if any: it has the smallest bias that cannot be ruled out. None was found for Loud, but")
    # With enough replicates to tell, it is preferred again.
    known = loud._replace(bias=-0.01, bias_error=0.01)
    assert Diagnosis((quiet, known), "", 25, 64000).hint().startswith("Use Loud: no bias was found")


def test_hint_where_all_are_biased_or_undefined():
    row = Row("Soft", "decay", -5.6, 0.3, 2.4, 2.3, 5.7, 0.012)
    nan = row._replace(estimator="Broken", bias=math.nan, bias_error=math.nan, spread=math.nan)
    assert nan.is_biased
    assert "Soft has the smallest error" in Diagnosis((row, nan), "", 1, 2).hint()


def test_diagnose_uses_many_particles_where_no_truth_is_given():
    study = Study(steps=2)
    found = diagnose(
        study.make_filter,
        study.parameters,
        study.loss,
        estimators={"Truncated": resamplers.Truncated()},
        num_particles=5,
        replicates=3,
    )
    assert found.reference == "ImportanceWeighted with 50 particles"
    assert len(found.rows) == 1


def test_diagnose_says_what_it_needs():
    study = Study(steps=2)
    with pytest.raises(ValueError, match="Pass dict"):
        diagnose(study.make_filter, {}, study.loss)
    with pytest.raises(ValueError, match="Pass the parameters themselves"):
        diagnose(study.make_filter, {"decay": study.decay * 2}, study.loss)
    with pytest.raises(ValueError, match="Reduce it, and let make_filter use the parameters"):
        diagnose(study.make_filter, study.parameters, lambda pf, n, generator: torch.zeros(3), truth=study.score)
    with pytest.raises(ValueError, match="at least 2, got 1"):
        diagnose(study.make_filter, study.parameters, study.loss, replicates=1)
