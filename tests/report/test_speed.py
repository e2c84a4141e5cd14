"""The tables and the figure of speed say what the files of measurements say, and nothing where there is none."""

import math
import re

import pytest
import torch

from mdpf.benchmarks import density, inference, resampling, suite, timing, training
from mdpf.evaluation.measurements import Row, load, path_of
from mdpf.evaluation.results import write_json
from mdpf.recipes.methods import METHODS
from mdpf.report import speed_tables, speed_targets, style
from mdpf.report import timing as figure
from mdpf.report.speed_numbers import figure as number

PROVENANCE = {
    "command": "mdpf bench",
    "revision": "abc",
    "versions": {"torch": "2.13"},
    "device": "NVIDIA H200",
    "seconds": 1.0,
    "parts": {},
}
CPU_TIME = "ms of processor"


def write(folder, part, device, *rows):
    """Rows as ``(name, params, value, unit)``."""
    made = [Row(name, device, params, value, unit, [], "did not fit")._asdict() for name, params, value, unit in rows]
    path = path_of(folder / "bench", part, device)
    write_json(path, {"rows": made, "done": [], "provenance": PROVENANCE})
    return path


def cells(table, first):
    (row,) = [line for line in table.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in row.strip("|").split("|")][1:]


def test_targets_are_met_or_missed_and_put_beside_their_bounds(tmp_path):
    step = {"runs": 1, "execution": "eager", "threads": 1}
    write(tmp_path, "training", "cpu", ("training step", step, 90.0, CPU_TIME))
    wide = {"particles": 500, "cloud": "wide"}
    write(tmp_path, "resampling", "cpu", ("resampling", wide, 64.0, CPU_TIME))
    write(
        tmp_path,
        "bounds",
        "cpu",
        ("training step, operators", {"runs": 1, "execution": "eager"}, 10_000.0, "operators"),
        ("smallest operator", {"execution": "eager"}, 1.5, "us"),
        ("exponentials", {}, 2.0, "G/s"),
    )
    table = speed_targets.targets(tmp_path, "cpu")
    assert cells(table, "training step, 1 run, eager") == ["60 ms", "90 ms", "**missed**", "15 ms, 10,000 operators", "6"]
    assert cells(table, "resampling step, N 500, wide cloud") == ["120 ms", "64 ms", "met", "16 ms, exponentials", "4"]
    assert cells(table, "resampling step, N 25, narrow cloud") == ["3 ms", "not measured", "", "", ""]


def test_targets_of_several_runs_count_for_each(tmp_path):
    write(tmp_path, "training", "cuda", ("training step", {"runs": 55, "execution": "captured"}, 16.5, "ms"))
    assert cells(speed_targets.targets(tmp_path, "cuda"), "training step, 55 runs, each")[:3] == ["0.2 ms", "0.3 ms", "**missed**"]


def test_pairs_on_a_known_chip_are_bounded_by_its_instructions(tmp_path):
    params = {"batch": 16, "particles": 10_000, "kernel": "gaussian"}
    write(tmp_path, "density", "cuda", ("density", params, 7.4, "ms"), ("density", params, 19.0, "MB"))
    table = speed_targets.targets(tmp_path, "cuda")
    least = 1e3 * 16e8 * speed_targets.INSTRUCTIONS / (132 * 128 * 1.98e9)
    bound = [f"{number(least)} ms, instructions", number(7.4 / least)]
    assert cells(table, "density, B 16, N 10,000") == ["5 ms", "7.4 ms", "**missed**", *bound]
    assert cells(table, "density, B 16, N 10,000, memory")[:3] == ["50 MB", "19 MB", "met"]


def test_every_target_is_a_row_that_is_measured():
    """Parameters, names and parts are those of the benchmarks; what is missing would never be met or missed."""
    parts = {target.part for targets in speed_targets.TARGETS.values() for target in targets}
    assert parts <= set(suite.PARTS)
    for target in speed_targets.TARGETS["cuda"]:
        if target.name == "density":
            assert (target.params["batch"], target.params["particles"], "gaussian") in [
                *density.SIZES["cuda"],
                density.LARGE["cuda"],
            ]
        if target.name == "density error":
            assert target.params["cloud"] in density.CLOUDS
        if target.name == "training step":
            assert target.params["runs"] in training.RUNS["cuda"]
    for target in speed_targets.TARGETS["cpu"]:
        if target.name == "resampling":
            assert target.params["particles"] in resampling.COUNTS
            assert target.params["cloud"] in resampling.RADII


def test_tables_show_the_rows_of_their_part(tmp_path):
    params = {"batch": 1, "particles": 1000, "kernel": "biweight"}
    write(tmp_path, "density", "cuda", ("density", params, 2.0, "ms"), ("density", params, math.nan, "MB"))
    assert cells(speed_tables.density(tmp_path, "cuda"), "B 1, N 1,000, biweight") == ["2", "0.5", "did not fit"]
    late = ("latency, 99th percentile", {"particles": 25, "execution": "eager"}, 3.0, "ms")
    write(tmp_path, "latency", "cuda", ("latency", {"particles": 25, "execution": "eager"}, 1.234, "ms"), late)
    assert cells(speed_tables.latency(tmp_path, "cuda"), "N 25, eager") == ["1.23", "3", ""]
    growth = [
        ("inference step", {"particles": n, "execution": "eager"}, n / 100, unit) for n in (1000, 2000) for unit in ("ms", "MB")
    ]
    write(tmp_path, "growth", "cuda", *growth)
    assert cells(speed_tables.growth(tmp_path, "cuda"), "inference step, N 2,000") == ["20", "20", "10", "10"]
    text = speed_tables.growth(tmp_path, "cuda")
    assert re.search(r"`mdpf bench` at revision abc, NVIDIA H200, torch 2\.13", text)


def test_numbers_have_three_digits():
    assert [number(value) for value in (12345.6, 123.4, 12.34, 1.234, 0.01234, 1e-5, 0.0, 60)] == [
        *("12,346", "123", "12.3", "1.23", "0.0123", "1e-05", "0e+00", "60"),
    ]


# --- The figure -------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def times(tmp_path):
    def make(device, executions):
        rows = [
            (step, {"method": method, "particles": count, "batch": timing.BATCH, "execution": execution}, value, unit)
            for method in METHODS
            for count in timing.COUNTS[device]
            for step in ("training step", "inference step")
            for execution, value in executions.items()
            for unit in (figure.TIMES[device], "MB")
        ]
        return write(tmp_path, "timing", device, *rows)

    return make


@pytest.mark.parametrize("devices", [("cpu",), ("cuda",), ("cpu", "cuda")])
def test_figure_has_a_row_for_each_device_that_was_measured(devices, times, tmp_path):
    for device in devices:
        times(device, {"eager": 2.0})
    drawing = figure.draw(tmp_path / "bench")
    assert len(drawing.axes) == 4 * len(devices)
    assert all(len(panel.lines) >= len(METHODS) for panel in drawing.axes)
    assert style.save(drawing, tmp_path / "timing.png").stat().st_size > 10_000


def test_figure_prefers_what_was_recorded_and_leaves_out_what_was_not_measured(times, tmp_path):
    path = times("cuda", {"eager": 2.0, "recorded": 1.0})
    measured = load(path)
    assert figure._curve(measured, "training step", "ms", "MDPF")[1] == [1.0] * 4
    times("cuda", {"eager": 2.0, "recorded": math.nan})
    assert figure._curve(load(path), "training step", "ms", "MDPF")[1] == [2.0] * 4


def test_figure_without_measurements_says_what_makes_them(tmp_path):
    with pytest.raises(FileNotFoundError, match="`mdpf reproduce timing` makes them"):
        figure.draw(tmp_path)


def test_measurements_that_the_figure_reads_are_those_of_the_benchmark():
    """The units and executions of one real, tiny measurement."""
    rows = timing.inference("TG-PF", 4, torch.device("cpu"))()
    assert {row.unit for row in rows} == {"ms", figure.TIMES["cpu"], "MB"}
    assert {(row.name, row.params["execution"]) for row in rows} == {("inference step", "eager")}
    assert inference.EXECUTIONS["cpu"] == ("compiled",)
