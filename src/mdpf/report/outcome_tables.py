"""What becomes of a filter with each rule of resampling: the numbers of every study there is, side by side."""

from pathlib import Path
from statistics import mean, median

from mdpf.evaluation import measurements
from mdpf.evaluation.results import load
from mdpf.report.markdown import markdown, missing
from mdpf.report.speed_numbers import figure

RULES = {
    "A-MDPF": "`ImportanceWeighted`, own mixture",
    "MDPF": "`ImportanceWeighted`",
    "TG-MDPF": "`Truncated`",
    "IRG-MDPF": "`ImplicitlyReparameterized`",
    "TG-PF": "`Discrete`",
    "DIS-PF": "`StopGradient`",
    "SR-PF": "`Soft`",
    "C-PF": "`Concrete`",
    "OT-PF": "`OptimalTransport`",
    "LSTM": "none: a recurrent network",
}
MAZES = ("maze-1", "maze-2", "maze-3")


def outcome(results: Path) -> str:
    """Rules against what their filters reach; a column for every study that has been computed."""
    columns = {
        "bearings, NLL": lambda name: _median(results / "bearings" / f"{name}.json", "nll_paper"),
        "RMSE": lambda name: _median(results / "bearings" / f"{name}.json", "rmse_paper"),
        "lost": lambda name: _median(results / "bearings" / f"{name}.json", "lost", percent=True),
        "mazes, NLL": lambda name: _mazes(results / "maze", name),
        "homes, NLL": lambda name: _median(results / "house" / f"{name}.json", "nll_paper"),
        "training step, ms": lambda name: _time(results / "bench", name),
    }
    rows = {name: [column(name) for column in columns.values()] for name in RULES}
    shown = [place for place in range(len(columns)) if any(row[place] for row in rows.values())]
    if not shown:
        return missing("what becomes of filters with each rule", "mdpf reproduce bearings")
    header = ["rule", "method", *[list(columns)[place] for place in shown]]
    table = markdown(header, [[RULES[name], name, *[row[place] for place in shown]] for name, row in rows.items() if any(row)])
    absent = [name for name, row in rows.items() if not any(row)]
    return table + ("\n\n" + missing(", ".join(absent), "mdpf reproduce bearings") if absent else "")


def _median(path: Path, metric: str, *, percent: bool = False) -> str:
    if not path.exists():
        return ""
    value = median(load(path).metric(metric))
    return f"{value:.0%}" if percent else f"{value:.2f}"


def _mazes(folder: Path, name: str) -> str:
    """The mean over the mazes of the median over runs; only where all three are there."""
    paths = [folder / f"{name}@{maze}.json" for maze in MAZES]
    return f"{mean(median(load(path).metric('nll_paper')) for path in paths):.2f}" if all(path.exists() for path in paths) else ""


def _time(folder: Path, name: str) -> str:
    """One training step of all runs at once on a GPU, recorded."""
    path = measurements.path_of(folder, "methods", "cuda")
    value = measurements.load(path).value("training step", "ms", method=name, execution="captured") if path.exists() else None
    return "" if value is None else figure(value)
