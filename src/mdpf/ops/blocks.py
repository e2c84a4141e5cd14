"""Walk over all pairs of queries and components, a block that fits into the cache at a time."""

import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from mdpf.checks import MdpfWarning

# Pairs in a block of single precision; of double precision, half as many. On a CPU two matrices of that size should stay in the
# second-level cache; on a CUDA device, where this way is only the fallback, a block has to fill the device.
PAIRS_PER_BLOCK = {"cpu": 2**18, "cuda": 2**24}


class Block(NamedTuple):
    """Some batch elements, or some of the queries of one; always with all components."""

    batch: slice
    rows: slice


def _is_of_memory(error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "memory" in str(error)


@cache
def _tell_of_little_memory(device: torch.device) -> None:
    warnings.warn(
        f"mixture_log_prob finds little memory on {device} and works in smaller blocks: slower, with the same numbers.",
        MdpfWarning,
        stacklevel=2,
    )


class Buffers:
    """Memory for some matrices of one block, used again for the next: fresh pages would have to be zeroed each time.

    Args:
        shape: Batch elements, queries and components in all.
        dtypes: One for each matrix.
        device: Where the matrices live.
    """

    def __init__(self, shape: tuple[int, int, int], dtypes: Sequence[torch.dtype], device: torch.device):
        self._shape = batch, rows, columns = shape
        budget = PAIRS_PER_BLOCK.get(device.type, PAIRS_PER_BLOCK["cpu"])
        budget = budget * torch.float32.itemsize // max(dtype.itemsize for dtype in dtypes)
        while True:
            self._high = max(1, min(budget // max(1, columns), rows))
            self._deep = max(1, min(budget // max(1, rows * columns), batch))
            size = self._deep * self._high * columns
            try:
                self._memory = [torch.empty(size, dtype=dtype, device=device) for dtype in dtypes]
                return
            except RuntimeError as error:  # On a CUDA device an OutOfMemoryError; a processor has none of its own.
                budget = size // 4
                if not _is_of_memory(error) or budget < columns:
                    raise
                _tell_of_little_memory(device)

    def walk(self) -> Iterator[Block]:
        """Visit every block once."""
        batch, rows, _ = self._shape
        for first in range(0, batch, self._deep):
            for top in range(0, rows, self._high):
                yield Block(slice(first, min(first + self._deep, batch)), slice(top, min(top + self._high, rows)))

    def views(self, block: Block) -> list[Tensor]:
        """The matrices ``[batch, rows, components]`` of a block; what they hold is left over from the last one."""
        deep, high = block.batch.stop - block.batch.start, block.rows.stop - block.rows.start
        columns = self._shape[2]
        return [memory[: deep * high * columns].view(deep, high, columns) for memory in self._memory]
