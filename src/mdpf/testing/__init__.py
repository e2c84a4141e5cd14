"""What proves a filter and its parts right: for this library's own tests and for yours."""

from mdpf.testing.assertions import assert_decays, assert_gradient, assert_mean, critical_value, gradients
from mdpf.testing.devices import check_device
from mdpf.testing.filters import check_belief, check_filter
from mdpf.testing.kernels import check_kernel
from mdpf.testing.models import check_bandwidth, check_dynamics, check_measurement
from mdpf.testing.resamplers import check_resampler
from mdpf.testing.selection import check_selection
from mdpf.testing.tasks import check_task

__all__ = [
    "assert_decays",
    "assert_gradient",
    "assert_mean",
    "check_bandwidth",
    "check_belief",
    "check_device",
    "check_dynamics",
    "check_filter",
    "check_kernel",
    "check_measurement",
    "check_resampler",
    "check_selection",
    "check_task",
    "critical_value",
    "gradients",
]
