"""The tables beside the main one of the bearings study say what the files say."""

from dataclasses import replace

from mdpf.evaluation.results import Provenance, Result, save, write_json
from mdpf.report import bearings_tables
from mdpf.report.markdown import origin

MADE = Provenance("mdpf reproduce it", "abc", {}, "cpu, 1 threads", 120.0)


def write(folder, method, *values, setting="default", outside=0.25, nll=None):
    runs = [
        {"seed": seed, "metrics": {"nll": value if nll is None else nll, "nll_paper": value, "rmse_paper": 3.0, "lost": 0.125}}
        for seed, value in enumerate(values)
    ]
    for run in runs:
        run["metrics"]["outside"] = outside
    save(Result(folder.name, method, runs, {}, MADE, setting), folder)


def cells(table, first):
    (row,) = [line for line in table.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in row.strip("|").split("|")][1:]


def test_kernels_stand_side_by_side_and_beside_the_authors(tmp_path):
    folder = tmp_path / "bearings"
    write(folder, "MDPF", 6.0, 5.0, 7.0)
    write(folder, "MDPF", 8.0, 7.0, 9.0, setting="epanechnikov")
    write(folder, "MDPF", 7.5, setting="biweight", outside=0.125)
    write(folder, "MDPF", 1.0, setting="mse")
    write(folder, "TG-PF", 6.5, setting="epanechnikov", nll=float("inf"))
    table = bearings_tables.kernels(tmp_path)
    assert cells(table, "MDPF") == ["6.00 (5.00 to 7.00)", "8.00 (7.00 to 9.00)", "7.05", "7.50", "25.0%", "12.5%"]
    assert cells(table, "TG-PF") == ["", "6.50", "6.57", "", "25.0%", ""]
    assert table.index("| TG-PF |") < table.index("| MDPF |")
    assert "in 6 minutes" in table


def test_ablations_come_best_first_with_the_plain_filter_for_comparison(tmp_path):
    write(tmp_path / "bearings", "MDPF", 6.0)
    write(tmp_path / "bearings-beyond", "MDPF+", 5.0, 4.0)
    write(tmp_path / "bearings-beyond", "MDPF+", 4.2, setting="narrow")
    write(tmp_path / "bearings-beyond", "MDPF+", 1.0, setting="narrow-mse")
    write(tmp_path / "bearings-beyond", "MDPF+", 1.0, setting="mse")
    table = bearings_tables.beyond(tmp_path)
    assert cells(table, "MDPF+") == ["2", "4.50 (4.00 to 5.00)", "3.00 (3.00 to 3.00)", "4.50 (4.00 to 5.00)", "12%"]
    assert cells(table, "MDPF+, narrow")[1] == "4.20"
    assert table.index("| MDPF+, narrow |") < table.index("| MDPF+ |") < table.index("| MDPF |")
    assert "mse" not in table


def test_time_is_that_of_all_calls(tmp_path):
    call = {"seconds": 90.0, "device": "cpu, 1 threads"}
    write_json(tmp_path / "bearings" / "calls.json", [call | {"parts": {"a": 10.0}}, call | {"parts": {"b": 1200.0}}])
    table = bearings_tables.time_of_parts(tmp_path)
    assert cells(table, "b") == ["1,200"]
    assert table.index("| b |") < table.index("| a |")
    assert "2 calls, 3 minutes together" in table


def test_without_files_the_command_is_named(tmp_path):
    assert "`mdpf reproduce bearings-epanechnikov` computes it" in bearings_tables.kernels(tmp_path)
    assert "`mdpf reproduce bearings-beyond` computes it" in bearings_tables.beyond(tmp_path)
    assert "`mdpf reproduce bearings` computes it" in bearings_tables.time_of_parts(tmp_path)


def test_origin_names_a_command_once_however_far_each_call_went():
    made = Provenance("mdpf reproduce bearings --methods MDPF --device cuda --minutes 9 --pack a.tar", "abc", {}, "gpu", 60.0)
    other = replace(made, command="mdpf reproduce bearings --device cuda --jobs 4 --methods TG-PF,LSTM --unpack a.tar")
    found = [Result("bearings", name, [], {}, provenance) for name, provenance in (("MDPF", made), ("TG-PF", other))]
    assert origin(found) == "*Made by `mdpf reproduce bearings --device cuda` at revision abc in 2 minutes (gpu).*"
