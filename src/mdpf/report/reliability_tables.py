"""What the campaigns of ``mdpf.reliability`` found, and the example of the page on one's own logs."""

from pathlib import Path
from typing import Any

from mdpf.evaluation.results import load, read_json
from mdpf.report import comparison
from mdpf.report.markdown import missing, origin

MEGA = 2**20


def reliability(results: Path) -> str:
    """One line for each campaign."""
    rows = [line for line in (_kills(results), _soak(results), *_fuzz(results)) if line]
    names = {"kills": "mdpf.reliability.kills", "soak": "mdpf.reliability.soak", "fuzz": "mdpf.reliability.fuzz"}
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


def _soak(results: Path) -> list[str] | None:
    found = _read(results, "soak")
    if found is None:
        return None
    growth = max(call["memory_last"] - call["memory_warm"] for call in found["calls"])
    words = (
        f"{found['frames'] * found['cars']:,} steps ({found['cars']} trackers side by side, {found['frames']:,} frames), "
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
