"""The assertions accept what is right and reject what is wrong: both are tested."""

import math

import pytest
import torch
from scipy import stats

from mdpf.testing import assert_decays, assert_gradient, assert_mean, critical_value, gradients

pytestmark = pytest.mark.statistical


@pytest.fixture
def draws():
    return torch.randn(4000, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("num_replicates", [60, 100, 1000, 10**6])
@pytest.mark.parametrize("num_comparisons", [1, 40])
def test_critical_value_is_students_quantile(num_replicates, num_comparisons):
    exact = stats.t.isf(1e-6 / (2 * num_comparisons), num_replicates - 1)
    assert critical_value(num_comparisons, num_replicates) == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_assert_mean_accepts_the_truth(draws, dtype):
    assert_mean(draws.to(dtype) + 3, 3.0, max_se=0.02)
    assert_mean(draws.to(dtype) + torch.arange(5), torch.arange(5), max_se=0.02)


def test_assert_mean_never_flakes_over_many_seeds():
    generator = torch.Generator().manual_seed(1)
    for _ in range(200):
        assert_mean(torch.randn(30, 50, generator=generator), 0.0, max_se=1.0)


def test_assert_mean_rejects_one_shifted_entry(draws):
    shifted = draws + torch.tensor([0, 0, 0.15, 0, 0])
    with pytest.raises(AssertionError, match=r"at index \[2\], expected 0 \(z = "):
        assert_mean(shifted, 0.0, max_se=0.02)


def test_assert_mean_sigmas_replace_the_quantile(draws):
    with pytest.raises(AssertionError, match=r"z = .* > 1,"):
        assert_mean(draws + 0.05, 0.0, max_se=0.02, sigmas=1.0)


def test_assert_mean_rejects_without_power(draws):
    with pytest.raises(AssertionError, match=r"no power, standard error .* use more replicates"):
        assert_mean(draws, 0.0, max_se=0.01)


def test_assert_mean_without_power_says_how_far_off_the_mean_is_all_the_same(draws):
    with pytest.raises(AssertionError, match=r"no power, .* or mend the mean: got \d+\.\d+ at index \[\d\], expected 1 \(z = "):
        assert_mean(draws + 10, 1.0, max_se=0.01)
    with pytest.raises(AssertionError, match=r"a tamer quantity$"):
        assert_mean(draws, 0.0, max_se=0.01)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_assert_mean_rejects_what_is_not_finite(draws, value):
    draws[7, 1] = value
    with pytest.raises(AssertionError, match="no power"):
        assert_mean(draws, 0.0, max_se=0.02)


def test_assert_mean_rejects_a_nan_expectation(draws):
    with pytest.raises(AssertionError, match="expected nan"):
        assert_mean(draws, math.nan, max_se=0.02)


def test_assert_mean_of_constants_allows_rounding_only():
    constant = torch.full((100,), 0.1)
    assert_mean(constant, 0.1, max_se=1e-9)
    with pytest.raises(AssertionError, match="expected 0.10001"):
        assert_mean(constant, 0.10001, max_se=1e-9)


def test_assert_mean_refuses_few_replicates():
    with pytest.raises(ValueError, match=r"got 29. A standard error from fewer is a guess"):
        assert_mean(torch.zeros(29), 0.0, max_se=1.0)


SIZES = [64, 256, 1024, 4096]


def errors_falling_like(rate):
    noise = torch.randn(2000, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return torch.tensor(SIZES).pow(-rate) * noise.abs()


def test_assert_decays_accepts_the_rate():
    assert_decays(SIZES, errors_falling_like(0.5), 0.5, max_se=0.02)
    assert_decays(SIZES, errors_falling_like(0.5).square(), 1.0, max_se=0.02)


@pytest.mark.parametrize("wrong", [0.0, 0.35, 0.65])
def test_assert_decays_rejects_another_rate(wrong):
    with pytest.raises(AssertionError, match="slope of log error"):
        assert_decays(SIZES, errors_falling_like(wrong), 0.5, max_se=0.02)


def test_assert_decays_standard_error_holds_for_shared_noise():
    shared = torch.randn(2000, 1, generator=torch.Generator().manual_seed(3)).abs()
    assert_decays(SIZES, torch.tensor(SIZES).pow(-0.5) * shared, 0.5, max_se=1e-6)


def test_assert_decays_refuses_wrong_shapes():
    with pytest.raises(ValueError, match="one column per size"):
        assert_decays(SIZES, torch.ones(100, 3), 0.5, max_se=1.0)


def noisy_square(loc, scale):
    generator = torch.Generator().manual_seed(4)
    return (loc + scale * torch.randn(loc.shape, generator=generator, dtype=loc.dtype)).square()


INPUTS = {"loc": torch.tensor(1.5), "scale": torch.tensor(0.7)}


def test_assert_gradient_accepts_the_truth():
    expected = gradients(lambda loc, scale: loc**2 + scale**2, INPUTS)
    assert expected == {"loc": torch.tensor(3.0), "scale": torch.tensor(1.4)}
    assert_gradient(noisy_square, INPUTS, expected, num_replicates=4000, max_se=0.07)
    assert_gradient(noisy_square, INPUTS, expected, num_replicates=4000, max_se={"loc": 0.03, "scale": 0.07})


def test_assert_gradient_rejects_a_cut_gradient():
    def cut(loc, scale):
        return noisy_square(loc, scale.detach())

    with pytest.raises(AssertionError, match="gradient to scale: got 0"):
        assert_gradient(cut, INPUTS, {"scale": torch.tensor(1.4)}, num_replicates=4000, max_se=0.05)
    assert_gradient(cut, INPUTS, {"scale": torch.tensor(0.0)}, num_replicates=4000, max_se=0.05)


def test_gradients_are_zero_without_a_graph():
    assert gradients(lambda loc, scale: loc.detach(), INPUTS) == {"loc": torch.tensor(0.0), "scale": torch.tensor(0.0)}
