"""Parts spread over the machines of a Ray cluster: ``pip install 'mdpf[ray]'``.

A part travels to whichever worker is free and does there what it would have done here, so the package has to be installed on every
machine, and the folders that parts write into have to be the same everywhere. What went before and what follows stays the business
of ``parts.carry_out``; a worker that dies takes nothing along, because every part goes on from its checkpoints.
"""

import importlib
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mdpf.recipes import parts
from mdpf.recipes.parts import Outcome, Part
from mdpf.training.deadline import Deadline, OutOfTime

POLL = 1.0  # Seconds between looks whether somebody called a halt.


def available() -> bool:
    """Whether Ray is installed."""
    return importlib.util.find_spec("ray") is not None


def carry_out(parts_: Sequence[Part], *, address: str | None = None, gpus: float = 0, until: Deadline | None = None) -> Outcome:
    """Do what is not done yet, as many parts at a time as the cluster has room for.

    Args:
        parts_: What to do. They must not refer to anything that cannot travel: a terminal, an open file.
        address: The cluster, as ``ray.init`` takes it; by default ``RAY_ADDRESS``, or one of this machine alone.
        gpus: How many GPUs a part needs, besides one processor; shares are fine.
        until: Where this time does not suffice, parts lay down their work in good order.
    """
    ray = _ray()
    began_here = not ray.is_initialized()
    if began_here:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Nothing is reported to anybody.
        _join(ray, address)
    try:
        perform = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0)(_perform)
        sent = [replace(part, do=_sender(ray, perform, part), seconds=0.0) for part in parts_]
        # One thread waits for each part: what runs at once is for the cluster to decide.
        return parts.carry_out(sent, jobs=max(2, len(sent)), until=until)
    finally:
        if began_here:
            ray.shutdown()


def _ray() -> Any:  # noqa: ANN401
    if not available():
        raise ModuleNotFoundError(
            "Spreading parts over a cluster needs the package ray, got a place without. "
            "Install it with pip install 'mdpf[ray]', or leave --ray out."
        )
    return importlib.import_module("ray")


def _join(ray: Any, address: str | None) -> None:  # noqa: ANN401
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ConnectionError(
            f"Spreading parts over a cluster needs one that answers, got {str(error).splitlines()[0]!r} for {address!r}. "
            "Start one with ray start --head, or name its address."
        ) from error


def _sender(ray: Any, perform: Any, part: Part) -> Callable[[Deadline], None]:  # noqa: ANN401
    """What does a part by having it done elsewhere, and waits."""

    def send(until: Deadline) -> None:
        # A part may wait for a worker: the hour at which it has to end goes along, not the time that is left.
        doing = perform.remote(part.do, part.name, part.seconds, time.time() + until.left(), sys.argv)
        while not ray.wait([doing], timeout=POLL)[0]:
            if until.stopped():
                ray.cancel(doing, force=True)
                raise OutOfTime(f"{part.name} was stopped.")
        try:
            ray.get(doing)
        except ray.exceptions.RayTaskError as error:
            # What was raised over there, without the traceback that Ray makes part of its message.
            raise error.cause from None

    return send


def _perform(do: Callable[[Deadline], object], name: str, seconds: float, end: float, command: list[str]) -> None:
    """Do a part in a worker."""
    import torch

    torch.set_num_threads(1)
    sys.argv = command  # What results say they were made by.
    until = Deadline(end - time.time())
    until.require(seconds, name)
    do(until)
