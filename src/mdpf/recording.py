"""Record what a function does on a CUDA device, and do it again without the host's calls."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Generator

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
