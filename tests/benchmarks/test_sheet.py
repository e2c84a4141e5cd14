"""Measurements: what clocks and gauges say of known work, and files that a later call goes on from."""

import math

import pytest
import torch

from mdpf.benchmarks import bounds, density, measure, suite, table
from mdpf.benchmarks.sheet import Case, Sheet, time_rows
from mdpf.evaluation.measurements import Row, load
from mdpf.evaluation.results import read_json, write_json

CPU = torch.device("cpu")


def row(value, name="speed"):
    return Row(name, "cpu", {"particles": 25}, value, "ms", [value, value])


@pytest.fixture
def parts(monkeypatch):
    """A suite of one part with two cases; each measurement counts itself."""
    calls = []

    def cases(device):
        for title in ("first", "second"):
            yield Case(title, lambda title=title: calls.append(title) or [row(float(len(calls)))])

    monkeypatch.setattr(suite, "PARTS", {"part": cases})
    monkeypatch.setenv("MDPF_REVISION", "one")
    return calls


def test_cases_are_measured_once_and_again_after_a_change_or_on_demand(parts, tmp_path, monkeypatch):
    (path,) = suite.run(["part"], tmp_path, CPU)
    assert path.name == "part@cpu.json"
    suite.run(["part"], tmp_path, CPU)
    assert parts == ["first", "second"]
    suite.run(["part"], tmp_path, CPU, again=True)
    assert parts == 2 * ["first", "second"]
    monkeypatch.setenv("MDPF_REVISION", "two")
    suite.run(["part"], tmp_path, CPU)
    assert parts == 3 * ["first", "second"]
    rows, origin = load(path)
    assert [each.value for each in rows] == [5.0, 6.0]
    assert origin.revision == "two"


def test_a_later_call_takes_up_what_the_budget_left_out(parts, tmp_path):
    told = []
    suite.run(["part"], tmp_path, CPU, budget=-1.0, watch=lambda *entry: told.append(entry))
    assert parts == []
    assert told[0][1] == "first and what follows: no time left"
    monkey = Sheet("part", tmp_path, CPU)
    monkey.measure(Case("first", lambda: [row(7.0)]))
    suite.run(["part"], tmp_path, CPU)
    assert parts == ["second"]
    rows, _ = load(monkey.path)
    assert [each.value for each in rows] == [7.0, 1.0]


def test_changed_files_are_not_trusted(parts, tmp_path, monkeypatch):
    monkeypatch.setenv("MDPF_REVISION", "one+changes")
    for _ in range(2):
        suite.run(["part"], tmp_path, CPU)
    assert parts == 2 * ["first", "second"]


def test_what_cannot_be_measured_says_why_and_stops_nothing(tmp_path):
    def fail():
        raise torch.OutOfMemoryError("too much\nof it")

    sheet = Sheet("part", tmp_path, CPU)
    sheet.measure(Case("large", fail))
    sheet.measure(Case("small", lambda: [row(1.0)]))
    (missing, found), _ = load(sheet.path)
    assert math.isnan(missing.value)
    assert missing.note == "OutOfMemoryError: too much"
    assert found.value == 1.0
    assert "OutOfMemoryError: too much" in table.of(sheet.path)


def test_a_file_of_something_else_is_refused(tmp_path):
    write_json(tmp_path / "other.json", {"runs": []})
    with pytest.raises(ValueError, match="needs a file that `mdpf bench` wrote"):
        load(tmp_path / "other.json")


def test_rows_are_medians_and_the_least_of_the_processor_with_quartiles(tmp_path):
    sample = measure.Sample([0.004, 0.001, 0.002, 0.003], [0.002, 0.003, 0.004, 0.003])
    wall, processor = time_rows("speed", CPU, {}, sample)
    assert (wall.value, wall.unit) == (pytest.approx(2.5), "ms")
    assert wall.spread == pytest.approx([1.75, 3.25])
    assert (processor.value, processor.unit) == (pytest.approx(2.0), "ms of processor")
    sheet = Sheet("part", tmp_path, CPU)
    sheet.measure(Case("one", lambda: [wall]))
    assert read_json(sheet.path)["rows"][0]["unit"] == "ms"


def test_percentile_is_the_smallest_value_that_the_share_does_not_exceed():
    values = [float(value) for value in range(1, 101)]
    assert measure.percentile(values, 0.99) == 99.0
    assert measure.percentile(values[:1], 0.99) == 1.0
    assert measure.percentile(values[:10], 0.5) == 5.0


def test_repetitions_respect_their_limits():
    calls = []
    sample = measure.repeat(lambda: calls.append(1), CPU, most=5, seconds=10.0, warm_ups=2)
    assert (len(calls), len(sample.wall), len(sample.processor)) == (7, 5, 5)
    assert len(measure.repeat(lambda: None, CPU, seconds=-1.0, least=3).wall) == 3


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_peak_memory_is_what_is_held_at_once():
    def hold():
        for _ in range(3):
            one = torch.zeros(1_000_000)
            two = torch.zeros(500_000)
            del one, two

    assert measure.peak_memory(hold, CPU) == pytest.approx(6e6, rel=0.01)


def test_work_is_what_computes_and_not_what_looks():
    values, out = torch.ones(4, 3), torch.empty(3, 4)

    def compute():
        torch.mul(values.t(), 2, out=out)[0].exp_()
        return out.unsqueeze(0).softmax(-1)  # Which calls another operator in turn; the two count once.

    assert bounds.work(compute, CPU).count == 3


@pytest.mark.parametrize("kernel", density.LINEAR)
@pytest.mark.parametrize("cloud", ["near", "far"])
def test_density_is_compared_with_itself_in_double_precision(kernel, cloud, monkeypatch):
    monkeypatch.setattr(density, "QUERIES_AT_A_TIME", 7)
    origin, radius = density.CLOUDS[cloud]
    problem = density.Problem.make(2, 20, kernel, CPU, origin=origin, radius=radius)
    found, exact = problem.step(), problem.exact()
    covered = exact[0].isfinite()
    assert torch.equal(found[0].isfinite(), covered)
    assert density.relative_error(found[0][covered], exact[0][covered]) < 1e-3
    if bool(covered.all()):
        assert density.relative_error(found[1], exact[1]) < 1e-2
