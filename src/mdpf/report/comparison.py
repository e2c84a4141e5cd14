"""A method beside its baselines: how good it is, how sure of itself, and what to make of it."""

from collections.abc import Sequence
from statistics import median

from mdpf.evaluation.results import Result
from mdpf.report.markdown import short

COLUMNS = {
    "nll": "NLL",
    "rmse": "RMSE",
    "position_rmse": "position",
    "angle_rmse": "angle",
    "lost": "lost",
    "coverage_0.5": "in 50 %",
    "coverage_0.9": "in 90 %",
}
SHARES = ("lost", "coverage_0.5", "coverage_0.9")
WELL = 0.05  # A coverage this close to its nominal value, on average, is good.


def table(results: Sequence[Result]) -> str:
    """One line for each result: medians over runs, on sequences that nothing was learned from."""
    shown = [name for name in COLUMNS if any(_middle(result, name) not in (None, 0.0) for result in results)]
    rows = [["", *(COLUMNS[name] for name in shown)]]
    for result in results:
        title = result.method if result.setting == "default" else f"{result.method} ({result.setting})"
        rows.append([title, *(_cell(result, name) for name in shown)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows)


def verdict(result: Result, baselines: Sequence[Result]) -> str:
    """What the table says, in words."""
    own, names = _value(result, "nll"), [other.method for other in baselines]
    better = [other.method for other in baselines if _value(other, "nll") < own]
    if better:
        ranking = f"{' and '.join(better)} found the truth more likely: more data, more training or more particles may help."
    else:
        ranking = f"It found the truth more likely than {' and '.join(names)} did." if names else ""
    error, half = _value(result, "coverage_error"), _value(result, "coverage_0.9")
    if error <= WELL:
        sure = f"It is as sure of itself as it should be: its regions of 90 % held the truth in {half:.0%} of the frames."
    else:
        kind = "too sure of itself" if half < 0.9 else "not sure enough of itself"
        sure = f"It is {kind}: its regions of 90 % held the truth in {half:.0%} of the frames."
    return f"{result.method}: {ranking} {sure}"


def _value(result: Result, name: str) -> float:
    return median(result.metric(name))


def _middle(result: Result, name: str) -> float | None:
    return _value(result, name) if all(name in run["metrics"] for run in result.runs) else None


def _cell(result: Result, name: str) -> str:
    value = _middle(result, name)
    if value is None:
        return "-"
    return f"{value:.0%}" if name in SHARES else short(value) if abs(value) < 1 else f"{value:.2f}"
