"""Kill a training again and again, at random moments and in the middle of writing, and see whether it ends as if nothing had been.

    python -m mdpf.reliability.kills --kills 50

A training on a small recording is a process of its own, ended by ``kill -9``: half of the times after a random while, half of the
times as soon as a file is being written. It is called again until it ends by itself; then every metric has to be, to the last
digit, that of an undisturbed training.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mdpf.data.atomic import check_place
from mdpf.evaluation import results
from mdpf.recipes import logs, logs_study
from mdpf.spaces import StateSpace

METHOD = "MDPF"
UPDATES = logs.Updates(full=8, measurement=8, short=4)
POLL = 2e-4  # Seconds between looks for a file that is being written.


def campaign(folder: Path, *, kills: int, seed: int = 0, tell: Callable[[str], object] | None = None) -> dict[str, Any]:
    """Kill so many times, and compare.

    Args:
        folder: For recordings and trainings.
        kills: How many.
        seed: Of the moments.
        tell: Is told after each.
    """
    began, moments = time.monotonic(), random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    data = record(folder / "walk.npz")
    took = _undisturbed(data, folder / "undisturbed")
    expected = outcome(folder / "undisturbed")
    found = {"kills": 0, "while_writing": 0, "trainings": 0, "different": 0, "seconds_undisturbed": took}
    number, target = 0, folder / "disturbed-0"
    while found["kills"] < kills:
        child = _start(data, target)
        writing = moments.random() < 0.5
        wait = moments.uniform(0, took)
        hit = _wait_for_writing(child, target, wait + took) if writing else _wait(child, wait)
        if hit is None:
            # It ended by itself.
            found["trainings"] += 1
            found["different"] += outcome(target) != expected
            number += 1
            target = folder / f"disturbed-{number}"
            continue
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found["kills"] += 1
        found["while_writing"] += hit
        if tell is not None:
            tell(f"killed {found['kills']} times, {found['trainings']} trainings ended")
    child = _start(data, target)
    _, status = os.waitpid(child, 0)
    found["trainings"] += 1
    found["different"] += status != 0 or outcome(target) != expected
    return found | {"seconds": time.monotonic() - began}


def record(path: Path) -> Path:
    """A small recording: points that wander on a line, seen with noise."""
    stream = np.random.default_rng(0)
    states = stream.normal(0, 0.3, (16, 20, 1)).cumsum(1)
    space = StateSpace.of("x").to_json()
    np.savez(path, states=states, observations=states + stream.normal(0, 0.2, states.shape), space=np.array(space))
    return path


def outcome(folder: Path) -> dict[str, Any]:
    """All metrics that a training left, by file."""
    found = {}
    for path in sorted(folder.rglob("*.json")):
        found[str(path.relative_to(folder))] = [run["metrics"] for run in results.load(path).runs]
    return found


def _train(data: Path, folder: Path) -> None:
    torch.set_num_threads(1)
    logs.UPDATES["quick"] = UPDATES
    logs_study.study(logs.Config(METHOD, preset="quick", particles=8, batch=8, hidden_dim=8), data, folder)


def _start(data: Path, folder: Path) -> int:
    """Begin or go on, in a process of its own; returns its number."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _train(data, folder)
            status = 0
        finally:
            os._exit(status)
    return child


def _undisturbed(data: Path, folder: Path) -> float:
    began = time.monotonic()
    _, status = os.waitpid(_start(data, folder), 0)
    if status != 0:
        raise RuntimeError(f"The undisturbed training failed with status {status}.")
    return time.monotonic() - began


def _wait(child: int, seconds: float) -> bool | None:
    """Whether the child is still there after a while, and writes nothing as far as one can tell; None if it ended by itself."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if _ended(child):
            return None
        time.sleep(min(0.01, max(0.0, end - time.monotonic())))
    return None if _ended(child) else False


def _wait_for_writing(child: int, folder: Path, seconds: float) -> bool | None:
    """Wait until a new file is being written; None if the child ended by itself."""
    known, end = set(folder.rglob(".*.part")), time.monotonic() + seconds
    while time.monotonic() < end:
        if set(folder.rglob(".*.part")) - known:
            return True
        if _ended(child):
            return None
        time.sleep(POLL)
    return False


def _ended(child: int) -> bool:
    pid, status = os.waitpid(child, os.WNOHANG)
    if pid and status:
        raise AssertionError(f"A training that goes on needs to end well, got status {status}.")
    return bool(pid)


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/reliability/kills.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    check_place(options.out)
    with tempfile.TemporaryDirectory() as folder:
        found = campaign(Path(folder), kills=options.kills, seed=options.seed, tell=partial(print, flush=True))
    print(found)
    results.write_json(
        options.out,
        found
        | {"provenance": vars(results.provenance(found["seconds"], command=["python -m mdpf.reliability.kills", *sys.argv[1:]]))},
    )


if __name__ == "__main__":
    main()
