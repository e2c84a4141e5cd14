"""The Kalman filter against conditioning of the joint Gaussian of a whole trajectory."""

import pytest
import torch
from torch import Tensor

from mdpf.exact import LinearGaussian, kalman_filter

STATE, SEEN, ACT, STEPS = 3, 2, 2, 4


def random_cov(generator: torch.Generator, batch: tuple[int, ...], dim: int) -> Tensor:
    root = torch.randn(*batch, dim, dim, dtype=torch.float64, generator=generator)
    return root @ root.mT + 0.3 * torch.eye(dim, dtype=torch.float64)


def random_model(seed: int, batch: tuple[int, ...] = (), *, complete: bool = True) -> LinearGaussian:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*batch, *shape, dtype=torch.float64, generator=generator)

    return LinearGaussian(
        transition=0.7 * draw(STATE, STATE),
        transition_cov=random_cov(generator, batch, STATE),
        emission=draw(SEEN, STATE),
        emission_cov=random_cov(generator, batch, SEEN),
        initial_mean=draw(STATE),
        initial_cov=random_cov(generator, batch, STATE),
        control=draw(STATE, ACT) if complete else None,
        transition_offset=draw(STATE) if complete else None,
        emission_offset=draw(SEEN) if complete else None,
    )


def random_data(seed: int, *batch: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    observations = torch.randn(*batch, STEPS, SEEN, dtype=torch.float64, generator=generator)
    return 2 * observations, torch.randn(*batch, STEPS, ACT, dtype=torch.float64, generator=generator)


def conditioned_jointly(
    model: LinearGaussian, observations: Tensor, actions: Tensor, rows: list[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and covariance of the last state given the observations at ``rows``, and the log-density of those observations.

    Everything is an affine function of one vector of independent Gaussians: initial state, motion noises, sensor noises.
    """
    roots = [torch.linalg.cholesky(cov) for cov in (model.initial_cov, model.transition_cov, model.emission_cov)]
    size = STATE + STEPS * (STATE + SEEN)
    state = torch.zeros(STATE, size, dtype=torch.float64)
    state[:, :STATE] = roots[0]
    mean = model.initial_mean
    seen_mean, seen = [], []
    for t in range(STEPS):
        mean = model.transition @ mean + model.control @ actions[t] + model.transition_offset
        state = model.transition @ state
        state[:, STATE + t * STATE : STATE + (t + 1) * STATE] += roots[1]
        row = model.emission @ state
        begin = STATE + STEPS * STATE + t * SEEN
        row[:, begin : begin + SEEN] += roots[2]
        if t in rows:
            seen.append(row)
            seen_mean.append(model.emission @ mean + model.emission_offset)
    if not rows:
        return mean, state @ state.mT, torch.zeros((), dtype=torch.float64)
    design, centre, values = torch.cat(seen), torch.cat(seen_mean), observations[rows].flatten()
    gain = state @ design.mT @ torch.linalg.inv(design @ design.mT)
    evidence = torch.distributions.MultivariateNormal(centre, design @ design.mT).log_prob(values)
    return mean + gain @ (values - centre), state @ state.mT - gain @ design @ state.mT, evidence


@pytest.mark.parametrize("seed", range(4))
def test_kalman_equals_joint_conditioning(seed):
    model, (observations, actions) = random_model(seed), random_data(seed + 50)
    belief = kalman_filter(model, observations, actions)
    mean, cov, evidence = conditioned_jointly(model, observations, actions, list(range(STEPS)))
    torch.testing.assert_close(belief.means[-1], mean, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(belief.covariances[-1], cov, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(belief.log_evidence.sum(), evidence, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("rows", [[], [0], [1, 3], [0, 1, 2]])
def test_kalman_missing_equals_dropped_rows(rows):
    model, (observations, actions) = random_model(7), random_data(8)
    observed = torch.tensor([t in rows for t in range(STEPS)])
    observations[~observed] = torch.nan
    belief = kalman_filter(model, observations, actions, observed=observed)
    mean, cov, evidence = conditioned_jointly(model, observations, actions, rows)
    torch.testing.assert_close(belief.means[-1], mean, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(belief.covariances[-1], cov, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(belief.log_evidence.sum(), evidence, rtol=1e-10, atol=1e-10)
    assert not belief.log_evidence[~observed].any()


def test_kalman_stands_still_behind_the_end():
    model, (observations, actions) = random_model(3), random_data(4)
    short = kalman_filter(model, observations[:2], actions[:2])
    observations[2:], actions[2:] = torch.nan, torch.nan
    padded = kalman_filter(model, observations, actions, valid=torch.tensor([True, True, False, False]))
    for part, whole in zip(short, padded, strict=True):
        torch.testing.assert_close(whole[:2], part, rtol=0, atol=0)
    torch.testing.assert_close(padded.means[3], short.means[1], rtol=0, atol=0)
    torch.testing.assert_close(padded.covariances[3], short.covariances[1], rtol=0, atol=0)
    assert not padded.log_evidence[2:].any()


def test_kalman_batch_equals_single_runs():
    runs, size = 2, 3
    model, (observations, actions) = random_model(1, (runs,)), random_data(2, runs, size)
    observed = torch.rand(runs, size, STEPS, generator=torch.Generator().manual_seed(0)) < 0.6
    together = kalman_filter(model, observations, actions, observed=observed)
    for run in range(runs):
        own = LinearGaussian(*(part[run] for part in model))
        for i in range(size):
            alone = kalman_filter(own, observations[run, i], actions[run, i], observed=observed[run, i])
            for part, whole in zip(alone, together, strict=True):
                torch.testing.assert_close(whole[run, i], part, rtol=1e-12, atol=1e-12)


def test_kalman_without_control_and_offsets_equals_zeros():
    model, (observations, actions) = random_model(5), random_data(6)
    bare = model._replace(control=None, transition_offset=None, emission_offset=None)
    zeros = model._replace(
        control=torch.zeros_like(model.control),
        transition_offset=torch.zeros_like(model.transition_offset),
        emission_offset=torch.zeros_like(model.emission_offset),
    )
    for part, whole in zip(kalman_filter(bare, observations), kalman_filter(zeros, observations, actions), strict=True):
        torch.testing.assert_close(part, whole, rtol=0, atol=0)


def test_kalman_gradients_are_exact():
    model, (observations, actions) = random_model(9), random_data(10)
    observed = torch.tensor([True, False, True, True])
    observations[1] = torch.nan

    def outputs(*parts: Tensor) -> tuple[Tensor, ...]:
        # Covariances enter through their roots: gradcheck moves single entries and would leave the symmetric matrices.
        squares = {1, 3, 5}
        made = LinearGaussian(*(part @ part.mT if i in squares else part for i, part in enumerate(parts)))
        return tuple(kalman_filter(made, observations, actions, observed=observed))

    roots = [torch.linalg.cholesky(part) if i in {1, 3, 5} else part for i, part in enumerate(model)]
    assert torch.autograd.gradcheck(outputs, tuple(part.clone().requires_grad_() for part in roots))


def test_kalman_float32_stays_definite_and_close():
    """A precise sensor after a vague prior: the textbook covariance (I - KH) P loses all its digits here."""
    model = random_model(11)._replace(
        initial_cov=1e4 * torch.eye(STATE, dtype=torch.float64), emission_cov=1e-3 * torch.eye(SEEN, dtype=torch.float64)
    )
    observations, actions = random_data(12)
    exact = kalman_filter(model, observations, actions)
    rounded = kalman_filter(LinearGaussian(*(part.float() for part in model)), observations.float(), actions.float())
    assert rounded.means.dtype == torch.float32
    assert (torch.linalg.eigvalsh(rounded.covariances) > 0).all()
    torch.testing.assert_close(rounded.covariances[-1].double(), exact.covariances[-1], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(rounded.means[-1].double(), exact.means[-1], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m, y, a: (m, y[..., :1], a), "emission measures 2 numbers"),
        (lambda m, y, a: (m, y, None), "Give both or neither"),
        (lambda m, y, a: (m._replace(control=None), y, a), "Give both or neither"),
        (lambda m, y, a: (m, y, a[:-1]), "One action leads to each observation"),
        (lambda m, y, a: (m, y[:0], a[:0]), "at least one frame"),
        (lambda m, y, a: (m._replace(initial_cov=m.initial_cov[:2]), y, a), "initial_cov does not fit"),
        (lambda m, y, a: (m._replace(initial_mean=m.initial_mean[None]), y, a), "more batch axes than the observations"),
    ],
)
def test_kalman_refuses_what_does_not_fit(change, message):
    with pytest.raises(ValueError, match=message):
        kalman_filter(*change(random_model(0), *random_data(0)))


def test_kalman_refuses_mixed_dtypes_and_odd_masks():
    model, (observations, actions) = random_model(0), random_data(0)
    with pytest.raises(TypeError, match="Convert one of them"):
        kalman_filter(model._replace(emission=model.emission.float()), observations, actions)
    with pytest.raises(ValueError, match=r"observed to be a bool tensor of shape \[4\]"):
        kalman_filter(model, observations, actions, observed=torch.ones(STEPS))
