"""The tables of the house study: means over walks with the spread between quartiles, as the paper has them, in metres."""

from pathlib import Path
from statistics import median

from mdpf.evaluation.results import Result, load
from mdpf.report.markdown import markdown, missing, origin
from mdpf.report.published import HOUSE

ORDER = ("LSTM", "TG-PF", "OT-PF", "SR-PF", "DIS-PF", "C-PF", "TG-MDPF", "IRG-MDPF", "MDPF", "A-MDPF")
PIXEL = 0.02
PAPERS = ("nll_paper", "rmse_paper")


def house(results: Path, *methods: str) -> str:
    """Every method: mean and spread between quartiles over walks, median error, share of lost walks, the authors' numbers."""
    wanted = methods or ORDER
    found = [load(path) for path in sorted((results / "house").glob("[A-Z]*.json"))]
    found = [result for result in found if result.method in wanted and "start-anywhere-" not in result.setting]
    absent = ", ".join(name for name in wanted if name not in {result.method for result in found})
    if not found:
        return missing(f"localisation in homes with {absent}", "mdpf reproduce house")
    found.sort(key=lambda result: result.metric("nll_paper")[0])
    rows = [_row(result) for result in found]
    header = ["method", "NLL", "RMSE, m", "median RMSE, m", "lost", "heading RMSE, rad", "NLL, authors", "RMSE, authors, m"]
    path = results / "house" / "dead-reckoning.json"
    if path.exists():
        metrics = load(path).runs[0]["metrics"]
        cells = ["", f"{metrics['rmse_paper']:.2f}", "", f"{metrics['lost']:.0%}", f"{metrics['angle_rmse']:.2f}", "", ""]
        rows.append(["dead reckoning", *cells])
    text = markdown(header, rows) + "\n\n" + origin(found)
    return text + ("\n\n" + missing(absent, "mdpf reproduce house") if absent else "")


def anywhere(results: Path) -> str:
    """How often one is found who started anywhere, by filter and number of particles; how alike the places of the failures look."""
    found = [load(path) for path in sorted((results / "house").glob("[A-Z]*@*start-anywhere-*.json"))]
    if not found:
        return missing("starts anywhere in a home", "mdpf reproduce house-modes")
    rows = []
    for result in found:
        setting, _, count = result.setting.rpartition("start-anywhere-")
        name = result.method + (f" ({setting.strip('-')})" if setting else "")
        failed = [walk["difference"] for walk in result.runs[0]["walks"] if not walk["success"]]
        look = f"{median(failed):.2f}" if failed else ""
        shares = [f"{result.metric(metric)[0]:.0%}" for metric in ("success", "share")]
        rows.append((name, int(count), [*shares, str(len(failed)), look]))
    rows.sort(key=lambda row: (row[1], row[0]))
    header = ["filter", "particles", "found", "belief near the truth", "walks not found", "difference of their places, median"]
    return markdown(header, [[name, f"{count:,}", *rest] for name, count, rest in rows]) + "\n\n" + origin(found)


def _row(result: Result) -> list[str]:
    """The first run: the paper has one."""
    (run, *_) = result.runs
    metrics, quartiles = run["metrics"], run["quartiles"]
    cells = [result.method if result.setting == "default" else f"{result.method} ({result.setting})"]
    cells += [_spread(metrics[name], quartiles[name][2] - quartiles[name][0]) for name in PAPERS]
    cells += [f"{quartiles['rmse_paper'][1]:.2f}", f"{metrics['lost']:.0%}", f"{metrics['angle_rmse']:.2f}"]
    theirs = HOUSE.get(result.method) if result.setting == "default" else None
    if theirs is None:
        return [*cells, "", ""]
    # Per square metre and in metres.
    offset = result.config["units"]["added_to_nll"]
    nll, rmse = theirs
    return [*cells, _spread(nll.mean + offset, nll.spread), _spread(rmse.mean * PIXEL, rmse.spread * PIXEL)]


def _spread(mean: float, spread: float) -> str:
    return f"{mean:.2f} ± {spread:.2f}"
