"""Record what a function does on a CUDA device, and do it again without the host's calls."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Generator

AHEAD = 8  # Calls the host may be ahead of a device: enough to keep it busy, and soon done when somebody waits for all of them.
WARM_UPS = 2  # Compiling, and whatever libraries allocate on first use, has to be over before a graph is recorded.


def capture(function: Callable[[], None], generator: Generator) -> Callable[[], None]:
    """Record what a function does to tensors that stay where they are; the replay does it again.

    Call it on a stream of its own. Random numbers of the replay come from ``generator``.
    """
    for _ in range(WARM_UPS):
        function()
    torch.cuda.current_stream().synchronize()
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
        function()
    return graph.replay


class Pace:
    """Keeps the host from running far ahead of a CUDA device; on a CPU there is nothing to keep.

    Loading a program waits until the whole device is idle. Where several trainings share a device, whoever prepares would wait, at
    every program, for all that the others had sent there beforehand.
    """

    def __init__(self, device: torch.device):
        self._device = device
        self._sent: deque[torch.cuda.Event] = deque()

    def keep(self) -> None:
        """Call this after every piece of work."""
        if self._device.type != "cuda":
            return
        # Blocking, so that a host that waits leaves its processor to others.
        event = torch.cuda.Event(blocking=True)
        event.record(torch.cuda.current_stream(self._device))
        self._sent.append(event)
        if len(self._sent) > AHEAD:
            self._sent.popleft().synchronize()


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """Work on a stream of one's own, as recording needs; nothing on a CPU."""
    if device.type != "cuda":
        yield
        return
    outer, stream = torch.cuda.current_stream(device), torch.cuda.Stream(device)
    stream.wait_stream(outer)
    with torch.cuda.stream(stream):
        yield
    outer.wait_stream(stream)
    stream.synchronize()
