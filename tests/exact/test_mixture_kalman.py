"""The mixture Kalman filter against brute-force integration and against the Kalman filter."""

import pytest
import torch
from torch import Tensor

from mdpf.exact import (
    GaussianMixture1d,
    LinearGaussian,
    ModalSensor,
    grid_filter,
    kalman_filter,
    mixture_kalman_filter,
)
from mdpf.exact.gaussian_mixture import normal_log_prob

GRID = torch.linspace(-30, 30, 601, dtype=torch.float64)
NUM_SEQUENCES = 3


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def folded(second_weight: float = 0.4) -> ModalSensor:
    return ModalSensor(
        transition=tensor(0.8)[0],
        control=tensor(0.5)[0],
        motion_scale=tensor(1.2)[0],
        emission=tensor(1.1, -0.9),
        offset=tensor(1.0, 0.5),
        log_mode_weights=tensor(1 - second_weight, second_weight).log(),
        sensor_scale=tensor(0.7)[0],
    )


def two_places() -> GaussianMixture1d:
    return GaussianMixture1d(tensor(-2.0, 3.0), tensor(1.0, 2.0), tensor(0.3, 0.7).log())


def data(num_steps: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(num_steps)
    observations, actions = torch.randn(2, NUM_SEQUENCES, num_steps, 1, dtype=torch.float64, generator=generator)
    return 3 * observations, actions


def by_integration(model: ModalSensor, initial: GaussianMixture1d, observations: Tensor, actions: Tensor, observed: Tensor):
    def log_transition(arrival: Tensor, departure: Tensor, action: Tensor | None) -> Tensor:
        assert action is not None
        return normal_log_prob(arrival, model.transition * departure + model.control * action[..., 0], model.motion_scale.square())

    def log_likelihood(points: Tensor, observation: Tensor) -> Tensor:
        predicted = model.emission * points[:, None] + model.offset
        modes = model.log_mode_weights + normal_log_prob(observation[..., :1], predicted, model.sensor_scale.square())
        return modes.logsumexp(-1).where(observation[..., 1] > 0, 0.0)

    told = torch.cat((observations, observed[..., None].double()), -1)
    return grid_filter(GRID, initial.log_prob(GRID), log_transition, log_likelihood, told, actions)


@pytest.mark.parametrize("num_steps", [1, 2, 3])
@pytest.mark.parametrize("missing", [False, True])
def test_mixture_kalman_equals_integration(num_steps, missing):
    observations, actions = data(num_steps)
    observed = torch.ones(NUM_SEQUENCES, num_steps, dtype=torch.bool)
    if missing:
        observed[0, 0], observed[1, -1] = False, False
    exact = mixture_kalman_filter(folded(), two_places(), observations, actions, observed=observed)
    truth = by_integration(folded(), two_places(), observations, actions, observed)
    torch.testing.assert_close(exact.log_evidence, truth.log_evidence, rtol=0, atol=1e-10)
    assert not exact.log_evidence[~observed].any()
    for t, posterior in enumerate(exact.posteriors):
        assert posterior.means.shape == (NUM_SEQUENCES, 2 * 2 ** (t + 1))
        torch.testing.assert_close(posterior.log_weights.logsumexp(-1), torch.zeros(NUM_SEQUENCES).double(), rtol=0, atol=1e-12)
        torch.testing.assert_close(posterior.mean(), truth.means[:, t], rtol=0, atol=1e-9)
        densities = posterior.log_prob(GRID.expand(NUM_SEQUENCES, -1)).exp()
        torch.testing.assert_close(densities, truth.log_densities[:, t].exp(), rtol=0, atol=1e-9)


def single_mode(model: ModalSensor, initial: GaussianMixture1d) -> LinearGaussian:
    """The Kalman filter's view of the first mode and the first initial component."""
    return LinearGaussian(
        transition=model.transition.reshape(1, 1),
        transition_cov=model.motion_scale.square().reshape(1, 1),
        emission=model.emission[:1, None],
        emission_cov=model.sensor_scale.square().reshape(1, 1),
        initial_mean=initial.means[:1],
        initial_cov=initial.variances[:1, None],
        control=model.control.reshape(1, 1),
        emission_offset=model.offset[:1],
    )


@pytest.mark.parametrize(
    "model",
    [
        folded()._replace(emission=tensor(1.1, 1.1), offset=tensor(1.0, 1.0)),
        folded(second_weight=0.0),
        folded(second_weight=1e-300),
        ModalSensor(*(part[..., :1] if part.ndim else part for part in folded()))._replace(log_mode_weights=tensor(0.0)),
    ],
    ids=["equal modes", "second mode impossible", "second mode unlikely", "one mode"],
)
def test_mixture_kalman_equals_kalman(model):
    one_place = GaussianMixture1d(tensor(-2.0), tensor(1.0), tensor(0.0))
    observations, actions = data(4)
    mixture = mixture_kalman_filter(model, one_place, observations, actions)
    single = kalman_filter(single_mode(model, one_place), observations, actions)
    torch.testing.assert_close(mixture.log_evidence, single.log_evidence, rtol=1e-10, atol=1e-10)
    for t, posterior in enumerate(mixture.posteriors):
        torch.testing.assert_close(posterior.mean(), single.means[:, t, 0], rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(posterior.variance(), single.covariances[:, t, 0, 0], rtol=1e-10, atol=1e-10)


def test_mixture_kalman_gradients_are_exact():
    """All the parameters of the learning problem, the two scales, and the data; one measurement is missing and NaN."""
    observations, actions = data(3)
    observed = torch.tensor([[True, False, True]]).expand(NUM_SEQUENCES, 3)
    observations[:, 1] = torch.nan
    state = tensor(0.4, -1.0, 2.0)[:, None]

    def outputs(transition, control, motion_scale, emission, offset, logit, sensor_scale, moves):
        log_weights = torch.nn.functional.logsigmoid(torch.stack((-logit, logit)))
        model = ModalSensor(transition, control, motion_scale, emission, offset, log_weights, sensor_scale)
        belief = mixture_kalman_filter(model, two_places(), observations, moves, observed=observed)
        return belief.posteriors[-1].log_prob(state), belief.log_evidence

    model = folded()
    inputs = (*model[:5], tensor(-0.4)[0], model.sensor_scale, actions)
    assert torch.autograd.gradcheck(outputs, tuple(part.clone().requires_grad_() for part in inputs))


def test_mixture_kalman_does_not_care_for_the_order_of_modes():
    observations, actions = data(3)
    model = folded()
    swapped = ModalSensor(*(part.flip(-1) if part.ndim else part for part in model))
    points = GRID.expand(NUM_SEQUENCES, -1)
    one = mixture_kalman_filter(model, two_places(), observations, actions)
    other = mixture_kalman_filter(swapped, two_places(), observations, actions)
    torch.testing.assert_close(one.log_evidence, other.log_evidence, rtol=0, atol=1e-12)
    torch.testing.assert_close(one.posteriors[-1].log_prob(points), other.posteriors[-1].log_prob(points), rtol=1e-12, atol=1e-12)


def test_mixture_kalman_splits_modes_without_changing_the_belief():
    """Three modes, two of them halves of one, are two modes."""
    observations, actions = data(3)
    model = folded()
    halves = model._replace(
        emission=model.emission[[0, 1, 1]],
        offset=model.offset[[0, 1, 1]],
        log_mode_weights=tensor(0.6, 0.1, 0.3).log(),
    )
    two = mixture_kalman_filter(model, two_places(), observations, actions)
    three = mixture_kalman_filter(halves, two_places(), observations, actions)
    torch.testing.assert_close(two.log_evidence, three.log_evidence, rtol=0, atol=1e-12)
    torch.testing.assert_close(two.posteriors[-1].variance(), three.posteriors[-1].variance(), rtol=1e-10, atol=1e-10)


def test_mixture_kalman_runs_of_models_equal_single_runs():
    observations, actions = data(3)
    models = [folded(weight) for weight in (0.2, 0.5)]
    together = ModalSensor(*(torch.stack(parts) for parts in zip(*models, strict=True)))
    belief = mixture_kalman_filter(together, two_places(), observations.expand(2, -1, -1, -1), actions.expand(2, -1, -1, -1))
    for run, model in enumerate(models):
        alone = mixture_kalman_filter(model, two_places(), observations, actions)
        torch.testing.assert_close(belief.log_evidence[run], alone.log_evidence, rtol=1e-12, atol=1e-12)
        for part, whole in zip(alone.posteriors[-1], belief.posteriors[-1], strict=True):
            torch.testing.assert_close(whole[run], part, rtol=1e-12, atol=1e-12)


def test_mixture_kalman_float32_is_close():
    observations, actions = data(5)
    exact = mixture_kalman_filter(folded(), two_places(), observations, actions)
    model, initial = ModalSensor(*(p.float() for p in folded())), GaussianMixture1d(*(p.float() for p in two_places()))
    rounded = mixture_kalman_filter(model, initial, observations.float(), actions.float())
    assert rounded.log_evidence.dtype == torch.float32
    torch.testing.assert_close(rounded.log_evidence.double(), exact.log_evidence, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(rounded.posteriors[-1].mean().double(), exact.posteriors[-1].mean(), rtol=1e-5, atol=1e-4)


def test_mixture_kalman_survives_an_observation_no_mode_explains():
    model, initial = ModalSensor(*(p.float() for p in folded())), GaussianMixture1d(*(p.float() for p in two_places()))
    emission = model.emission.clone().requires_grad_()
    observations = torch.tensor([[[1e4], [0.0]]])
    belief = mixture_kalman_filter(model._replace(emission=emission), initial, observations, torch.zeros(1, 2, 1))
    assert torch.isfinite(belief.log_evidence).all()
    belief.log_evidence.sum().backward()
    assert torch.isfinite(emission.grad).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m, i, y, a: (m, i, y[..., 0], a), "single number"),
        (lambda m, i, y, a: (m, i, y, a[:, :-1]), "One action leads to each observation"),
        (lambda m, i, y, a: (m, i, y, a[:-1]), "actions with leading axes"),
        (lambda m, i, y, a: (m._replace(offset=m.offset[:1]), i, y, a), "offset does not fit the 2 modes"),
        (lambda m, i, y, a: (m, i._replace(variances=i.variances[:1]), y, a), "variances does not fit"),
        (lambda m, i, y, a: (m._replace(transition=torch.ones(3, 2, dtype=y.dtype)), i, y, a), "more batch axes"),
    ],
)
def test_mixture_kalman_refuses_what_does_not_fit(change, message):
    with pytest.raises(ValueError, match=message):
        mixture_kalman_filter(*change(folded(), two_places(), *data(2)))


def test_mixture_kalman_refuses_odd_masks():
    with pytest.raises(ValueError, match=r"observed to be a bool tensor of shape \[3, 2\]"):
        mixture_kalman_filter(folded(), two_places(), *data(2), observed=torch.ones(3, 2))
