"""How many threads a training on a processor computes with."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

# Less than that in a step, and handing parts of it to a thread costs more than it saves; where others use the cores it costs much
# more: every small operation waits for the slowest thread.
WORK_PER_THREAD = 2**20


def worthwhile(num_runs: int, num_sequences: int, num_parameters: int) -> int:
    """How many of the threads there are a step can use: a fact of its size alone, for the count decides the order of sums.

    Args:
        num_runs: How many runs are trained at once.
        num_sequences: In a batch.
        num_parameters: Of one run.
    """
    return max(1, min(torch.get_num_threads(), num_runs * num_sequences * num_parameters // WORK_PER_THREAD))


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Compute with so many threads on the processor."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
