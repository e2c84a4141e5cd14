"""Train the same runs twice on a device: the same bits; and on another device: the same distribution.

    python -m mdpf.reliability.agreement --device cpu
    python -m mdpf.reliability.agreement --device cuda

Many small runs learn at once from recorded points on a line. Every number that was learned, and every metric, has to come again to
the last bit. Devices draw other random numbers, so between them only distributions can agree: runs start alike everywhere, and the
means of what they end with must not differ by more than their errors allow. Each call adds its device to the file; a call that was
interrupted goes on.
"""

import argparse
import hashlib
import math
import sys
import time
from pathlib import Path
from typing import Any

import torch

from mdpf.data.atomic import check_place
from mdpf.evaluation import results
from mdpf.recipes import logs, logs_study
from mdpf.reliability import kills
from mdpf.training.deadline import Deadline, OutOfTime

METHOD, SETTING = "MDPF", "likelihood"
UPDATES = logs.Updates(full=200, measurement=100, short=1)
METRICS = ("nll", "rmse", "ess")


def measure(device: str, work: Path, *, runs: int, until: Deadline | None = None) -> dict[str, Any]:
    """Train twice from nothing on a device; goes on from what is in ``work``.

    Args:
        device: Where.
        work: For recordings and checkpoints.
        runs: How many independent ones, trained at once.
        until: When to stop.
    """
    began = time.monotonic()
    first, second = (_train(device, work / device / turn, runs, until) for turn in ("first", "second"))
    spent = results.provenance(
        time.monotonic() - began, device=device, command=["python -m mdpf.reliability.agreement", *sys.argv[1:]]
    )
    return {"device": device, "runs": runs, "identical": first == second, **first, "provenance": vars(spent)}


def difference(one: dict[str, Any], other: dict[str, Any], metric: str) -> tuple[float, float]:
    """How much larger a metric is on the second device, on average over runs that start alike, and the error of that."""
    pairs = torch.tensor([one["metrics"][metric], other["metrics"][metric]], dtype=torch.float64)
    apart = pairs[1] - pairs[0]
    return float(apart.mean()), float(apart.std()) / math.sqrt(len(apart))


def _train(device: str, work: Path, runs: int, until: Deadline | None) -> dict[str, Any]:
    """A digest of all that was learned, and the metrics of every run."""
    work.mkdir(parents=True, exist_ok=True)
    config = logs.Config(METHOD, runs=runs, preset="quick", particles=16, batch=8, hidden_dim=8)
    prepared = logs.prepare(kills.record(work / "walk.npz")).to(device)
    before, logs.UPDATES["quick"] = logs.UPDATES["quick"], UPDATES
    try:
        filter = logs.train(config, prepared, work, until=until).filters[SETTING]
    finally:
        logs.UPDATES["quick"] = before
    judged = logs_study.judge(filter, config, prepared, prepared.test, runs=runs)
    learned = hashlib.sha256()
    for name, tensor in sorted(filter.state_dict().items()):
        learned.update(name.encode() + tensor.cpu().contiguous().numpy().tobytes())
    return {"learned": learned.hexdigest(), "metrics": {name: [run["metrics"][name] for run in judged] for name in METRICS}}


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--work", type=Path, default=Path("runs/agreement"))
    parser.add_argument("--out", type=Path, default=Path("results/reliability/agreement.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    check_place(options.out)
    try:
        row = measure(options.device, options.work, runs=options.runs, until=Deadline(60 * options.minutes))
    except OutOfTime as reason:
        print(f"{reason} The same command goes on.")
        return
    rows = results.read_json(options.out)["rows"] if options.out.exists() else []
    rows = [*(old for old in rows if old["device"] != options.device), row]
    results.write_json(options.out, {"rows": rows})
    print(f"{options.device}: {'the same' if row['identical'] else 'other'} bits, {row['provenance']['seconds']} s")
    for metric in METRICS if len(rows) > 1 else ():
        apart, error = difference(rows[0], rows[1], metric)
        print(f"{metric}: {apart:+.4f} from {rows[0]['device']} to {rows[1]['device']}, error {error:.4f}")


if __name__ == "__main__":
    main()
