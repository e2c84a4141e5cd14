"""``python -m mdpf.benchmarks``: what ``mdpf bench`` does."""

import argparse
from pathlib import Path

import torch

from mdpf.benchmarks.suite import PARTS, run
from mdpf.benchmarks.table import show, tell


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m mdpf.benchmarks", description="Measure speed and memory.")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--budget-seconds", type=float, default=float("inf"))
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    device, parts = torch.device(options.device), options.parts or list(PARTS)
    for path in run(parts, options.out, device, budget=options.budget_seconds, again=options.again, watch=tell):
        show(path)


if __name__ == "__main__":
    main()
