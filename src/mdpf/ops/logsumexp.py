"""The logarithm of a sum of exponentials, defined and differentiable also where every term vanishes."""

import torch
from torch import Tensor

# exp of anything lower cannot change a sum whose largest term is one, in either precision; where it underflows or turns
# denormal it is an order of magnitude slower than elsewhere.
LOWEST_EXPONENT = -80.0


def log_sum_exp(values: Tensor) -> Tensor:
    """Sum over the last axis, in log space.

    Gradient:
        The softmax; zero where every term is minus infinity (there the sum is minus infinity), where ``torch.logsumexp`` has NaN.
    """
    peak = values.detach().amax(-1, keepdim=True)
    empty = peak == -torch.inf
    peak = torch.where(empty, 0.0, peak)
    total = (values - peak).clamp_min(LOWEST_EXPONENT).exp().sum(-1)
    return torch.where(empty.squeeze(-1), -torch.inf, total.log() + peak.squeeze(-1))
