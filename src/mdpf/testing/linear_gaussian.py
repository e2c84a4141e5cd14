"""Linear-Gaussian models as the parts of a particle filter, and what such a filter must then believe."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mdpf import noise
from mdpf.exact import KalmanTrajectory, LinearGaussian
from mdpf.exact.kalman import predict, update
from mdpf.models.protocol import Dynamics, Feature, Measurement
from mdpf.noise import Source
from mdpf.tasks.linear_gaussian import simulate


class Data(NamedTuple):
    """What was seen of some sequences; ``[sequence, T, ...]``, the frames after the initial one."""

    observations: Tensor
    actions: Tensor
    observed: Tensor
    valid: Tensor


def example_data(model: LinearGaussian) -> Data:
    """Two sequences of six frames: one complete, one that misses a measurement and ends early; NaN stands where nothing was."""
    batch = simulate(model, num_sequences=2, length=7, generator=torch.Generator().manual_seed(1))
    assert batch.actions is not None, "the model has a control"
    observations, actions = batch.observations[:, 1:].clone(), batch.actions.clone()
    observed, valid = torch.ones(2, 6, dtype=torch.bool), torch.ones(2, 6, dtype=torch.bool)
    observed[1, 2], valid[1, 5] = False, False
    observations[~(observed & valid)], actions[~valid] = torch.nan, torch.nan
    return Data(observations, actions, observed, valid)


def initial_particles(model: LinearGaussian, shape: tuple[int, ...], generator: Source = None) -> Tensor:
    """Independent draws from the initial belief, ``[*shape, d]``."""
    standard = noise.normal((*shape, model.initial_mean.shape[-1]), model.initial_mean, generator)
    return model.initial_mean + standard @ torch.linalg.cholesky(model.initial_cov).mT


def dynamics_of(model: LinearGaussian) -> Dynamics:
    """The model's motion."""

    def move(points: Tensor, action: Tensor | None = None, *, generator: Source = None) -> Tensor:
        moved = points @ model.transition.mT
        if model.transition_offset is not None:
            moved = moved + model.transition_offset
        if model.control is not None and action is not None:
            moved = moved + (action @ model.control.mT).unsqueeze(-2)
        return moved + noise.normal(points.shape, points, generator) @ torch.linalg.cholesky(model.transition_cov).mT

    return move


def log_likelihood_of(model: LinearGaussian) -> Measurement:
    """The model's sensor."""

    def weigh(particles: Tensor, feature: Feature) -> Tensor:
        expected = particles @ model.emission.mT
        if model.emission_offset is not None:
            expected = expected + model.emission_offset
        root = torch.linalg.cholesky(model.emission_cov)
        whitened = torch.linalg.solve_triangular(root, (feature.unsqueeze(-2) - expected).mT, upper=False)
        log_volume = root.diagonal(dim1=-2, dim2=-1).log().sum(-1) + 0.5 * len(root) * math.log(2 * math.pi)
        return -0.5 * whitened.square().sum(-2) - log_volume

    return weigh


def smoothed_kalman(model: LinearGaussian, data: Data, kernel_variance: Tensor, *, smooths: bool) -> KalmanTrajectory:
    r"""The exact belief of a filter that draws its particles from kernels.

    Drawing from a Gaussian kernel adds its variance to the belief. Each resampling therefore makes the motion noisier, all but the
    first motion, before which nothing is resampled; and the reported posterior is wider than the particles by one kernel.

    Args:
        model: The model of motion and sensor.
        data: What was seen.
        kernel_variance: The variance of the kernel, ``[d]``.
        smooths: Whether the filter draws from the kernel, or from the particles themselves.
    """
    kernel = torch.diag(kernel_variance)
    num_sequences, num_steps = data.valid.shape
    mean = model.initial_mean.expand(num_sequences, -1)
    cov = model.initial_cov.expand(num_sequences, -1, -1)
    means, covs, evidence = [], [], []
    for t in range(num_steps):
        wide = cov + kernel if smooths and t > 0 else cov
        moved = predict(model, mean, wide, data.actions[:, t])
        mean, cov = _choose(data.valid[:, t], moved, (mean, cov))
        *updated, log_evidence = update(model, mean, cov, data.observations[:, t])
        seen = data.valid[:, t] & data.observed[:, t]
        mean, cov = _choose(seen, (updated[0], updated[1]), (mean, cov))
        means.append(mean)
        covs.append(cov + kernel)
        evidence.append(log_evidence.where(seen, 0.0))
    return KalmanTrajectory(torch.stack(means, 1), torch.stack(covs, 1), torch.stack(evidence, 1))


def _choose(mask: Tensor, value: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return value[0].where(mask[:, None], other[0]), value[1].where(mask[:, None, None], other[1])
