"""Run the tests that hand arbitrary input to the file reader and to a tracker, with many more inputs than they take by default.

    python -m mdpf.reliability.fuzz --examples 4000

Every input has to give an answer in the library's own words, or finite numbers. Run it in a clone, where the tests are.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from mdpf.data.atomic import check_place
from mdpf.evaluation import results

# What is tried, by the test that tries it.
TRIED = {
    "files with damaged bytes": "tests/data/test_files.py::test_fuzz_damaged_bytes",
    "files of arbitrary arrays": "tests/data/test_files.py::test_fuzz_arbitrary_arrays",
    "init and step": "tests/tracking/test_fuzz.py::test_fuzz_init_and_step",
}


def fuzz(examples: int) -> list[dict[str, Any]]:
    """Run every test with so many inputs, side by side; a failure raises, with what pytest said."""
    began, environment = time.monotonic(), {**os.environ, "MDPF_FUZZ": str(examples)}
    started = {
        what: subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", test],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for what, test in TRIED.items()
    }
    found = []
    for what, run in started.items():
        said, _ = run.communicate()
        if run.returncode != 0:
            raise AssertionError(f"fuzz needs {TRIED[what]} to pass, got:\n{said[-4000:]}")
        found.append({"name": what, "examples": examples, "seconds": round(time.monotonic() - began, 1)})
    return found


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--examples", type=int, default=4000)
    parser.add_argument("--out", type=Path, default=Path("results/reliability/fuzz.json"))
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    check_place(options.out)
    rows = fuzz(options.examples)
    seconds = max(row["seconds"] for row in rows)
    results.write_json(
        options.out,
        {"rows": rows, "provenance": vars(results.provenance(seconds, command=["python -m mdpf.reliability.fuzz", *sys.argv[1:]]))},
    )
    print(rows)


if __name__ == "__main__":
    main()
