"""Tables of what goes beyond the main study of bearings-only tracking: compact kernels, larger choices, the time it took."""

import math
from pathlib import Path
from statistics import median

from mdpf.evaluation.results import Result, load, read_json
from mdpf.report.markdown import load_if_there, markdown, missing, origin
from mdpf.report.published import BEARINGS_EPANECHNIKOV

KERNELS = ("gaussian", "epanechnikov", "biweight")


def kernels(results: Path) -> str:
    """Every method with every kernel: the likelihood with its floor, and the share of frames that no kernel covers."""
    found = {kernel: _by_method(results / "bearings", kernel) for kernel in KERNELS}
    compact = found["epanechnikov"] | found["biweight"]
    if not compact:
        return missing("kernels with compact support", "mdpf reproduce bearings-epanechnikov")
    logged = BEARINGS_EPANECHNIKOV["nll_paper"]
    order = sorted(compact, key=lambda method: _middle(found["epanechnikov"].get(method), "nll_paper") or 0.0)
    rows = []
    for method in order:
        theirs = logged.get(method)
        rows.append(
            [
                method,
                *[_range(found[kernel].get(method), "nll_paper") for kernel in ("gaussian", "epanechnikov")],
                "" if theirs is None else f"{theirs.median:.2f}",
                _range(found["biweight"].get(method), "nll_paper"),
                *[_share(found[kernel].get(method)) for kernel in ("epanechnikov", "biweight")],
            ]
        )
    header = [
        "method",
        "Gaussian",
        "Epanechnikov",
        "Epanechnikov, authors",
        "biweight",
        "uncovered, Epanechnikov",
        "uncovered, biweight",
    ]
    return markdown(header, rows) + "\n\n" + origin([result for kernel in KERNELS[1:] for result in found[kernel].values()])


def beyond(results: Path) -> str:
    """The filters past the paper, their ablations, and MDPF and the oracle for comparison."""
    found = [load(path) for path in sorted((results / "bearings-beyond").glob("[A-Z]*.json"))]
    found = [result for result in found if not result.setting.endswith("mse")]
    if not found:
        return missing("filters past the paper", "mdpf reproduce bearings-beyond")
    found.sort(key=lambda result: median(result.metric("nll_paper")))
    frame = [load_if_there(results / "bearings" / f"{method}.json") for method in ("MDPF", "A-MDPF", "Oracle")]
    rows = [_beyond_row(result) for result in [*found, *[result for result in frame if result is not None]]]
    header = ["filter", "runs", "NLL (paper)", "RMSE (paper)", "NLL", "lost"]
    return markdown(header, rows) + "\n\n" + origin(found)


def time_of_parts(results: Path) -> str:
    """What every part of the study took, and the calls that did them."""
    path = results / "bearings" / "calls.json"
    if not path.exists():
        return missing("the time of every part", "mdpf reproduce bearings")
    calls = read_json(path)
    parts = {name: seconds for call in calls for name, seconds in call["parts"].items()}
    rows = [[name, f"{seconds:,.0f}"] for name, seconds in sorted(parts.items(), key=lambda item: -item[1])]
    total = sum(call["seconds"] for call in calls)
    devices = "; ".join(sorted({call["device"] for call in calls}))
    text = markdown(["part", "seconds"], rows)
    return f"{text}\n\n*{len(calls)} calls, {total / 60:.0f} minutes together ({devices}), also where they ran side by side.*"


def _beyond_row(result: Result) -> list[str]:
    name = result.method if result.setting == "default" else f"{result.method}, {result.setting}"
    shown = [_range(result, metric) for metric in ("nll_paper", "rmse_paper", "nll")]
    return [name, str(len(result.runs)), *shown, f"{median(result.metric('lost')):.0%}"]


def _by_method(folder: Path, kernel: str) -> dict[str, Result]:
    """The results with a kernel; Gaussian ones are those of the default setting."""
    setting = "default" if kernel == "gaussian" else kernel
    found = [load(path) for path in sorted(folder.glob("[A-Z]*.json"))]
    return {result.method: result for result in found if result.setting == setting}


def _middle(result: Result | None, metric: str) -> float | None:
    return None if result is None else median(result.metric(metric))


def _range(result: Result | None, metric: str) -> str:
    if result is None:
        return ""
    values = sorted(result.metric(metric))
    if not math.isfinite(median(values)):
        return "∞"
    middle = f"{median(values):.2f}"
    return middle if len(values) == 1 else f"{middle} ({values[0]:.2f} to {values[-1]:.2f})"


def _share(result: Result | None) -> str:
    share = _middle(result, "outside")
    return "" if share is None else f"{share:.1%}"
