"""Linear motion, Gaussian noise: the task whose exact answer is the Kalman filter's.

Everything a filter reports here can be held against the truth: means, covariances, evidence. Frame 0 is drawn from the model's
initial belief, which every sequence shares; its observation is drawn like all others, and no filter uses it.
"""

import torch
from torch import Tensor

from mdpf import noise
from mdpf.checks import check_count
from mdpf.data.sequences import SequenceBatch
from mdpf.exact import KalmanTrajectory, LinearGaussian, kalman_filter


def example_model(
    state_dim: int = 2, observation_dim: int = 1, action_dim: int = 1, *, dtype: torch.dtype | None = None
) -> LinearGaussian:
    """A damped chain: each coordinate follows the next, the sensor sees sums of neighbours, actions push the end of the chain.

    No coordinate is independent of the others, no covariance is diagonal, and every offset differs from zero, so a filter that
    forgets any part of the model disagrees with the Kalman filter.

    Example:
        >>> example_model(state_dim=3).transition
        tensor([[0.8000, 0.3000, 0.0000],
                [0.0000, 0.8000, 0.3000],
                [0.0000, 0.0000, 0.8000]])
    """
    for name, count in (("state_dim", state_dim), ("observation_dim", observation_dim), ("action_dim", action_dim)):
        check_count("example_model", count, name)
    chain = torch.eye(state_dim, dtype=dtype)
    following = torch.ones(state_dim, state_dim, dtype=dtype).triu(1).tril(1)
    neighbours = chain + 0.5 * following
    rows = torch.arange(observation_dim) % state_dim
    push = torch.zeros(state_dim, action_dim, dtype=dtype)
    push[-1] = 1.0
    return LinearGaussian(
        transition=0.8 * chain + 0.3 * following,
        transition_cov=0.5 * chain + 0.1 * torch.ones_like(chain),
        emission=neighbours[rows],
        emission_cov=0.5 * torch.eye(observation_dim, dtype=dtype) + 0.1,
        initial_mean=torch.linspace(-1.0, 1.0, state_dim, dtype=dtype) if state_dim > 1 else torch.ones(1, dtype=dtype),
        initial_cov=1.0 * chain + 0.2 * torch.ones_like(chain),
        control=push,
        transition_offset=torch.full((state_dim,), 0.2, dtype=dtype),
        emission_offset=torch.full((observation_dim,), -0.3, dtype=dtype),
    )


def simulate(model: LinearGaussian, num_sequences: int, length: int, *, generator: noise.Source = None) -> SequenceBatch:
    """Draw sequences of ``length`` frames from a model without batch axes, under standard normal actions."""
    check_count("simulate", num_sequences, "num_sequences")
    check_count("simulate", length, "length", at_least=2)
    stream = noise.source(generator)

    def draw(*shape: int) -> Tensor:
        return noise.normal((num_sequences, *shape), model.transition, stream)

    state_root, seen_root = torch.linalg.cholesky(model.transition_cov), torch.linalg.cholesky(model.emission_cov)
    state = model.initial_mean + draw(len(model.initial_mean)) @ torch.linalg.cholesky(model.initial_cov).mT
    actions = None if model.control is None else draw(length - 1, model.control.shape[-1])
    states = [state]
    for t in range(length - 1):
        state = state @ model.transition.mT + draw(state.shape[-1]) @ state_root.mT
        if model.control is not None and actions is not None:
            state = state + actions[:, t] @ model.control.mT
        if model.transition_offset is not None:
            state = state + model.transition_offset
        states.append(state)
    trajectory = torch.stack(states, 1)
    observations = trajectory @ model.emission.mT + draw(length, len(model.emission_cov)) @ seen_root.mT
    if model.emission_offset is not None:
        observations = observations + model.emission_offset
    return SequenceBatch(trajectory, observations, actions)


def exact_beliefs(model: LinearGaussian, batch: SequenceBatch) -> KalmanTrajectory:
    """The exact belief at every frame after the initial one."""
    observed, valid = (None if mask is None else mask[..., 1:] for mask in (batch.observed, batch.valid))
    return kalman_filter(model, batch.observations[..., 1:, :], batch.actions, observed=observed, valid=valid)
