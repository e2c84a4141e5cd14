"""The check of a kernel's values, for the doors of the library."""

import torch

from mdpf.checks import check_finite, describe
from mdpf.kernels.biweight import Biweight
from mdpf.kernels.epanechnikov import Epanechnikov
from mdpf.kernels.gaussian import Gaussian
from mdpf.kernels.product import Product
from mdpf.kernels.protocol import Kernel
from mdpf.kernels.von_mises import VonMises


def check_parameters(call: str, kernel: Kernel) -> None:
    """Check that the parameters are floating-point tensors ``[*batch, d]``, finite and positive.

    Waits for the device, so it has its place at the doors alone. Kernels from elsewhere keep their own house and are passed over.

    Args:
        call: Who asks, as in ``"ParticleFilter.init"``; the first words of the message.
        kernel: The kernel; of a product, every part.
    """
    if isinstance(kernel, Product):
        for part in kernel.parts:
            check_parameters(call, part)
    if not isinstance(kernel, Gaussian | Epanechnikov | Biweight | VonMises):
        return
    name, (parameter,) = f"{type(kernel).__name__}.{kernel._fields[0]}", kernel
    if not (isinstance(parameter, torch.Tensor) and parameter.is_floating_point() and parameter.ndim > 0):
        raise TypeError(
            f"{call} needs {name} to be a floating-point tensor of shape [*batch, d], got {describe(parameter)}. "
            "The last axis counts the coordinates; write torch.tensor([0.5]) for one of them."
        )
    check_finite(call, parameter, name, "Bound the bandwidth that made the kernel.")
    smallest = parameter.detach().amin() if parameter.numel() else parameter.new_ones(())
    if not bool(smallest > 0):
        raise ValueError(
            f"{call} needs a positive {name}, got {smallest.item()} in {describe(parameter)}. "
            "A width is not its logarithm; take the exponential or softplus first."
        )
