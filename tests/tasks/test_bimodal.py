"""The synthetic learning problem: its data have the law it states, its parts agree with its exact filter."""

import pytest
import torch

from mdpf import noise
from mdpf.exact import GaussianMixture1d
from mdpf.exact.grid import trapezoid_weights
from mdpf.tasks import bimodal
from mdpf.tasks.bimodal import START, TRUTH, BimodalModel
from mdpf.testing.assertions import assert_mean

F64 = torch.float64


def model_of(values: bimodal.Values) -> BimodalModel:
    return BimodalModel(values).double()


def test_bimodal_shapes(generator, dtype):
    batch = bimodal.simulate(dtype=dtype, generator=generator)
    assert batch.states.shape == batch.observations.shape == (1000, 6, 1)
    assert batch.actions.shape == (1000, 5, 1)
    assert batch.states.dtype == batch.observations.dtype == batch.actions.dtype == dtype


def test_bimodal_truth_and_start_are_what_the_table_says():
    names = ("A", "B", "C1", "C2", "c1", "c2", "v", "sigma", "gamma")
    table = {
        line.split()[0]: line.split()[1:]
        for line in bimodal.__doc__.splitlines()
        if line.startswith(("truth  ", "start  ", "value  "))
    }
    assert tuple(table["value"]) == names
    for word, values in (("truth", TRUTH), ("start", START)):
        ours = [values.transition, values.control, *values.emission, *values.offset, values.logit]
        assert [float(entry) for entry in table[word][:7]] == ours
    assert [float(entry) for entry in table["truth"][7:]] == [bimodal.MOTION_SCALE, bimodal.SENSOR_SCALE]


@pytest.mark.statistical
def test_bimodal_exact_posterior_is_calibrated_at_the_truth_only(generator):
    """The distribution function of the exact posterior at the true state is uniform exactly if data and filter share one law."""
    batch = bimodal.simulate(4000, dtype=F64, generator=generator)
    with torch.no_grad():
        right, wrong = (model_of(values).exact_beliefs(batch).posteriors for values in (TRUTH, START))

    def ranks(belief: GaussianMixture1d, state: torch.Tensor) -> torch.Tensor:
        return (belief.log_weights.exp() * torch.special.ndtr((state - belief.means) / belief.variances.sqrt())).sum(-1)

    for t, belief in enumerate(right):
        rank = ranks(belief, batch.states[:, t + 1])
        moments = torch.stack((rank, rank**2, rank**3), -1)
        assert_mean(moments, torch.tensor([1 / 2, 1 / 3, 1 / 4], dtype=F64), max_se=0.01, what=f"rank at frame {t + 1}")
    with pytest.raises(AssertionError, match="got"):
        assert_mean(ranks(wrong[-1], batch.states[:, -1]) ** 2, 1 / 3, max_se=0.01)


@pytest.mark.statistical
def test_bimodal_score_vanishes_at_the_truth(generator):
    """The final-frame loss is minimal at the truth: its gradient there has mean zero in every parameter."""
    num_sequences = 4000
    batch = bimodal.simulate(num_sequences, dtype=F64, generator=generator)
    model = model_of(TRUTH)
    # One copy of the parameters per sequence, on the run axis, gives one gradient per sequence.
    for module in (model.dynamics, model.measurement):
        for name, parameter in list(module.named_parameters()):
            setattr(module, name, torch.nn.Parameter(parameter.detach().expand(num_sequences, *parameter.shape).clone()))
    posterior = model.exact_beliefs(batch).posteriors[-1]
    posterior.log_prob(batch.states[:, -1]).sum().backward()
    scores = torch.cat([parameter.grad.reshape(num_sequences, -1) for parameter in model.parameters()], -1)
    assert scores.shape == (num_sequences, 7)
    assert_mean(scores, 0.0, max_se=0.05, what="score")
    # What the documentation says of identifiability: the information is well conditioned, as far as a sample can tell.
    smallest, *_, largest = torch.linalg.eigvalsh(scores.T @ scores / num_sequences).tolist()
    assert smallest == pytest.approx(0.11, abs=0.03)
    assert largest == pytest.approx(10.5, abs=2.0)


@pytest.mark.statistical
def test_bimodal_observations_follow_the_measurement_model(generator):
    """The likelihood is a density in the observation, and the observations' moments are its moments."""
    batch = bimodal.simulate(4000, 2, dtype=F64, generator=generator)
    sensor = model_of(TRUTH).measurement
    grid = torch.linspace(-25, 25, 401, dtype=F64)
    state = batch.states[:, 1]
    with torch.no_grad():
        density = sensor(state.expand(401, 4000, 1)[..., None], grid[:, None, None].expand(401, 4000, 1))[..., 0].exp()
    mass = density * trapezoid_weights(grid)[:, None]
    torch.testing.assert_close(mass.sum(0), torch.ones(4000, dtype=F64), rtol=0, atol=1e-9)
    for power in (1, 2, 3):
        expected = (mass * grid[:, None] ** power).sum(0)
        residual = (batch.observations[:, 1, 0] ** power - expected) / 5**power
        assert_mean(residual, 0.0, max_se=0.05, what=f"moment {power}")


@pytest.mark.statistical
def test_bimodal_states_follow_the_motion(generator):
    batch = bimodal.simulate(4000, dtype=F64, generator=generator)
    states = batch.states[..., 0]
    steps = states[:, 1:] - TRUTH.transition * states[:, :-1] - TRUTH.control * batch.actions[..., 0]
    assert_mean(states[:, 0].square(), bimodal.INITIAL_SCALE**2, max_se=0.2, what="initial variance")
    assert_mean(batch.actions.square(), bimodal.ACTION_SCALE**2, max_se=0.05, what="variance of the actions")
    assert_mean(steps.square(), bimodal.MOTION_SCALE**2, max_se=0.05, what="variance of the steps")
    assert_mean(steps * states[:, :-1], 0.0, max_se=0.1, what="step times state")


@pytest.mark.statistical
def test_bimodal_motion_follows_its_law(generator):
    dynamics = model_of(TRUTH).dynamics
    points, action = torch.tensor([[[3.0], [-1.0]]], dtype=F64), torch.tensor([[2.0]], dtype=F64)
    with torch.no_grad():
        moved = dynamics(points.expand(4000, 2, 1), action.expand(4000, 1), generator=generator)[..., 0]
    expected = TRUTH.transition * points[0, :, 0] + TRUTH.control * 2.0
    assert_mean(moved, expected, max_se=0.03)
    assert_mean((moved - expected).square(), bimodal.MOTION_SCALE**2, max_se=0.05)


@pytest.mark.statistical
def test_bimodal_parts_agree_with_the_exact_filter(generator):
    """Self-normalised importance sampling with motion and sensor gives the exact first posterior."""
    batch = bimodal.simulate(1, 2, dtype=F64, generator=generator)
    model = model_of(START)
    with torch.no_grad():
        particles = bimodal.initial_particles(batch._replace(states=batch.states.expand(200, -1, -1)), 2000, generator=generator)
        particles = model.dynamics(particles, batch.actions[:, 0], generator=generator)
        weights = model.measurement(particles, batch.observations[:, 1]).exp()
        exact = model.exact_beliefs(batch)
    posterior, evidence = exact.posteriors[0], exact.log_evidence[0, 0].exp()
    assert_mean(weights.mean(-1) / evidence, 1.0, max_se=0.01, what="evidence")
    first_moment = (weights * particles[..., 0]).mean(-1) / evidence
    assert_mean(first_moment, posterior.mean()[0], max_se=0.02, what="mean")


def test_bimodal_runs_equal_single_runs(generator):
    batch = bimodal.simulate(2 * 3, dtype=F64, generator=generator)
    batch = batch.map(lambda tensor: tensor.unflatten(0, (2, 3)))
    singles = [model_of(values) for values in (TRUTH, START)]
    together = model_of(TRUTH)
    for part in ("dynamics", "measurement"):
        for name, _ in list(getattr(together, part).named_parameters()):
            stacked = torch.stack([getattr(getattr(single, part), name).detach() for single in singles])
            setattr(getattr(together, part), name, torch.nn.Parameter(stacked))

    recorder = noise.Recorder(generator)
    particles = bimodal.initial_particles(batch, 4, generator=generator)
    moved = together.dynamics(particles, batch.actions[..., 0, :], generator=recorder)
    scores = together.measurement(moved, batch.observations[..., 1, :])
    evidence = together.exact_beliefs(batch).log_evidence
    for run, single in enumerate(singles):
        own = noise.Noise(tuple(draw[run] for draw in recorder.noise.draws))
        alone = single.dynamics(particles[run], batch.actions[run, :, 0], generator=own)
        torch.testing.assert_close(moved[run], alone, rtol=0, atol=1e-14)
        torch.testing.assert_close(scores[run], single.measurement(alone, batch.observations[run, :, 1]), rtol=0, atol=1e-14)
        own_evidence = single.exact_beliefs(batch.take(run)).log_evidence
        torch.testing.assert_close(evidence[run], own_evidence, rtol=1e-12, atol=1e-12)
    assert together.named_values()["w1"].shape == (2,)


def test_bimodal_names_the_eight_numbers():
    values = BimodalModel(TRUTH).named_values()
    assert list(values) == ["A", "B", "C1", "C2", "c1", "c2", "w1", "w2"]
    assert values["w1"].item() == pytest.approx(1 / (1 + torch.tensor(TRUTH.logit).exp().item()))
    assert (values["w1"] + values["w2"]).item() == pytest.approx(1.0)
    assert values["C2"].item() == pytest.approx(TRUTH.emission[1])
    assert not any(value.requires_grad for value in values.values())


def test_bimodal_scales_are_not_learned():
    model = BimodalModel()
    assert {name for name, _ in model.named_parameters()} == {
        *(f"dynamics.{name}" for name in ("transition", "control")),
        *(f"measurement.{name}" for name in ("emission", "offset", "logit")),
    }
    assert {name for name, _ in model.named_buffers()} == {"dynamics.scale", "measurement.scale"}


def test_bimodal_exact_fit_from_the_start_finds_the_truth(generator):
    """Newton's method on the exact loss: the start lies in the basin of the truth, and enough data determine all parameters."""
    batch = bimodal.simulate(8000, 4, dtype=F64, generator=generator)
    model = model_of(START)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=60, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = -model.exact_beliefs(batch).posteriors[-1].log_prob(batch.states[:, -1]).mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    truth = BimodalModel(TRUTH).named_values()
    for name, value in model.named_values().items():
        # Five standard errors of the maximum-likelihood estimate from this many sequences, rounded up.
        assert value.item() == pytest.approx(truth[name].item(), abs=0.2), name


def test_bimodal_refuses_odd_sizes():
    with pytest.raises(ValueError, match="length to be an integer of at least 2"):
        bimodal.simulate(3, 1)
    with pytest.raises(ValueError, match="num_sequences to be an integer of at least 1"):
        bimodal.simulate(0)
