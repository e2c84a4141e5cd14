"""Tables say what the result files say, and nothing where there is no file."""

import json
import math
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from mdpf.evaluation.gradient_variance import ESTIMATORS
from mdpf.evaluation.results import Provenance, Result, save
from mdpf.recipes import toy as toy_recipe
from mdpf.recipes.methods import METHODS
from mdpf.report import house_tables, tables, toy_numbers, toy_tables, variance_tables
from mdpf.report.markdown import markdown, short
from mdpf.tasks import bimodal

ROOT = Path(__file__).parents[2]
MADE = Provenance("mdpf reproduce it", "abc", {}, "cpu, 1 threads", 120.0)


def write(folder, method, metrics, *, setting="default", config=None, histories=None, **more):
    histories = histories or [{}] * len(metrics)
    runs = [
        {"seed": seed, "metrics": numbers, "history": history, **more}
        for seed, (numbers, history) in enumerate(zip(metrics, histories, strict=True))
    ]
    save(Result(folder.name, method, runs, config or {}, MADE, setting), folder)


def cells(table, first):
    (row,) = [line for line in table.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in row.strip("|").split("|")][1:]


@pytest.mark.parametrize("name", tables.TABLES)
def test_table_without_files_names_the_command_and_no_number(name, tmp_path):
    text = tables.TABLES[name](tmp_path)
    assert text.startswith("*Not computed yet: ")
    assert re.search(r"`(mdpf |python -m mdpf\.)[^`]+` computes it\.\*$", text)


def test_names_are_those_of_the_rooms_that_write_the_files():
    assert set(tables.BEARINGS) == set(house_tables.ORDER) == set(METHODS)
    assert set(variance_tables.ESTIMATORS) == set(ESTIMATORS)
    assert set(toy_tables.TOY) == set(toy_recipe.METHODS)
    assert set(toy_numbers.PARAMETERS) == set(bimodal.BimodalModel().named_values())


# --- Bearings -------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def bearings(tmp_path):
    numbers = {"position_rmse": 1.0, "lost": 0.25, "ess": 3.0}
    write(tmp_path / "bearings", "TG-PF", [{"nll": 9.0, **numbers}])
    write(tmp_path / "bearings", "MDPF", [{"nll": nll, **numbers} for nll in (6.5, 5.5, 6.0)])
    write(tmp_path / "bearings", "MDPF", [{"nll": math.inf, **numbers}], setting="epanechnikov")
    return tmp_path


def test_bearings_shows_median_and_range_best_first(bearings):
    table = tables.bearings(bearings)
    assert cells(table, "MDPF") == ["3", "6.00 (5.50 to 6.50)", "1.00 (1.00 to 1.00)", "25% (25% to 25%)"]
    assert cells(table, "TG-PF") == ["1", "9.00", "1.00", "25%"]
    assert cells(table, "MDPF (epanechnikov)")[1] == "inf"
    assert table.index("| MDPF |") < table.index("| TG-PF |") < table.index("| MDPF (epanechnikov) |")
    assert "`mdpf reproduce it` at revision abc in 6 minutes" in table


def test_bearings_leaves_the_note_of_calls_alone(bearings):
    before = tables.bearings(bearings)
    (bearings / "bearings" / "calls.json").write_text("[]")
    assert tables.bearings(bearings) == before


def test_bearings_names_the_methods_that_are_missing(bearings):
    assert "*Not computed yet: LSTM, OT-PF" in tables.bearings(bearings)
    assert "Not computed" not in tables.bearings(bearings, "MDPF")
    assert "TG-PF" not in tables.bearings(bearings, "MDPF")


def test_headline_shows_default_settings_beside_the_authors_numbers(tmp_path):
    for method, setting, nll in (
        ("MDPF", "default", 6.0),
        ("MDPF", "mse", 1.0),
        ("TG-PF", "default", 5.0),
        ("Oracle", "default", 3.0),
    ):
        numbers = {"nll_paper": nll, "rmse_paper": 3.5, "lost": 0.2}
        write(tmp_path / "bearings", method, [numbers, numbers | {"nll_paper": nll + 2}], setting=setting)
    table = tables.headline(tmp_path)
    assert cells(table, "MDPF") == ["2", "7.00 (6.00 to 8.00)", "6.18", "3.50 (3.50 to 3.50)", "3.29", "20% (20% to 20%)"]
    assert cells(table, "Oracle")[1:3] == ["4.00 (3.00 to 5.00)", ""]
    assert table.index("| Oracle |") < table.index("| TG-PF |") < table.index("| MDPF |")
    assert "1.00" not in table
    assert "*Not computed yet: LSTM, OT-PF, SR-PF" in table


def test_outcome_has_a_column_for_every_study_and_a_row_for_every_method_there_is(tmp_path):
    for nll in (6.0, 7.0, 8.0):
        write(tmp_path / "maze", "MDPF", [{"nll_paper": nll}], setting=f"maze-{nll - 5:.0f}")
    write(tmp_path / "maze", "TG-PF", [{"nll_paper": 9.0}], setting="maze-1")
    assert cells(tables.TABLES["outcome"](tmp_path), "`ImportanceWeighted`") == ["MDPF", "7.00"]
    numbers = {"nll_paper": 6.0, "rmse_paper": 3.5, "lost": 0.25}
    write(tmp_path / "bearings", "TG-PF", [numbers, numbers | {"lost": 0.35}])
    table = tables.TABLES["outcome"](tmp_path)
    assert "| rule | method | bearings, NLL | RMSE | lost | mazes, NLL |" in table
    assert cells(table, "`Discrete`") == ["TG-PF", "6.00", "3.50", "30%", ""]
    assert "*Not computed yet: A-MDPF, TG-MDPF, IRG-MDPF, DIS-PF" in table


def test_numbers_of_particles_have_columns_in_their_order(tmp_path):
    for count, nll in ((1000, 5.0), (50, 6.0)):
        write(tmp_path / "bearings", "MDPF", [{"nll": 1.0, "nll_paper": nll}], setting=f"n-{count}")
    write(tmp_path / "bearings", "TG-PF", [{"nll": 1.0, "nll_paper": 4.0}], setting="n-50")
    table = tables.particles(tmp_path)
    assert "| method | N = 50 | N = 1,000 |" in table
    assert cells(table, "MDPF") == ["6.00", "5.00"]
    assert cells(table, "TG-PF") == ["4.00", ""]
    assert tables.bearings(tmp_path).startswith("*Not computed yet")


def test_house_shows_means_and_spread_in_metres_beside_the_authors_numbers(tmp_path):
    units = {"units": {"added_to_nll": -7.824}}
    run = {"nll_paper": 0.5, "rmse_paper": 0.6, "lost": 0.03, "angle_rmse": 0.21}
    quartiles = {"nll_paper": [-1.0, 0.0, 1.5], "rmse_paper": [0.2, 0.3, 0.5]}
    for method, setting, nll in (("A-MDPF", "default", 0.5), ("A-MDPF", "mse", 0.4), ("C-PF", "default", 5.0)):
        write(tmp_path / "house", method, [run | {"nll_paper": nll}], setting=setting, config=units, quartiles=quartiles)
    table = tables.TABLES["house"](tmp_path)
    expected = ["0.50 ± 2.50", "0.60 ± 0.30", "0.30", "3%", "0.21", "0.27 ± 3.49", "0.61 ± 0.25"]
    assert cells(table, "A-MDPF") == expected
    assert cells(table, "A-MDPF (mse)")[-2:] == cells(table, "C-PF")[-2:] == ["", ""]
    assert table.index("(mse)") < table.index("| A-MDPF |") < table.index("| C-PF |")
    assert "*Not computed yet: LSTM, TG-PF" in table


def test_starts_anywhere_are_listed_by_number_and_kept_out_of_the_main_table(tmp_path):
    for count, success in ((3000, 0.75), (1000, 0.5)):
        walks = [{"success": True, "difference": 0.1}, {"success": False, "difference": 0.3}]
        metrics = [{"success": success, "share": 0.4}]
        write(tmp_path / "house", "MDPF", metrics, setting=f"wide-start-anywhere-{count}", walks=walks)
    table = tables.TABLES["house-anywhere"](tmp_path)
    assert "| MDPF (wide) | 1,000 | 50% | 40% | 1 | 0.30 |" in table
    assert table.index("1,000") < table.index("3,000")
    assert tables.TABLES["house"](tmp_path).startswith("*Not computed yet")


# --- The noise of gradients -----------------------------------------------------------------------------------------------------


@pytest.fixture
def variance(tmp_path):
    noise = {"ImportanceWeighted": 0.5, "ComponentPathwise": 0.51, "ImplicitlyReparameterized": 0.1, "StopGradient": 0.01}
    metrics = {"growth/Biweight/1000": 4.9, "growth/Biweight/10000": 5.0}
    for name, value in noise.items():
        biased = name == "ImplicitlyReparameterized"
        row = {"bias_z": 9.0 if biased else 1.0, "relative_bias": 0.9 if biased else 0.01}
        row |= {"relative_std": value, "relative_peak": 10 * value}
        for key in ("weights", "locs", "bandwidth"):
            if (name, key) != ("StopGradient", "bandwidth"):
                metrics |= {f"far/{name}/{key}/{quantity}": number for quantity, number in row.items()}
    write(tmp_path / "variance", "estimators", [metrics], config={"replicates": 7})
    return tmp_path


def test_variance_tells_biases_and_marks_the_lowest_noise_without_one(variance):
    assert cells(tables.variance(variance), "far, weights") == ["**0.50**", "**0.51**", "0.10 (bias 0.90)", "0.010"]
    assert cells(tables.variance(variance), "far, bandwidth")[-1] == ""
    assert cells(tables.peaks(variance), "far, locs")[0] == "**5.0**"
    assert "7 gradients for each entry" in tables.variance(variance)


def test_variance_of_one_estimator_marks_nothing(variance):
    assert cells(tables.variance(variance, "ImportanceWeighted"), "far, weights") == ["0.50"]


def test_growth_has_a_column_for_each_number_of_draws(variance):
    table = tables.growth(variance)
    assert "1,000 draws | 10,000 draws" in table
    assert cells(table, "`Biweight`") == ["4.9", "5.0"]


# --- The synthetic problem ------------------------------------------------------------------------------------------------------


@pytest.fixture
def toy(tmp_path):
    config = {"truth": asdict(bimodal.TRUTH), "start": asdict(bimodal.START), "record_every": 20}
    truth, start = (toy_numbers.named(config[which]) for which in ("truth", "start"))
    for method, offset, noise in (("exact", 0.0, 1.0), ("IWSG", 0.1, 1.5), ("TG", 1.0, 0.5), ("IRG", 5.0, 100.0)):
        histories = []
        for seed in (-0.1, 0.1):
            history = {name: [start[name]] * 10 + [truth[name] + seed / 10] * 20 for name in truth}
            history["c1"] = [start["c1"]] * 20 + [truth["c1"] + offset + seed] * 10
            history |= {f"d{name}": [noise, -noise] * 15 for name in ("A", "B", "C1", "C2", "c1", "c2", "v")}
            histories.append(history)
        skipped = [{"skipped": 3.0}, {"skipped": 4.0}]
        write(tmp_path / "toy", method, skipped, config=config, histories=histories)
    return tmp_path


def test_toy_shows_where_parameters_end(toy):
    spread = f"{math.sqrt(0.02):.2g}"
    expected = ["2.5", "1.5", f"2.5 ± {spread}", f"2.6 ± {spread}", f"3.5 ± {spread}", f"7.5 ± {spread}"]
    assert cells(tables.toy(toy), "`c1`") == expected
    assert cells(tables.toy(toy), "`w1`")[0] == "0.599"


def test_toy_distances_are_in_spreads(toy):
    # One apart, with a standard deviation of sqrt(0.02) on both sides.
    far, from_truth, noise, _, left_out = cells(tables.toy_noise(toy), "TG-PF")
    assert far == "`c1`, 5.0 spreads"
    assert from_truth == "`c1`, 7.1 spreads"
    assert noise == "0.50 to 0.50"
    assert left_out == "7"


def test_toy_counts_updates_to_half_way(toy):
    assert cells(tables.toy_noise(toy), "mixture Kalman filter")[-2] == "200 (`A`) to 400 (`c1`)"
    assert cells(tables.toy_noise(toy), "IRG-PF")[-2] == "200 (`A`) to never (`c1`)"


def test_toy_judges_the_claims_by_what_was_measured(toy):
    verdicts = {
        line.split("|")[1].strip(): line.split("|")[3].strip() for line in tables.TABLES["toy-claims"](toy).splitlines()[2:7]
    }
    assert verdicts == {
        "IWSG ends where the mixture Kalman filter ends": "yes",
        "TG finds neither `c1` nor `c2`": "in part",
        "IRG finds no parameter": "in part",
        "gradients of IRG are unstable": "yes",
        "IWSG is faster than TG": "no",
    }
    assert "67 times as noisy" in tables.TABLES["toy-claims"](toy)


def test_toy_calls_scattered_what_ends_anywhere(toy):
    """A spread of its own must not make a method agree with everybody."""
    path = toy / "toy" / "IRG.json"
    content = json.loads(path.read_text())
    for run, end in zip(content["runs"], (-1e6, 1e6), strict=True):
        for name in toy_numbers.PARAMETERS:
            run["history"][name] = [0.5] * 20 + [end] * 10
        for name in toy_numbers.GRADIENTS:
            run["history"][name] = [1.0] * 20 + ["NaN"] * 9 + [1.0]
    path.write_text(json.dumps(content))
    assert cells(tables.toy(toy), "`c1`")[-1] == "-1e+06 to 1e+06"
    assert cells(tables.toy_noise(toy), "IRG-PF")[:3] == ["all scattered", "all scattered", "mostly not finite"]
    assert cells(tables.toy_noise(toy), "TG-PF")[0] == "`c1`, 5.0 spreads"
    text = tables.TABLES["toy-claims"](toy)
    assert cells(text, "IRG finds no parameter") == ["8 of 8 end elsewhere", "yes"]
    assert cells(text, "gradients of IRG are unstable") == ["most of them are not finite", "yes"]


# --- Filling pages --------------------------------------------------------------------------------------------------------------


def test_fill_replaces_what_stands_between_the_comments_and_nothing_else(bearings):
    page = "# A page\n\n<!-- table: bearings MDPF -->\nold\n<!-- end -->\n\nText.\n"
    filled = tables.fill(page, bearings)
    assert filled == f"# A page\n\n<!-- table: bearings MDPF -->\n\n{tables.bearings(bearings, 'MDPF')}\n\n<!-- end -->\n\nText.\n"
    assert tables.fill(filled, bearings) == filled


def test_unknown_table_is_named():
    with pytest.raises(ValueError, match="got 'nowhere'. Correct the comment in the page."):
        tables.fill("<!-- table: nowhere -->\n<!-- end -->", Path("results"))


def test_command_writes_the_page(bearings, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- table: bearings TG-PF -->\n<!-- end -->\n", encoding="utf-8")
    tables.main([str(page), "--results", str(bearings)])
    assert "| TG-PF | 1 | 9.00 |" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["README.md"])
def test_committed_page_is_what_the_command_writes(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert tables.fill(text, ROOT / "results") == text, (
        f"The numbers in {page} are not those of the result files; run `make tables`."
    )


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_tables_of_the_documentation_are_filled_when_it_is_built(page):
    text = page.read_text(encoding="utf-8")
    for place in tables.PLACE.finditer(text):
        assert place["name"] in tables.TABLES
        assert place[0].split("-->\n", 1)[1] == place[4], "numbers do not belong into the page; leave the comments empty"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0312, "0.031"), (0.5, "0.50"), (9.96, "10"), (168.2, "170"), (16600.0, "17,000"), (0.0, "0.0"), (math.inf, "∞")],
)
def test_short_numbers_have_two_digits(value, text):
    assert short(value) == text


def test_markdown_aligns_numbers():
    assert markdown(["a", "b"], [["x", "1"]]) == "| a | b |\n| --- | ---: |\n| x | 1 |"


def test_result_files_hold_no_bare_infinity(bearings):
    content = (bearings / "bearings" / "MDPF@epanechnikov.json").read_text()
    assert json.loads(content)["runs"][0]["metrics"]["nll"] == "Infinity"


def test_figure_is_shown_where_it_is_drawn(tmp_path):
    page = "<!-- figure: bearings/boxes.png All methods, compared -->\nold\n<!-- end -->\n"
    assert "*Not drawn yet: All methods, compared.*" in tables.fill(page, tmp_path)
    (tmp_path / "bearings").mkdir()
    (tmp_path / "bearings" / "boxes.png").write_bytes(b"")
    shown = tables.fill(page, tmp_path, "../results")
    assert "\n![All methods, compared](../results/bearings/boxes.png)\n" in shown
    assert "old" not in shown
    assert tables.fill(shown, tmp_path, "../results") == shown


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_figures_of_the_documentation_are_shown_when_it_is_built(page):
    for place in tables.FIGURE.finditer(page.read_text(encoding="utf-8")):
        assert place[0].split("-->\n", 1)[1] == place[4], "leave the comments empty"
