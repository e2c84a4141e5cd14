"""One training shared by several processes: each learns from its share of the sequences, and all make the same steps.

Started by ``torchrun`` or by SLURM's ``srun``, every process holds all runs. Gradients are averaged before each step and losses
after each epoch, so that parameters, schedules and the choice of the best epoch agree everywhere; the first process writes. Without
a group of processes nothing here does anything.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, distributed

from mdpf.data.sequences import SequenceBatch

# Where the processes of a SLURM step meet, if nobody says: a port that two jobs on one machine seldom share.
PORTS = range(20_000, 40_000)


class Place(NamedTuple):
    """Which of how many processes this is, by what started them.

    Args:
        count: How many share the work.
        rank: Which of them this is, from zero.
        local: Which of those on its machine: the number of its GPU.
        host: Where the first one waits for the others; ``None`` for a process that is alone.
        port: At which of its ports.
    """

    count: int = 1
    rank: int = 0
    local: int = 0
    host: str | None = None
    port: int = 0


def place(environment: Mapping[str, str] | None = None) -> Place:
    """Read from the environment what ``torchrun`` or ``srun`` left there; a process that neither started is alone.

    Only steps of SLURM count: the script of a job, too, knows how many tasks were asked for, but is one process.
    """
    known = os.environ if environment is None else environment
    if "RANK" in known and "WORLD_SIZE" in known:
        return _place(known, "torchrun", ("WORLD_SIZE", "RANK", "LOCAL_RANK"), None, None)
    if "SLURM_STEP_NUM_TASKS" in known:
        nodes = known.get("SLURM_STEP_NODELIST", known.get("SLURM_JOB_NODELIST", ""))
        port = PORTS[int(re.sub(r"\D", "", known.get("SLURM_JOB_ID", "")) or 0) % len(PORTS)]
        return _place(known, "srun", ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID"), _first(nodes), port)
    return Place()


def _place(known: Mapping[str, str], who: str, names: tuple[str, str, str], host: str | None, port: int | None) -> Place:
    """Numbers by their names; where to meet may always be said explicitly."""
    count, rank, local = (_number(known, name, who) for name in names)
    if count <= 1:
        return Place()
    host = known.get("MASTER_ADDR", host)
    if not host:
        raise ValueError(
            f"Training in {count} processes needs MASTER_ADDR, got none from {who}. Set it to the host of the first process."
        )
    if port is None or "MASTER_PORT" in known:
        port = _number(known, "MASTER_PORT", who)
    if not 0 <= rank < count:
        raise ValueError(
            f"Training in {count} processes needs {names[1]} from 0 to {count - 1}, got {rank}. Start it with {who} again."
        )
    return Place(count, rank, local, host, port)


def _number(known: Mapping[str, str], name: str, who: str) -> int:
    text = known.get(name, "0" if "LOCAL" in name else "")
    if not text.isdecimal():
        raise ValueError(f"Training in several processes needs a number in {name}, got {text!r}. Start it with {who}.")
    return int(text)


def _first(nodes: str) -> str | None:
    """The first host of a list in SLURM's shorthand: ``node[003-007,9]`` begins with ``node003``."""
    found = re.match(r"([^\[,]+)(?:\[(\d+))?", nodes)
    return None if found is None else found[1] + (found[2] or "")


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
    own = place()
    if own.host is None:
        yield device
        return
    if torch.device(device).type == "cuda":
        # Where every process is shown one GPU only, that is number 0 to all of them.
        device = f"cuda:{own.local % torch.cuda.device_count()}"
        torch.cuda.set_device(device)
    backend = "nccl" if device.startswith("cuda") else "gloo"
    meeting = f"tcp://{own.host}:{own.port}"
    if "TORCHELASTIC_RUN_ID" in os.environ:
        meeting = "env://"  # The launcher keeps the place to meet open itself.
    distributed.init_process_group(backend, init_method=meeting, rank=own.rank, world_size=own.count)
    try:
        yield device
    finally:
        distributed.destroy_process_group()
