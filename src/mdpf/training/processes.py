"""One training shared by several processes: each learns from its share of the sequences, and all make the same steps.

Started by ``torchrun`` or under SLURM, every process holds all runs. Gradients are averaged before each step and losses after each
epoch, so that parameters, schedules and the choice of the best epoch agree everywhere; the first process writes. Without a group of
processes nothing here does anything.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, distributed

from mdpf.data.sequences import SequenceBatch


def world() -> int:
    """How many processes share the work."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def rank() -> int:
    """Which of them this is, counted from zero."""
    return distributed.get_rank() if world() > 1 else 0


def share(data: SequenceBatch) -> SequenceBatch:
    """The sequences that this process learns from; all have equally many, so up to ``world() - 1`` are left out."""
    if world() == 1:
        return data
    count = data.num_sequences // world()
    if count == 0:
        raise ValueError(f"Training in {world()} processes needs a sequence for each, got {data.num_sequences}. Start fewer.")
    return data.take(slice(rank(), count * world(), world()))


def average(values: Tensor) -> Tensor:
    """Replace values by their mean over all processes, in place."""
    if world() > 1:
        distributed.all_reduce(values)
        values /= world()
    return values


def wait() -> None:
    """Go on when all processes are here: what the first one wrote is then there for everybody."""
    if world() > 1:
        distributed.barrier()


@contextmanager
def joined(device: str) -> Iterator[str]:
    """Join the processes that ``torchrun`` or SLURM started beside this one, if any; gives the device of this one."""
    count = int(os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1")))
    if count == 1 or not ("MASTER_ADDR" in os.environ and ("RANK" in os.environ or "SLURM_PROCID" in os.environ)):
        yield device
        return
    own = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")))
    if torch.device(device).type == "cuda":
        device = f"cuda:{os.environ.get('LOCAL_RANK', os.environ.get('SLURM_LOCALID', '0'))}"
        torch.cuda.set_device(device)
    backend = "nccl" if device.startswith("cuda") else "gloo"
    distributed.init_process_group(backend, rank=own, world_size=count)
    try:
        yield device
    finally:
        distributed.destroy_process_group()
