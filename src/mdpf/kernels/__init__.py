"""The shapes of a mixture's components: densities centred at a particle."""

from mdpf.kernels.biweight import Biweight
from mdpf.kernels.doors import check_parameters
from mdpf.kernels.epanechnikov import Epanechnikov
from mdpf.kernels.gaussian import Gaussian
from mdpf.kernels.product import Product, has_cdf
from mdpf.kernels.protocol import Kernel, KernelWithCdf
from mdpf.kernels.von_mises import VonMises

__all__ = [
    "Biweight",
    "Epanechnikov",
    "Gaussian",
    "Kernel",
    "KernelWithCdf",
    "Product",
    "VonMises",
    "check_parameters",
    "has_cdf",
]
