r"""The mixture Kalman filter: the exact belief behind a sensor that does not say which of its modes spoke.

.. math::

    x_t \sim N(A x_{t-1} + B a_{t-1}, \sigma^2), \qquad y_t \sim \sum_m w_m N(C_m x_t + c_m, \gamma^2)

Given which mode spoke at every frame, the belief is a Kalman filter's. Not knowing it, the belief is a mixture with one Gaussian
per sequence of modes: with M modes, each measurement multiplies the number of components by M. A pair of component and mode is
weighted by its old weight, the weight of the mode, and the density it predicted for the observation (Frei and Kuensch, "Mixture
ensemble Kalman filters", 2013). It remains tractable over a few frames.

Time is counted as everywhere in the library: the initial belief stands at frame 0, the observations are those of frames 1 to T.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from mdpf.checks import check_batch, check_same_kind, check_tensor, describe
from mdpf.exact.alignment import align
from mdpf.exact.gaussian_mixture import GaussianMixture1d, normal_log_prob


class ModalSensor(NamedTuple):
    """A scalar linear-Gaussian motion seen through a sensor with M modes.

    ``transition`` (A), ``control`` (B), ``motion_scale`` (sigma) and ``sensor_scale`` (gamma) are [*batch]; ``emission`` (C),
    ``offset`` (c) and ``log_mode_weights`` (log w, normalised) are [*batch, M]. Their batch axes are the leading ones of the data.
    """

    transition: Tensor
    control: Tensor
    motion_scale: Tensor
    emission: Tensor
    offset: Tensor
    log_mode_weights: Tensor
    sensor_scale: Tensor


class MixtureTrajectory(NamedTuple):
    """The filtered beliefs of frames 1 to T, each with M times the components of the one before, and [*batch, T] log-evidence."""

    posteriors: tuple[GaussianMixture1d, ...]
    log_evidence: Tensor


def mixture_kalman_filter(
    model: ModalSensor,
    initial: GaussianMixture1d,
    observations: Tensor,
    actions: Tensor,
    *,
    observed: Tensor | None = None,
) -> MixtureTrajectory:
    """Condition the state on every observation up to its own frame, exactly.

    Args:
        model: Motion and sensor.
        initial: The belief at frame 0; its batch axes are left-aligned like the model's.
        observations: What was measured at frames 1 to T.
        actions: What led to frames 1 to T.
        observed: False where the measurement is missing: the belief is only predicted and the log-evidence is 0. The number of
            components grows all the same, since shapes may not depend on values; the added ones are copies.

    Shapes:
        observations and actions [*batch, T, 1], observed [*batch, T], initial [*batch, n] ->
        posteriors[t] with M ** (t + 1) * n components, log_evidence [*batch, T].

    Gradient:
        Exact with respect to everything, weights included; everything is computed from logs.

    Example:
        >>> number = torch.tensor
        >>> sign_lost = ModalSensor(number(1.0), number(1.0), number(0.1), number([1.0, -1.0]), number([0.0, 0.0]),
        ...                         number([0.5, 0.5]).log(), number(0.1))
        >>> anywhere = GaussianMixture1d(torch.zeros(1), torch.full((1,), 9.0), torch.zeros(1))
        >>> belief = mixture_kalman_filter(sign_lost, anywhere, number([[2.0]]), number([[0.0]])).posteriors[-1]
        >>> [round(mean, 2) for mean in belief.means.tolist()], [round(w, 2) for w in belief.log_weights.exp().tolist()]
        ([2.0, -2.0], [0.5, 0.5])
    """
    model, belief = _checked(model, initial, observations, actions)
    batch, num_steps = observations.shape[:-2], observations.shape[-2]
    if observed is None:
        observed = torch.ones(*batch, num_steps, dtype=torch.bool, device=observations.device)
    elif observed.dtype != torch.bool or observed.shape != (*batch, num_steps):
        expected = f"a bool tensor of shape {[*batch, num_steps]}"
        raise ValueError(f"mixture_kalman_filter needs observed to be {expected}, got {describe(observed)}.")
    observations = observations[..., 0].where(observed, 0.0)

    posteriors, evidence = [], []
    for t in range(num_steps):
        belief = predict(model, belief, actions[..., t, :])
        belief, log_evidence = update(model, belief, observations[..., t, None], observed[..., t, None])
        posteriors.append(belief)
        evidence.append(log_evidence)
    return MixtureTrajectory(tuple(posteriors), torch.stack(evidence, -1))


def predict(model: ModalSensor, belief: GaussianMixture1d, action: Tensor) -> GaussianMixture1d:
    """Move every component one frame on; ``model`` fields have one trailing axis for the components, ``action`` is [*batch, 1]."""
    means = model.transition * belief.means + model.control * action
    variances = model.transition.square() * belief.variances + model.motion_scale.square()
    return belief._replace(means=means, variances=variances)


def update(
    model: ModalSensor, belief: GaussianMixture1d, observation: Tensor, observed: Tensor
) -> tuple[GaussianMixture1d, Tensor]:
    """Pair every component with every mode; ``observation`` and ``observed`` are [*batch, 1]."""
    means, variances = belief.means[..., :, None], belief.variances[..., :, None]
    emission, offset = model.emission[..., None, :], model.offset[..., None, :]
    noise = model.sensor_scale[..., None].square()
    observation, sees = observation[..., None], observed[..., None]

    predicted_mean, predicted_variance = emission * means + offset, emission.square() * variances + noise
    gain = emission * variances / predicted_variance
    scores = normal_log_prob(observation, predicted_mean, predicted_variance).where(sees, 0.0)
    log_pairs = belief.log_weights[..., :, None] + model.log_mode_weights[..., None, :] + scores
    posterior = GaussianMixture1d(
        (means + gain * (observation - predicted_mean)).where(sees, means).flatten(-2),
        (variances * noise / predicted_variance).where(sees, variances).flatten(-2),
        log_pairs.flatten(-2),
    )
    log_evidence = posterior.log_weights.logsumexp(-1)
    posterior = posterior._replace(log_weights=posterior.log_weights - log_evidence[..., None])
    return posterior, log_evidence.where(observed[..., 0], 0.0)


def _checked(
    model: ModalSensor, initial: GaussianMixture1d, observations: Tensor, actions: Tensor
) -> tuple[ModalSensor, GaussianMixture1d]:
    """Check that the parts fit together, and give every part the batch axes of the observations and one axis of its own."""
    call = "mixture_kalman_filter"
    check_tensor(call, observations, ("T", 1), "The state of this model is a single number, and so is its observation.")
    check_tensor(call, actions, (observations.shape[-2], 1), "One action leads to each observation.")
    batch = observations.shape[:-2]
    check_batch(call, actions, "actions", batch)
    num_modes, num_components = model.emission.shape[-1], initial.means.shape[-1]
    parts = {}
    for name, part in model._asdict().items():
        modal = name in ("emission", "offset", "log_mode_weights")
        check_tensor(call, part, (num_modes,) if modal else (), f"{name} does not fit the {num_modes} modes of the emission.")
        check_same_kind(call, **{"observations": observations, name: part})
        parts[name] = align(call, name, part if modal else part[..., None], 1, len(batch))
    for name, part in initial._asdict().items():
        check_tensor(call, part, (num_components,), f"{name} does not fit the means of the initial belief.")
        check_same_kind(call, **{"observations": observations, name: part})
    belief = GaussianMixture1d(*(align(call, "initial", part, 1, len(batch)).expand(*batch, -1) for part in initial))
    return ModalSensor(**parts), belief
