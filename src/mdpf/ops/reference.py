"""The plain implementation: every pair at once. The truth in tests; memory grows with the number of pairs."""

from torch import Tensor

from mdpf.kernels.protocol import Kernel
from mdpf.ops.logsumexp import log_sum_exp


def mixture_log_prob(x: Tensor, locs: Tensor, log_weights: Tensor, kernel: Kernel) -> Tensor:
    """Evaluate the mixture density at ``x``; see ``ops.mixture_log_prob``."""
    pairs = kernel.log_prob(x.unsqueeze(-2), locs.unsqueeze(-3))
    return log_sum_exp(log_weights.unsqueeze(-2) + pairs)
