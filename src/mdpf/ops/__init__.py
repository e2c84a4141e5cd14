"""The numerical core: pairwise mixture densities behind one function, and sums in log space."""

from mdpf.ops.logsumexp import log_sum_exp
from mdpf.ops.mixture_log_prob import mixture_log_prob

__all__ = ["log_sum_exp", "mixture_log_prob"]
