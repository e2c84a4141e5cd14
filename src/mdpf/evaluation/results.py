"""Results are files: numbers with the command, revision, versions, device and seconds that made them.

A figure or a table is a function of these files and of nothing else. The files are JSON and written atomically.
"""

import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy
import torch

from mdpf.data.atomic import atomic

Json = Any


@dataclass(frozen=True)
class Provenance:
    """Where a result comes from; ``parts`` says what the seconds were spent on."""

    command: str
    revision: str
    versions: dict[str, str]
    device: str
    seconds: float
    parts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """One method's result in one experiment.

    Args:
        experiment: The study, the name of the folder under ``results``.
        method: Who was measured.
        runs: For each run its seed and its metrics: ``{"seed": 0, "metrics": {"nll": 5.9}}``, and what else belongs to it.
        config: Every choice behind the numbers.
        provenance: Where they come from.
        setting: A name for what differs from the default, such as ``"n-100"``; part of the file's name.
    """

    experiment: str
    method: str
    runs: list[dict[str, Json]]
    config: dict[str, Json]
    provenance: Provenance
    setting: str = "default"

    @property
    def file_name(self) -> str:
        return file_name(self.method, self.setting)

    def metric(self, name: str) -> list[float]:
        """One metric of every run."""
        return [run["metrics"][name] for run in self.runs]

    def median_run(self, name: str = "nll") -> int:
        """The index of the run with the median value of a metric; the better of the two middle ones."""
        order = sorted(range(len(self.runs)), key=lambda index: self.runs[index]["metrics"][name])
        return order[(len(order) - 1) // 2]


def file_name(method: str, setting: str = "default") -> str:
    """The name of a result file."""
    return f"{method}.json" if setting == "default" else f"{method}@{setting}.json"


def provenance(
    seconds: float | Mapping[str, float], *, device: torch.device | str = "cpu", command: Sequence[str] | None = None
) -> Provenance:
    """Describe where the numbers of this process come from; seconds of several parts are added up.

    The revision is that of the repository the package lies in, marked when files differ from it; ``MDPF_REVISION`` names it where
    there is no repository.
    """
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "mdpf": version(),
    }
    words = sys.argv if command is None else command
    parts = {name: round(value, 1) for name, value in seconds.items()} if isinstance(seconds, Mapping) else {}
    total = round(sum(seconds.values()) if isinstance(seconds, Mapping) else seconds, 1)
    return Provenance(_command_line(words), revision(), versions, _device_name(torch.device(device)), total, parts)


def version() -> str:
    """The version of the package; asked for, not imported, for the package imports this module."""
    return vars(sys.modules["mdpf"])["__version__"]


def revision() -> str:
    """The revision of the code that runs, ``"unknown"`` where nothing tells."""
    if named := os.environ.get("MDPF_REVISION"):
        return named

    def git(*words: str) -> str:
        answer = subprocess.run(["git", *words], cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True)
        return answer.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", ".")
        return git("rev-parse", "--short=12", "HEAD") + ("+changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def save(result: Result, folder: str | Path) -> Path:
    """Write a result into ``folder`` under its own name; a file of another configuration is refused, not overwritten."""
    path = Path(folder) / result.file_name
    load_same(path, result.config)
    write_json(path, asdict(result))
    return path


def load_same(path: str | Path, config: Mapping[str, Json]) -> Result | None:
    """Read the result of this very configuration, if there is one; a result of another one is refused."""
    if not Path(path).exists():
        return None
    old, new = load(path), _plain(config)
    if old.config != new:
        raise FileExistsError(
            f"Saving a result needs a folder without results of another configuration, got {str(path)!r} with "
            f"{_difference(old.config, new)}. Choose another folder, or remove that file."
        )
    return old


def load(path: str | Path) -> Result:
    """Read a result."""
    content = read_json(path)
    try:
        return Result(**{**content, "provenance": Provenance(**content["provenance"])})
    except (TypeError, KeyError) as error:
        raise ValueError(f"Reading a result needs a file that mdpf wrote, got {str(path)!r}: {error}.") from error


def write_json(path: str | Path, content: Json) -> None:
    """Write JSON atomically; numbers that are not finite become strings, which JSON can hold."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with atomic(path) as stream:
        stream.write((json.dumps(_plain(content), indent=1) + "\n").encode())


def read_json(path: str | Path) -> Json:
    """Read JSON that ``write_json`` wrote."""
    try:
        return _revive(json.loads(Path(path).read_text()))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"Reading {str(path)!r} needs a JSON file, got something else: {error}.") from error


_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _command_line(words: Sequence[str]) -> str:
    """What to type: a package that was run by ``python -m`` goes by its own name."""
    if not words:
        return ""
    path = Path(words[0])
    return " ".join([path.parent.name if path.name == "__main__.py" else path.name, *words[1:]])


def _plain(content: Json) -> Json:
    if isinstance(content, Mapping):
        return {str(key): _plain(value) for key, value in content.items()}
    if isinstance(content, torch.Tensor | numpy.ndarray):
        return _plain(content.tolist())
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return "NaN" if math.isnan(content) else "Infinity" if content > 0 else "-Infinity"
    return content


def _revive(content: Json) -> Json:
    if isinstance(content, dict):
        return {key: _revive(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_revive(value) for value in content]
    return _SPECIAL.get(content, content) if isinstance(content, str) else content


def _difference(old: dict[str, Json], new: dict[str, Json]) -> str:
    keys = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    return ", ".join(f"{key}={old.get(key)!r} where this has {new.get(key)!r}" for key in keys[:3])


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"cpu, {torch.get_num_threads()} threads"
