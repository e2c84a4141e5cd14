"""The table of estimators: what it measures is right, and it shows what it is there to show."""

import math

import pytest
import torch

from mdpf.evaluation import gradient_variance as table
from mdpf.kernels import Biweight, Epanechnikov, Gaussian
from mdpf.testing import critical_value

pytestmark = pytest.mark.statistical


@pytest.fixture(scope="module")
def result():
    return table.variance_table(num_replicates=100, growth_sizes=(1000, 10_000), seed=3)


@pytest.fixture(scope="module")
def metrics(result):
    return result["runs"][0]["metrics"]


def test_result_has_the_format_of_results(result):
    assert {"experiment", "method", "setting", "runs", "config"} == result.keys()
    assert result["runs"][0]["seed"] == 3
    assert all(isinstance(value, float) and math.isfinite(value) for value in result["runs"][0]["metrics"].values())


def test_every_case_and_estimator_has_its_rows(metrics):
    rows = {name.rsplit("/", 1)[0] for name in metrics if name.endswith("relative_std")}
    cases = table.make_cases()
    assert len(rows) == len(cases) * (3 * 3 + 2)
    assert not any(row.endswith("StopGradient/bandwidth") for row in rows)


@pytest.mark.parametrize("estimator", ["ImportanceWeighted", "ComponentPathwise", "StopGradient"])
@pytest.mark.parametrize("case", ["1d-overlapping", "1d-separated", "3d-overlapping", "3d-separated"])
def test_unbiased_estimators_show_no_bias(metrics, estimator, case):
    scores = [value for name, value in metrics.items() if name.startswith(f"{case}/{estimator}/") and name.endswith("bias_z")]
    assert scores
    assert max(scores) < critical_value(25 * 3 * len(scores), 100)


def test_implicit_weights_are_far_noisier_than_importance_weights_between_modes():
    case = table.make_cases()["1d-separated"]
    exact = table.exact_gradient(case)["weights"]
    spread = {}
    for name in ("ImportanceWeighted", "ImplicitlyReparameterized"):
        generator = torch.Generator().manual_seed(0)
        sampled = table.sampled_gradients(case, table.ESTIMATORS[name], 2000, generator)["weights"]
        spread[name] = table.compare(sampled, exact)["relative_std"]
    assert spread["ImplicitlyReparameterized"] > 10 * spread["ImportanceWeighted"]


def test_compare_has_the_closed_form():
    sampled = torch.tensor([[1.0, 0.0], [3.0, 0.0], [2.0, 0.0]])
    found = table.compare(sampled, torch.tensor([4.0, 0.0]))
    assert found["relative_bias"] == pytest.approx(0.5)
    assert found["relative_std"] == pytest.approx(0.25)
    assert found["relative_peak"] == pytest.approx(0.75)
    assert found["bias_z"] == pytest.approx(2 * math.sqrt(3))


def test_variance_of_a_gradient_is_that_of_the_integral():
    # For a Gaussian: E[(x * x)^2] - 1 = 2.
    (gaussian,) = table.variance_growth(Gaussian, (100_000,), num_groups=1).values()
    assert gaussian == pytest.approx(2, rel=0.05)


def test_variance_of_epanechnikov_grows_by_the_theory_and_that_of_biweight_settles():
    r"""Per decade of draws Epanechnikov's grows by 1.5 ln 10; the integral of biweight is 15 int x^4 - 1 = 5."""
    sizes = (300, 30_000)
    epanechnikov, biweight = (list(table.variance_growth(kernel, sizes).values()) for kernel in (Epanechnikov, Biweight))
    assert epanechnikov[1] - epanechnikov[0] == pytest.approx(2 * 1.5 * math.log(10), rel=0.4)
    assert biweight[1] == pytest.approx(5, rel=0.1)
