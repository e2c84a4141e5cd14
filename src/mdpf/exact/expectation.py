r"""Expectations under a mixture, by quadrature.

.. math:: E_m[f] = \sum_i w_i \int K(t \mid 0)\, f(\mu_i + t)\, dt

One grid of deviations serves all components: Gauss and Legendre's rule over the reach of a linear kernel, the trapezoid rule around
the circle of an angle. Both converge faster than any power of the number of nodes for smooth ``f``.
"""

import math
from collections.abc import Callable

import torch
from numpy.polynomial.legendre import leggauss
from torch import Tensor

from mdpf.checks import check_count
from mdpf.kernels import Biweight, Epanechnikov
from mdpf.kernels.protocol import Kernel
from mdpf.mixture import Mixture

# A Gaussian has no more than 1e-15 of its mass beyond as many standard deviations.
REACH = 8.0


def expectation(mixture: Mixture, function: Callable[[Tensor], Tensor], *, num_nodes: int = 40) -> Tensor:
    """The mean of ``function`` under one mixture, exact to rounding for smooth functions and a few dozen nodes.

    Args:
        mixture: Without batch axes, over up to three coordinates: the grid has ``num_nodes ** d`` nodes for each component.
        function: Maps points ``[..., d]`` to values ``[...]``.
        num_nodes: Nodes for each coordinate.

    Gradient:
        That of the integral, to weights, locations and the kernel's parameters: the nodes are constants, so parameters are
        differentiated through the density and locations through the function.

    Example:
        >>> from mdpf.kernels import Gaussian
        >>> locs, weights = torch.tensor([[-1.0], [1.0]]).double(), torch.tensor([0.25, 0.75]).double()
        >>> mixture = Mixture(locs, weights.log(), Gaussian(torch.tensor([0.5]).double()))
        >>> expectation(mixture, lambda x: x[..., 0] ** 2)
        tensor(1.2500, dtype=torch.float64)
    """
    mixture.check("expectation")
    check_count("expectation", num_nodes, "num_nodes")
    if mixture.batch_shape or mixture.state_dim > 3:
        raise ValueError(
            f"expectation needs one mixture over up to three coordinates, got locs of shape {list(mixture.locs.shape)}. "
            "Take one element of the batch, or a marginal."
        )
    deviations, weights = _grid(mixture.kernel, num_nodes, mixture.locs)
    density = mixture.kernel.log_prob(deviations, torch.zeros_like(deviations)).exp()
    values = function(mixture.locs.unsqueeze(-2) + deviations)
    return mixture.log_weights.exp() @ (values @ (density * weights))


def _grid(kernel: Kernel, num_nodes: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Deviations ``[node, d]`` and the quadrature weight of each."""
    rules = [_rule(kernel.select((dim,)), num_nodes, like) for dim in range(kernel.state_dim)]
    nodes = torch.meshgrid(*(rule[0] for rule in rules), indexing="ij")
    weights = torch.meshgrid(*(rule[1] for rule in rules), indexing="ij")
    return torch.stack([axis.flatten() for axis in nodes], -1), torch.stack([axis.flatten() for axis in weights]).prod(0)


def _rule(kernel: Kernel, num_nodes: int, like: Tensor) -> tuple[Tensor, Tensor]:
    if kernel.space.angular:
        nodes = (torch.arange(num_nodes, dtype=like.dtype, device=like.device) / num_nodes - 0.5) * 2 * math.pi
        return nodes, torch.full_like(nodes, 2 * math.pi / num_nodes)
    nodes, weights = (torch.as_tensor(part, dtype=like.dtype, device=like.device) for part in leggauss(num_nodes))
    reach = kernel.halfwidth if isinstance(kernel, Epanechnikov | Biweight) else REACH * kernel.variance().sqrt()
    return reach.detach() * nodes, reach.detach() * weights
