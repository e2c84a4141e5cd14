"""What proves a filter, a resampler or a kernel right: for this library's own tests and for yours."""

from mdpf.testing.assertions import assert_decays, assert_gradient, assert_mean, critical_value, gradients

__all__ = ["assert_decays", "assert_gradient", "assert_mean", "critical_value", "gradients"]
