"""The table of gradient noise: bias and spread of every estimator in one step, against exact quadrature."""

import time
from pathlib import Path

from mdpf.evaluation.gradient_variance import variance_table
from mdpf.evaluation.results import Result, provenance, save


def run(folder: Path, *, seed: int = 0) -> Path:
    """Compute the table and write it."""
    start = time.monotonic()
    table = variance_table(seed=seed)
    return save(Result(**table, provenance=provenance(time.monotonic() - start)), folder)
