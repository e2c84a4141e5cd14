"""Bandwidths: from particles to the kernel that smooths them."""

from torch import Tensor, nn

from mdpf import trees
from mdpf.kernels.protocol import Kernel


class FixedBandwidth(nn.Module):
    """The same kernel at every step, not learned.

    Args:
        kernel: A kernel whose parameters have shape ``[d]``.
    """

    def __init__(self, kernel: Kernel):
        super().__init__()
        self._kernel = kernel
        for index, tensor in enumerate(trees.leaves(kernel)):
            self.register_buffer(f"parameter_{index}", tensor.detach().clone())

    def forward(self, particles: Tensor) -> Kernel:
        buffers = iter(self.buffers())
        return trees.tree_map(lambda _: next(buffers), self._kernel)
