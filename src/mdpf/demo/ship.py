"""Copy the weights of the bearings study into the package, so that everybody who installs it can track."""

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

from mdpf.demo import SHIPPED
from mdpf.recipes.filing import weights_file


def ship(results: Path, target: Path) -> list[Path]:
    """Copy the weights of the median runs, as far as the study left them; returns the copies."""
    sources = [weights_file(results / "bearings", name) for name in SHIPPED]
    return [Path(shutil.copyfile(source, target / source.name)) for source in sources if source.is_file()]


def main(words: Sequence[str] | None = None) -> None:
    """Copy them into the package that this file belongs to."""
    parser = argparse.ArgumentParser(prog="python -m mdpf.demo.ship", description="Copy the weights of a study into the package.")
    parser.add_argument("--results", type=Path, default=Path("results"))
    for path in ship(parser.parse_args(words).results, Path(__file__).parent):
        print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
