"""The log-weights that several resamplers share."""

import math

from torch import Tensor

from mdpf.mixture import Mixture


def uniform_log_weights(mixture: Mixture, num_particles: int) -> Tensor:
    """``-log n`` for every particle, without gradient."""
    return mixture.log_weights.new_full((*mixture.batch_shape, num_particles), -math.log(num_particles))


def weight_one(log_ratio: Tensor) -> Tensor:
    """An importance weight of value one that carries the gradient of ``log_ratio``, divided by the number of points."""
    return log_ratio - log_ratio.detach() - math.log(log_ratio.shape[-1])
