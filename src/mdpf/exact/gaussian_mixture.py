"""Mixtures of Gaussians on the line, each component with a width of its own."""

import math
from typing import NamedTuple

from torch import Tensor


class GaussianMixture1d(NamedTuple):
    """A density on the line; every field is [*batch, n] and ``log_weights`` are normalised."""

    means: Tensor
    variances: Tensor
    log_weights: Tensor

    def log_prob(self, x: Tensor) -> Tensor:
        """Evaluate the log-density.

        Shapes:
            [*batch, m] -> [*batch, m].

        Example:
            >>> import torch
            >>> standard = GaussianMixture1d(torch.zeros(1), torch.ones(1), torch.zeros(1))
            >>> round(standard.log_prob(torch.zeros(1)).item(), 4)
            -0.9189
        """
        components = normal_log_prob(x[..., :, None], self.means[..., None, :], self.variances[..., None, :])
        return (self.log_weights[..., None, :] + components).logsumexp(-1)

    def mean(self) -> Tensor:
        """Shapes: -> [*batch]."""
        return (self.log_weights.exp() * self.means).sum(-1)

    def variance(self) -> Tensor:
        """Spread within the components plus spread of the components.

        Shapes:
            -> [*batch].
        """
        deviations = self.means - self.mean()[..., None]
        return (self.log_weights.exp() * (self.variances + deviations.square())).sum(-1)


def normal_log_prob(x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """Evaluate the log-density of a Gaussian given by mean and variance, elementwise."""
    return -0.5 * ((x - mean).square() / variance + variance.log() + math.log(2 * math.pi))
