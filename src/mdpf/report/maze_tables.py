"""Tables of the maze study: errors beside the authors', who uses images, which claims hold, localisation from nowhere."""

import math
from pathlib import Path
from statistics import median

from mdpf.evaluation.results import Result, load
from mdpf.report.markdown import markdown, missing, origin
from mdpf.report.maze_figures import NUMBERS, ORDER
from mdpf.report.published import MAZES

COMMAND = "mdpf reproduce maze"
DISCRETE = ("TG-PF", "OT-PF", "SR-PF", "DIS-PF", "C-PF")
RECKONING = "dead-reckoning"


def maze(results: Path) -> str:
    """One row for each method and maze: the paper's likelihood, position and heading error, in brackets the authors' medians."""
    found = _load(results)
    rows, used = [], []
    for number in NUMBERS:
        reckoning = found.get((RECKONING, f"maze-{number}"))
        for name in ORDER:
            plain = found.get((name, f"maze-{number}"))
            if plain is None:
                continue
            refined = found.get((name, f"maze-{number}-mse"), plain)
            scratch = found.get((name, f"maze-{number}-scratch"))
            ratio = "" if reckoning is None else f"{_median(refined, 'position_rmse') / _median(reckoning, 'position_rmse'):.2f}"
            cells = [_beside(result, metric, number, name) for result, metric in _columns(plain, refined)]
            rows.append([f"{name}, maze {number}", str(len(plain.runs)), *cells, ratio, _optional(scratch, "nll_paper")])
            used.append(plain)
        if reckoning is not None:
            cells = ["", *(f"{_median(reckoning, metric):.2f}" for metric in ("position_rmse", "angle_rmse"))]
            rows.append([f"dead reckoning, maze {number}", "", *cells, "1", ""])
    if not used:
        return missing("the maze study", COMMAND)
    header = ["method", "runs", "NLL", "position", "heading", "position / dead reckoning", "NLL without a first stage"]
    return markdown(header, rows) + "\n\n" + origin(used)


def blind(results: Path) -> str:
    """What becomes of every method's errors when it is given the images of other walks."""
    found = _load(results)
    rows, used = [], []
    for name in ORDER:
        cells = []
        for number in NUMBERS:
            seeing, blind = (found.get((name, f"maze-{number}{end}")) for end in ("", "-shuffled"))
            for metric in ("position_rmse", "angle_rmse"):
                pair = seeing is not None and blind is not None
                cells.append(f"{_median(seeing, metric):.2f} → {_median(blind, metric):.2f}" if pair else "")  # type: ignore[arg-type]
            used += [blind] if blind is not None else []
        rows += [[name, *cells]] if any(cells) else []
    if not used:
        return missing("errors with the images of other walks", COMMAND)
    header = ["method", *(f"maze {number}: {what}" for number in NUMBERS for what in ("position", "heading"))]
    return markdown(header, rows) + "\n\n" + origin(used)


def claims(results: Path) -> str:
    """The claims of the paper about this study, and what the medians here say."""
    found = _load(results)

    def likelihood(name: str, number: int) -> float | None:
        result = found.get((name, f"maze-{number}"))
        return None if result is None else _median(result, "nll_paper")

    rows = []
    for number in NUMBERS:
        own = {name: likelihood(name, number) for name in ("MDPF", "A-MDPF")}
        others = {name: value for name in (*DISCRETE, "TG-MDPF") if (value := likelihood(name, number)) is not None}
        if None in own.values() or not others:
            continue
        best = min(others, key=lambda name: others[name])
        ahead = all(value is not None and value < others[best] for value in own.values())
        numbers = ", ".join(f"{name} {value:.2f}" for name, value in own.items())
        text = f"{numbers}; the best of {len(others)} others, {best}, {others[best]:.2f}"
        rows.append([f"maze {number}: MDPF and A-MDPF ahead of every discrete filter and TG-MDPF in NLL", _verdict(ahead), text])
        adaptive = own["A-MDPF"] is not None and own["MDPF"] is not None and own["A-MDPF"] <= own["MDPF"]
        rows.append([f"maze {number}: A-MDPF at or ahead of MDPF in NLL", _verdict(adaptive), numbers])
    for number in NUMBERS:
        refined = found.get(("A-MDPF", f"maze-{number}-mse"))
        if refined is not None:
            heading = _median(refined, "angle_rmse")
            theirs = MAZES[number]["angle_rmse"]["A-MDPF"]
            text = f"{heading:.2f} rad; authors {theirs:.2f}, a random heading 1.81"
            rows.append([f"maze {number}: A-MDPF's heading error below 0.9 rad", _verdict(heading < 0.9), text])
    return markdown(["claim", "holds", "medians over runs"], rows) if rows else missing("the claims about mazes", COMMAND)


def anywhere(results: Path) -> str:
    """How often the truth is found and kept from particles everywhere, and the median number of frames it takes."""
    found = {key: result for key, result in _load(results).items() if "-anywhere-" in key[1]}
    if not found:
        return missing("localisation from nowhere", COMMAND)
    counts = sorted({int(setting.rsplit("-", 1)[1]) for _, setting in found})
    rows = []
    for number in NUMBERS:
        for name in ORDER:
            cells = [_searched(found.get((name, f"maze-{number}-anywhere-{count}"))) for count in counts]
            rows += [[f"{name}, maze {number}", *cells]] if any(cells) else []
    return markdown(["method", *(f"N = {count:,}" for count in counts)], rows) + "\n\n" + origin(list(found.values()))


def _searched(result: Result | None) -> str:
    if result is None:
        return ""
    frames = _median(result, "frames")
    share = f"{_median(result, 'found'):.0%}"
    return share if math.isinf(frames) else f"{share}, after {frames:.0f}"


def _load(results: Path) -> dict[tuple[str, str], Result]:
    found = [load(path) for path in sorted((results / "maze").glob("*@maze-*.json"))]
    return {(result.method, result.setting): result for result in found}


def _columns(plain: Result, refined: Result) -> list[tuple[Result, str]]:
    return [(plain, "nll_paper"), (refined, "position_rmse"), (refined, "angle_rmse")]


def _beside(result: Result, metric: str, number: int, name: str) -> str:
    logged = MAZES[number][metric].get(name)
    return f"{_median(result, metric):.2f}" + ("" if logged is None else f" [{logged:.2f}]")


def _optional(result: Result | None, metric: str) -> str:
    return "" if result is None else f"{_median(result, metric):.2f}"


def _median(result: Result, metric: str) -> float:
    return median(result.metric(metric))


def _verdict(holds: bool) -> str:
    return "yes" if holds else "no"
