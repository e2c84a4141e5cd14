r"""The Kalman filter: the exact belief where everything is linear and Gaussian.

.. math::

    x_t &= F x_{t-1} + G a_{t-1} + f + \varepsilon_t, & \varepsilon_t &\sim N(0, Q) \\
    y_t &= H x_t + h + \eta_t, & \eta_t &\sim N(0, R)

Time is counted as everywhere in the library: the initial belief stands at frame 0, where nothing is measured, and action ``t``
leads from frame ``t`` to frame ``t + 1``. The observations handed in are those of frames 1 to T.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mdpf.checks import check_batch, check_same_kind, check_tensor, describe
from mdpf.exact.alignment import align


class LinearGaussian(NamedTuple):
    """A linear-Gaussian model; every tensor may carry leading batch axes, left-aligned with those of the data."""

    transition: Tensor
    transition_cov: Tensor
    emission: Tensor
    emission_cov: Tensor
    initial_mean: Tensor
    initial_cov: Tensor
    control: Tensor | None = None
    transition_offset: Tensor | None = None
    emission_offset: Tensor | None = None


class KalmanTrajectory(NamedTuple):
    """The filtered beliefs of frames 1 to T and what each measurement said about the model."""

    means: Tensor
    covariances: Tensor
    log_evidence: Tensor


def kalman_filter(
    model: LinearGaussian,
    observations: Tensor,
    actions: Tensor | None = None,
    *,
    observed: Tensor | None = None,
    valid: Tensor | None = None,
) -> KalmanTrajectory:
    """Condition the state on every observation up to its own frame.

    Args:
        model: The model, with ``control`` exactly if there are actions.
        observations: What was measured at frames 1 to T.
        actions: What led to frames 1 to T.
        observed: False where the measurement is missing: the belief is only predicted, the log-evidence is 0, and the
            observation there may hold anything, NaN included.
        valid: False behind the end of a shorter sequence: the belief stays as it is, the log-evidence is 0.

    Shapes:
        observations [*batch, T, k], actions [*batch, T, a], observed and valid [*batch, T] ->
        means [*batch, T, d], covariances [*batch, T, d, d], log_evidence [*batch, T].

    Gradient:
        Exact, with respect to the model, the observations and the actions. ``log_evidence.sum(-1)`` is the log-likelihood of the
        model, so its gradient is the exact score.

    Example:
        A random walk seen once, with prior, step and measurement of unit variance:

        >>> one = torch.ones(1, 1)
        >>> walk = LinearGaussian(one, one, one, one, initial_mean=torch.zeros(1), initial_cov=one)
        >>> belief = kalman_filter(walk, torch.tensor([[3.0]]))
        >>> round(belief.means.item(), 4), round(belief.covariances.item(), 4)
        (2.0, 0.6667)
    """
    model = _checked(model, observations, actions)
    batch, num_steps = observations.shape[:-2], observations.shape[-2]
    always = torch.ones(*batch, num_steps, dtype=torch.bool, device=observations.device)
    valid = always if valid is None else _checked_mask(valid, "valid", always)
    observed = valid if observed is None else _checked_mask(observed, "observed", always) & valid
    observations = observations.where(observed[..., None], 0.0)
    actions = None if actions is None else actions.where(valid[..., None], 0.0)

    mean = model.initial_mean.expand(*batch, -1)
    cov = model.initial_cov.expand(*batch, -1, -1)
    means, covs, evidence = [], [], []
    for t in range(num_steps):
        action = None if actions is None else actions[..., t, :]
        predicted_mean, predicted_cov = predict(model, mean, cov, action)
        moves, sees = valid[..., t], observed[..., t]
        mean = predicted_mean.where(moves[..., None], mean)
        cov = predicted_cov.where(moves[..., None, None], cov)
        updated_mean, updated_cov, log_evidence = update(model, mean, cov, observations[..., t, :])
        mean = updated_mean.where(sees[..., None], mean)
        cov = updated_cov.where(sees[..., None, None], cov)
        means.append(mean)
        covs.append(cov)
        evidence.append(log_evidence.where(sees, 0.0))
    return KalmanTrajectory(torch.stack(means, -2), torch.stack(covs, -3), torch.stack(evidence, -1))


def predict(model: LinearGaussian, mean: Tensor, cov: Tensor, action: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Move a Gaussian belief one frame on."""
    mean = _apply(model.transition, mean)
    if model.transition_offset is not None:
        mean = mean + model.transition_offset
    if model.control is not None and action is not None:
        mean = mean + _apply(model.control, action)
    return mean, model.transition @ cov @ model.transition.mT + model.transition_cov


def update(model: LinearGaussian, mean: Tensor, cov: Tensor, observation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Condition a Gaussian belief on one observation and return its log-density under the belief as well.

    The covariance is written as a sum of two squares (Joseph's form), which rounding cannot make indefinite.
    """
    predicted = _apply(model.emission, mean)
    if model.emission_offset is not None:
        predicted = predicted + model.emission_offset
    innovation = observation - predicted
    cross = model.emission @ cov
    factor = torch.linalg.cholesky(cross @ model.emission.mT + model.emission_cov)
    gain = torch.cholesky_solve(cross, factor).mT
    rest = torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device) - gain @ model.emission
    updated_cov = rest @ cov @ rest.mT + gain @ model.emission_cov @ gain.mT
    whitened = torch.linalg.solve_triangular(factor, innovation[..., None], upper=False)[..., 0]
    log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    log_evidence = -0.5 * (whitened.square().sum(-1) + log_det + observation.shape[-1] * math.log(2 * math.pi))
    return mean + _apply(gain, innovation), updated_cov, log_evidence


def _apply(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector[..., None])[..., 0]


def _checked(model: LinearGaussian, observations: Tensor, actions: Tensor | None) -> LinearGaussian:
    """Check that the parts fit together, and give every part the batch axes of the observations."""
    call = "kalman_filter"
    d, k = model.initial_mean.shape[-1], model.emission.shape[-2]
    check_tensor(call, observations, ("T", k), f"The emission measures {k} numbers.")
    if observations.shape[-2] < 1:
        raise ValueError(f"{call} needs at least one frame of observations, got {describe(observations)}.")
    batch = observations.shape[:-2]
    if (actions is None) != (model.control is None):
        raise ValueError(
            f"{call} needs actions exactly if the model has a control, got actions {describe(actions)} and control "
            f"{describe(model.control)}. Give both or neither."
        )
    if actions is not None and model.control is not None:
        check_tensor(call, actions, (observations.shape[-2], model.control.shape[-1]), "One action leads to each observation.")
        check_batch(call, actions, "actions", batch)
        check_same_kind(call, observations=observations, actions=actions)
    shapes = LinearGaussian((d, d), (d, d), (k, d), (k, k), (d,), (d, d), (d, "a"), (d,), (k,))  # type: ignore[arg-type]
    parts = {}
    for name, shape in shapes._asdict().items():
        part = getattr(model, name)
        if part is not None:
            check_tensor(call, part, shape, f"{name} does not fit the other parts of the model.")
            check_same_kind(call, **{"observations": observations, name: part})
            parts[name] = align(call, name, part, len(shape), len(batch))
    return LinearGaussian(**parts)


def _checked_mask(mask: Tensor, name: str, like: Tensor) -> Tensor:
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != like.shape:
        raise ValueError(f"kalman_filter needs {name} to be a bool tensor of shape {list(like.shape)}, got {describe(mask)}.")
    return mask
