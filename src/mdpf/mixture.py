r"""A mixture density: one kernel on each of a set of weighted points.

.. math:: m(x) = \sum_i w_i\, K(x \mid \mu_i)

It is what a filter believes and what new particles are drawn from.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from mdpf import noise
from mdpf.checks import check_batch, check_count, check_finite, check_same_kind, check_tensor
from mdpf.kernels.product import has_cdf
from mdpf.kernels.protocol import Kernel
from mdpf.noise import Source
from mdpf.ops import log_sum_exp, mixture_log_prob
from mdpf.selection import Selection, multinomial
from mdpf.spaces import StateSpace


class Mixture(NamedTuple):
    """A kernel on each of ``n`` weighted points.

    Args:
        locs: Where the components are, ``[*batch, n, d]``.
        log_weights: Their normalised log-weights, ``[*batch, n]``; whoever makes a mixture normalises them.
        kernel: The shape all components of one batch element share; its parameters are ``[*batch, d]`` or ``[d]``.

    Example:
        >>> import torch, mdpf
        >>> kernel = mdpf.kernels.Gaussian(torch.tensor([0.5]))
        >>> mixture = mdpf.Mixture(torch.tensor([[-1.0], [1.0]]), torch.tensor([0.25, 0.75]).log(), kernel)
        >>> mixture.mean()
        tensor([0.5000])
        >>> mixture.sample(100).shape
        torch.Size([100, 1])
    """

    locs: Tensor
    log_weights: Tensor
    kernel: Kernel

    @property
    def batch_shape(self) -> torch.Size:
        return self.locs.shape[:-2]

    @property
    def num_components(self) -> int:
        return self.locs.shape[-2]

    @property
    def state_dim(self) -> int:
        return self.locs.shape[-1]

    @property
    def space(self) -> StateSpace:
        """Which coordinates are angles, as the kernel says."""
        return self.kernel.space

    def check(self, call: str = "Mixture") -> None:
        """Check shapes, dtypes and devices of the parts; looks at no value."""
        check_tensor(call, self.locs, ["component", self.kernel.state_dim], "The kernel decides the number of coordinates.")
        check_tensor(call, self.log_weights, [self.num_components], "There is one log-weight for each component.")
        check_batch(call, self.log_weights, "log_weights", (*self.batch_shape, self.num_components))
        check_same_kind(call, locs=self.locs, log_weights=self.log_weights)

    def check_values(self, call: str = "Mixture") -> None:
        """Check that locations are finite and weights normalised; waits for the device."""
        self.check(call)
        check_finite(call, self.locs, "locs")
        total = log_sum_exp(self.log_weights)
        if not bool((total.abs() < 1e-3).all()):
            worst = total.flatten()[total.abs().nan_to_num(torch.inf).argmax()].item()
            raise ValueError(
                f"{call} needs normalised log_weights, got weights that sum to exp({worst:.3g}). "
                "Apply .log_softmax(-1) to them first."
            )

    def log_prob(self, x: Tensor) -> Tensor:
        """Evaluate the log-density.

        Shapes:
            ``x``: ``[*batch, m, d]``; returns ``[*batch, m]``.
        """
        self.check("Mixture.log_prob")
        check_tensor("Mixture.log_prob", x, ["sample", self.state_dim], "Pass x[..., None, :] for a single point.")
        check_batch("Mixture.log_prob", x, "x", self.batch_shape)
        check_same_kind("Mixture.log_prob", locs=self.locs, x=x)
        return mixture_log_prob(x, self.locs, self.log_weights, self.kernel)

    def sample(self, num_samples: int, *, generator: Source = None, select: Selection = multinomial) -> Tensor:
        """Draw points: the component first, by index, then from that component alone.

        Shapes:
            Returns ``[*batch, num_samples, d]``.

        Gradient:
            Pathwise within the drawn component, to its location and to the kernel; none through the choice of component. Who
            wants constants detaches; a resampler is the place where that is decided.
        """
        self.check("Mixture.sample")
        check_count("Mixture.sample", num_samples, "num_samples")
        generator = noise.source(generator)
        ancestors = select(self.log_weights, num_samples, generator=generator)
        return self.kernel.sample(gather(self.locs, ancestors), generator=generator)

    def mean(self) -> Tensor:
        """The mean, circular for angles: ``[*batch, d]``."""
        return self.space.mean(self.locs, self.log_weights.exp())

    def covariance(self) -> Tensor:
        """The covariance of the deviation from the mean, angles the short way round: ``[*batch, d, d]``.

        Exact for linear coordinates. For an angle the deviations of location and kernel add as if the circle were a line, which
        holds as long as the spread is well below pi.
        """
        deviation = self.space.difference(self.locs, self.mean().unsqueeze(-2))
        between = torch.einsum("...n,...nd,...ne->...de", self.log_weights.exp(), deviation, deviation)
        return between + torch.diag_embed(self.kernel.variance())

    def marginal(self, dims: tuple[int, ...]) -> "Mixture":
        """The density of some of the coordinates, in the order given."""
        self._check_dims("Mixture.marginal", dims)
        return Mixture(self.locs[..., list(dims)], self.log_weights, self.kernel.select(dims))

    def conditional(self, dims: tuple[int, ...], values: Tensor) -> "Mixture":
        """The density of the other coordinates, given the ``values`` ``[*batch, len(dims)]`` of some of them.

        Where no component covers the values, the weights stay what they are.
        """
        self._check_dims("Mixture.conditional", dims)
        if len(dims) == self.state_dim:
            raise ValueError(
                f"Mixture.conditional needs dims that leave at least one coordinate, got all {self.state_dim}. "
                "The density at given values of all of them is log_prob."
            )
        check_tensor("Mixture.conditional", values, [len(dims)], "One value for each coordinate in dims.")
        given = self.kernel.select(dims).log_prob(values.unsqueeze(-2), self.locs[..., list(dims)])
        joint = self.log_weights + given
        rest = tuple(dim for dim in range(self.state_dim) if dim not in dims)
        total = log_sum_exp(joint).unsqueeze(-1)
        covered = total > -torch.inf
        log_weights = torch.where(covered, joint - total.where(covered, 0.0), self.log_weights)
        return Mixture(self.locs[..., list(rest)], log_weights, self.kernel.select(rest))

    def _check_dims(self, call: str, dims: tuple[int, ...]) -> None:
        if not dims or len(set(dims)) != len(dims) or not set(dims) <= set(range(self.state_dim)):
            raise ValueError(
                f"{call} needs dims to be distinct indices of coordinates, from 0 to {self.state_dim - 1}, got {dims}. "
                "Count from the first coordinate."
            )

    def entropy(self, num_samples: int, *, generator: Source = None) -> Tensor:
        """Estimate the differential entropy from ``num_samples`` draws: ``[*batch]``. Unbiased; no gradient."""
        with torch.no_grad():
            return -self.log_prob(self.sample(num_samples, generator=generator)).mean(-1)

    def distributional_transform(self, x: Tensor) -> Tensor:
        r"""Map points to independent uniforms, one coordinate after the other.

        .. math:: S_k(x) = \sum_i c_i^{(k)} F_k(x_k \mid \mu_i), \qquad c_i^{(k)} \propto w_i \prod_{e<k} K_e(x_e \mid \mu_i)

        For angles the cumulative distribution runs on past every turn, so that it is smooth across the seam.

        Shapes:
            ``x``: ``[*batch, m, d]``; returns the same shape.
        """
        kernel = self.kernel
        if not has_cdf(kernel):
            raise TypeError(f"Mixture.distributional_transform needs a kernel with a `cdf`, got {type(kernel).__name__}.")
        check_tensor("Mixture.distributional_transform", x, ["sample", self.state_dim], "Pass x[..., None, :] for a single point.")
        points, locs = x.unsqueeze(-2), self.locs.unsqueeze(-3)
        log_factors = kernel.log_factors(points, locs)
        earlier = torch.cat([torch.zeros_like(log_factors[..., :1]), log_factors[..., :-1].cumsum(-1)], -1)
        joint = self.log_weights[..., None, :, None] + earlier
        total = log_sum_exp(joint.transpose(-1, -2)).unsqueeze(-2)
        conditionals = (joint - total.where(total > -torch.inf, 0.0)).exp()
        return (conditionals * kernel.cdf(points, locs)).sum(-2)


def gather(values: Tensor, indices: Tensor) -> Tensor:
    """Pick ``values[*batch, n, d]`` by ``indices[*batch, m]``: ``[*batch, m, d]``."""
    return values.gather(-2, indices.unsqueeze(-1).expand(*indices.shape, values.shape[-1]))
