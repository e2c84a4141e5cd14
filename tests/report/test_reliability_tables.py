"""The table of campaigns says what their files say, and which ones have not been run."""

import pytest

from mdpf.evaluation.results import write_json
from mdpf.report.reliability_tables import reliability

SPENT = {"seconds": 120.0, "revision": "abc"}


@pytest.fixture
def folder(tmp_path):
    write_json(
        tmp_path / "reliability" / "soak-single.json",
        {
            "frames": 1000, "cars": 1, "missing": 100, "absurd": 90, "degenerate": 8, "worst_sum": 2e-7, "provenance": SPENT,
            "calls": [{"memory_warm": 0, "memory_last": 2**20}, {"memory_warm": 0, "memory_last": 2**19}],
        },
    )  # fmt: skip
    rows = [
        {"device": "cpu", "runs": 3, "identical": True, "metrics": {"nll": [1, 2, 3], "rmse": [1, 1, 2]}, "provenance": SPENT},
        {"device": "cuda", "runs": 3, "identical": False, "metrics": {"nll": [2, 2, 5], "rmse": [1, 2, 4]}, "provenance": SPENT},
    ]
    write_json(tmp_path / "reliability" / "agreement.json", {"rows": rows})
    return tmp_path


def test_campaigns_are_told(folder):
    text = reliability(folder)
    assert "1,000 steps (one tracker), 100 observations missing, 90 absurd" in text
    assert "memory grew by 1.0 MiB once warm | 2 | abc |" in text
    assert "| the same seed, cpu | 3 runs trained twice: the same bits in all that was learned | 2 | abc |" in text
    assert "3 runs trained twice: OTHER bits" in text


def test_devices_are_compared_run_by_run(folder):
    # Differences of the likelihood: 1, 0, 2, with mean 1 and error 1 / sqrt(3).
    assert "NLL 2.000 ± 1.000 and 3.000 ± 1.732 over runs, +1.7 standard errors apart" in reliability(folder)


def test_missing_campaigns_name_their_command(folder):
    text = reliability(folder)
    assert "`python -m mdpf.reliability.kills` computes it" in text
    assert "mdpf.reliability.agreement` computes it" not in text
