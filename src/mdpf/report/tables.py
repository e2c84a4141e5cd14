"""Tables in Markdown that are functions of result files alone.

A page says where a table goes by a pair of comments, and what stands between them is written by ``fill``::

    <!-- table: bearings -->
    <!-- end -->

A figure that a study draws is shown in the same way: ``<!-- figure: bearings/boxes.png what it shows -->``.

The README keeps what was written (``make tables``); the documentation is filled while it is built. Where a result file is missing
the table says so, with the command that makes it.
"""

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from mdpf.data.atomic import atomic
from mdpf.evaluation.results import Result, load
from mdpf.report import bearings_tables, maze_tables, speed_tables, speed_targets
from mdpf.report.house_tables import anywhere, house
from mdpf.report.markdown import markdown, missing, origin
from mdpf.report.outcome_tables import outcome
from mdpf.report.published import BEARINGS as BEARINGS_LOGGED
from mdpf.report.reliability_tables import own_logs, reliability
from mdpf.report.toy_tables import toy, toy_claims, toy_noise
from mdpf.report.variance_tables import growth, peaks, variance

BEARINGS = ("LSTM", "TG-PF", "OT-PF", "SR-PF", "DIS-PF", "C-PF", "TG-MDPF", "IRG-MDPF", "MDPF", "A-MDPF")
BEARINGS_COLUMNS = {
    "nll": "NLL",
    "position_rmse": "position RMSE",
    "angle_rmse": "angle RMSE",
    "lost": "lost",
    "nll_paper": "NLL (paper)",
    "rmse_paper": "RMSE (paper)",
}


def bearings(results: Path, *methods: str) -> str:
    """Methods against metrics, the best likelihood first: the median over runs, and the range where there are several."""
    wanted = methods or BEARINGS
    # Names of methods are upper case; what begins otherwise is a note of how the results were made.
    found = [load(path) for path in sorted((results / "bearings").glob("[A-Z]*.json"))]
    # Other numbers of particles have a table of their own.
    found = [result for result in found if result.method in wanted and not result.setting.startswith("n-")]
    absent = ", ".join(name for name in wanted if name not in {result.method for result in found})
    if not found:
        return missing(f"bearings-only tracking with {absent}", "mdpf reproduce bearings")
    found.sort(key=lambda result: median(result.metric("nll")))
    shown = [name for name in BEARINGS_COLUMNS if all(name in run["metrics"] for result in found for run in result.runs)]
    rows = [[_label(result), str(len(result.runs)), *[_range(result, name) for name in shown]] for result in found]
    text = markdown(["method", "runs", *[BEARINGS_COLUMNS[name] for name in shown]], rows)
    text += "\n\n" + origin(found)
    return text + ("\n\n" + missing(absent, "mdpf reproduce bearings") if absent else "")


def headline(results: Path) -> str:
    """The metrics of the paper for every method, ours beside what the authors logged, and the oracle."""
    found = [load(path) for path in sorted((results / "bearings").glob("[A-Z]*.json"))]
    found = [result for result in found if result.setting == "default"]
    absent = ", ".join(name for name in BEARINGS if name not in {result.method for result in found})
    if not found:
        return missing(f"bearings-only tracking with {absent}", "mdpf reproduce bearings")
    found.sort(key=lambda result: median(result.metric("nll_paper")))
    rows: list[list[str]] = []
    for result in found:
        cells = [result.method, str(len(result.runs))]
        for metric, logged in BEARINGS_LOGGED.items():
            theirs = logged.get(result.method)
            cells += [_range(result, metric), "" if theirs is None else f"{theirs.median:.2f}"]
        rows.append([*cells, _range(result, "lost")])
    header = ["method", "runs", "NLL", "NLL, authors", "RMSE", "RMSE, authors", "lost"]
    text = markdown(header, rows) + "\n\n" + origin(found)
    return text + ("\n\n" + missing(absent, "mdpf reproduce bearings") if absent else "")


def particles(results: Path) -> str:
    """The likelihood of every method's median run against the number of particles it is used with."""
    found = [load(path) for path in sorted((results / "bearings").glob("[A-Z]*@n-*.json"))]
    if not found:
        return missing("other numbers of particles", "mdpf reproduce bearings-particles")
    values = {(result.method, int(result.setting[2:])): result.metric("nll_paper")[0] for result in found}
    counts = sorted({count for _, count in values})
    methods = sorted({method for method, _ in values}, key=lambda method: values.get((method, counts[0]), 0.0))
    rows = [[name, *[f"{values[name, count]:.2f}" if (name, count) in values else "" for count in counts]] for name in methods]
    return markdown(["method", *[f"N = {count:,}" for count in counts]], rows) + "\n\n" + origin(found)


def _label(result: Result) -> str:
    return result.method if result.setting == "default" else f"{result.method} ({result.setting})"


def _range(result: Result, name: str) -> str:
    values = sorted(result.metric(name))
    digits = "{:.0%}" if name == "lost" else "{:.2f}"
    middle = digits.format(median(values))
    return middle if len(values) == 1 else f"{middle} ({digits.format(values[0])} to {digits.format(values[-1])})"


TABLES: dict[str, Callable[..., str]] = {
    "headline": headline,
    "particles": particles,
    "outcome": outcome,
    "bearings": bearings,
    "bearings-kernels": bearings_tables.kernels,
    "bearings-beyond": bearings_tables.beyond,
    "bearings-time": bearings_tables.time_of_parts,
    "variance": variance,
    "peaks": peaks,
    "growth": growth,
    "house": house,
    "house-anywhere": anywhere,
    "toy": toy,
    "toy-noise": toy_noise,
    "toy-claims": toy_claims,
    "maze": maze_tables.maze,
    "maze-blind": maze_tables.blind,
    "maze-claims": maze_tables.claims,
    "maze-anywhere": maze_tables.anywhere,
    "reliability": reliability,
    "own-logs": own_logs,
    "speed-targets": speed_targets.targets,
    "speed-density": speed_tables.density,
    "speed-training": speed_tables.training,
    "speed-methods": speed_tables.methods,
    "speed-latency": speed_tables.latency,
    "speed-resampling": speed_tables.resampling,
    "speed-growth": speed_tables.growth,
    "speed-cold-start": speed_tables.cold_start,
}
FIGURE = re.compile(r"(<!-- figure: (?P<path>[\w./@-]+) (?P<words>[^>]*?) -->\n).*?(<!-- end -->)", re.DOTALL)
PLACE = re.compile(r"(<!-- table: (?P<name>[\w-]+)(?P<rows>(?: [\w-]+)*) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill(text: str, results: Path, links: str = "results") -> str:
    r"""Write every table of a page where its comments stand, and show every figure that there is.

    Args:
        text: The page.
        results: The folder with the folders of results.
        links: How the page reaches that folder.

    Example:
        >>> print(fill("<!-- table: growth -->\n<!-- end -->", Path("nowhere")))
        <!-- table: growth -->
        <BLANKLINE>
        *Not computed yet: how the variance grows with the number of draws. `mdpf reproduce variance` computes it.*
        <BLANKLINE>
        <!-- end -->
    """

    def write(place: re.Match) -> str:
        if place["name"] not in TABLES:
            raise ValueError(
                f"fill needs one of the tables {list(TABLES)}, got {place['name']!r}. Correct the comment in the page."
            )
        return f"{place[1]}\n{TABLES[place['name']](results, *place['rows'].split())}\n\n{place[4]}"

    def show(place: re.Match) -> str:
        there = (results / place["path"]).is_file()
        shown = f"![{place['words']}]({links}/{place['path']})" if there else f"*Not drawn yet: {place['words']}.*"
        return f"{place[1]}\n{shown}\n\n{place[4]}"

    return FIGURE.sub(show, PLACE.sub(write, text))


def main(words: Sequence[str] | None = None) -> None:
    """Write the tables of pages in place."""
    parser = argparse.ArgumentParser(prog="python -m mdpf.report.tables", description="Write tables of results into pages.")
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--results", type=Path, default=Path("results"))
    chosen = parser.parse_args(words)
    for page in chosen.pages:
        text = page.read_text(encoding="utf-8")
        if (filled := fill(text, chosen.results)) != text:
            with atomic(page) as stream:
                stream.write(filled.encode())


if __name__ == "__main__":
    main()
