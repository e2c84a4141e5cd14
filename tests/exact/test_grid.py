"""The grid filter against the Kalman filter, where both are exact."""

import pytest
import torch
from torch import Tensor

from mdpf.exact import GaussianMixture1d, LinearGaussian, grid_filter, kalman_filter
from mdpf.exact.gaussian_mixture import normal_log_prob

GRID = torch.linspace(-30, 30, 801, dtype=torch.float64)


def number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def test_grid_equals_kalman():
    one = torch.ones(1, 1, dtype=torch.float64)
    model = LinearGaussian(
        0.8 * one, 1.5 * one, 1.2 * one, 0.7 * one, one[0], 2 * one, control=0.5 * one, emission_offset=0.3 * one[0]
    )
    generator = torch.Generator().manual_seed(0)
    observations, actions = 2 * torch.randn(2, 4, 3, 1, dtype=torch.float64, generator=generator)
    exact = kalman_filter(model, observations, actions)

    def log_transition(arrival: Tensor, departure: Tensor, action: Tensor | None) -> Tensor:
        assert action is not None
        return normal_log_prob(arrival, 0.8 * departure + 0.5 * action[..., 0], number(1.5))

    def log_likelihood(points: Tensor, observation: Tensor) -> Tensor:
        return normal_log_prob(observation[..., 0], 1.2 * points + 0.3, number(0.7))

    by_grid = grid_filter(GRID, normal_log_prob(GRID, number(1), number(2)), log_transition, log_likelihood, observations, actions)
    torch.testing.assert_close(by_grid.means, exact.means[..., 0], rtol=0, atol=1e-10)
    torch.testing.assert_close(by_grid.log_evidence, exact.log_evidence, rtol=0, atol=1e-10)
    for t in range(3):
        belief = GaussianMixture1d(exact.means[:, t], exact.covariances[:, t, :, 0], torch.zeros(4, 1, dtype=torch.float64))
        densities = belief.log_prob(GRID.expand(4, -1)).exp()
        torch.testing.assert_close(by_grid.log_densities[:, t].exp(), densities, rtol=0, atol=1e-10)


def test_grid_knows_any_density():
    """A walk with bounded steps from an exactly known interval, seen through a sensor that only tells the sign."""

    def log_transition(arrival: Tensor, departure: Tensor, action: Tensor | None) -> Tensor:
        return ((arrival - departure).abs() <= 1).to(arrival).log() - number(2).log()

    def log_likelihood(points: Tensor, observation: Tensor) -> Tensor:
        return torch.where(points * observation[..., 0] > 0, 0.0, -torch.inf)

    grid = torch.linspace(-3, 3, 2401, dtype=torch.float64)
    prior = torch.where(grid.abs() <= 1, 0.5, 0.0).log()
    belief = grid_filter(grid, prior, log_transition, log_likelihood, torch.ones(1, 1, dtype=torch.float64))
    # The sum of two uniform variables has a triangular density; its positive half has mean 2/3 and mass 1/2.
    assert belief.means.item() == pytest.approx(2 / 3, abs=2e-3)
    assert belief.log_evidence.exp().item() == pytest.approx(0.5, abs=2e-3)


def test_grid_refuses_actions_of_another_length():
    with pytest.raises(ValueError, match="One action leads to each observation"):
        grid_filter(GRID, GRID, lambda *_: GRID, lambda *_: GRID, torch.zeros(3, 1), torch.zeros(2, 1))
