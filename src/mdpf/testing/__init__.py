"""What proves a filter, a resampler or a kernel right: for this library's own tests and for yours."""

from mdpf.testing.assertions import assert_decays, assert_gradient, assert_mean, critical_value, gradients
from mdpf.testing.filters import check_belief, check_filter
from mdpf.testing.kernels import check_kernel
from mdpf.testing.resamplers import check_resampler

__all__ = [
    "assert_decays",
    "assert_gradient",
    "assert_mean",
    "check_belief",
    "check_filter",
    "check_kernel",
    "check_resampler",
    "critical_value",
    "gradients",
]
