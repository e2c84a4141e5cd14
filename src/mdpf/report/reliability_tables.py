"""What the campaigns of ``mdpf.reliability`` found, and the example of the page on one's own logs."""

import math
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from mdpf.evaluation.results import load, read_json
from mdpf.report import comparison
from mdpf.report.markdown import missing, origin

MEGA = 2**20


def reliability(results: Path) -> str:
    """One line for each campaign."""
    lines = (_kills(results), _soak(results, "soak-single"), _soak(results, "soak"), *_fuzz(results), *_agreement(results))
    rows = [line for line in lines if line]
    names = {name: f"mdpf.reliability.{name}" for name in ("kills", "soak", "fuzz", "agreement")}
    absent = [name for name in names if not (results / "reliability" / f"{name}.json").exists()]
    # Sentences, so the columns are not those of numbers.
    lines = ["| campaign | found | minutes | revision |", "|---|---|---:|---|", *("| " + " | ".join(row) + " |" for row in rows)]
    text = "\n".join(lines) if rows else ""
    for name in absent:
        text += "\n\n" + missing(name, f"python -m {names[name]}")
    return text.strip()


def own_logs(results: Path) -> str:
    """The method beside its baselines, as the command prints it."""
    folder = results / "own-logs"
    paths = [folder / name for name in ("MDPF.json", "MDPF@mse.json", "baselines/LSTM.json", "baselines/dead-reckoning.json")]
    if not all(path.exists() for path in paths):
        return missing("the example", "mdpf train robot.npz MDPF --preset quick --out runs/robot")
    found = [load(path) for path in paths]
    text = f"```text\n{comparison.table(found)}\n```\n\n{comparison.verdict(found[0], found[2:])}"
    return f"{text}\n\n{origin(found[:1])}"


def _read(results: Path, name: str) -> dict[str, Any] | None:
    path = results / "reliability" / f"{name}.json"
    return read_json(path) if path.exists() else None


def _spent(found: dict[str, Any]) -> list[str]:
    return [f"{found['provenance']['seconds'] / 60:.0f}", found["provenance"]["revision"]]


def _kills(results: Path) -> list[str] | None:
    found = _read(results, "kills")
    if found is None:
        return None
    words = (
        f"{found['kills']} times killed, {found['while_writing']} of them while a file was being written; "
        f"{found['trainings']} trainings ended, {found['different']} of them with other numbers than an undisturbed one"
    )
    return ["`kill -9`", words, *_spent(found)]


def _soak(results: Path, name: str) -> list[str] | None:
    found = _read(results, name)
    if found is None:
        return None
    many = f"{found['cars']} trackers side by side, {found['frames']:,} frames"
    crew = "one tracker" if found["cars"] == 1 else many
    growth = max(call["memory_last"] - call["memory_warm"] for call in found["calls"])
    words = (
        f"{found['frames'] * found['cars']:,} steps ({crew}), "
        f"{found['missing']:,} observations missing, {found['absurd']:,} absurd, {found['degenerate']:,} steps at which nothing "
        f"was possible; weights off by {found['worst_sum']:.1e} at most; memory grew by {growth / MEGA:.1f} MiB once warm"
    )
    return ["soak", words, *_spent(found)]


def _fuzz(results: Path) -> list[list[str]]:
    found = _read(results, "fuzz")
    if found is None:
        return []
    revision = found["provenance"]["revision"]
    return [
        [f"fuzzing: {row['name']}", f"{row['examples']:,} inputs, none of them unanswered", f"{row['seconds'] / 60:.1f}", revision]
        for row in found["rows"]
    ]


def _agreement(results: Path) -> list[list[str]]:
    """The same seed on one device twice; and whether two devices agree in distribution."""
    found = _read(results, "agreement")
    if found is None:
        return []
    rows = [
        [
            f"the same seed, {row['device']}",
            f"{row['runs']} runs trained twice: {'the same' if row['identical'] else 'OTHER'} bits in all that was learned",
            *_spent(row),
        ]
        for row in found["rows"]
    ]
    if len(found["rows"]) < 2:
        return rows
    words = []
    for metric, title in (("nll", "NLL"), ("rmse", "RMSE")):
        values = [row["metrics"][metric] for row in found["rows"]]
        # Runs start alike on both, so that the difference of each counts.
        apart = [other - one for one, other in zip(*values, strict=True)]
        error = stdev(apart) / math.sqrt(len(apart))
        words.append(
            f"{title} {' and '.join(f'{mean(each):.3f} ± {stdev(each):.3f}' for each in values)} over runs, "
            f"{mean(apart) / error:+.1f} standard errors apart"
        )
    names = " and ".join(row["device"] for row in found["rows"])
    return [*rows, [f"in distribution, {names}", "; ".join(words), "", found["rows"][-1]["provenance"]["revision"]]]
