"""Move the particles so that equal weights represent them."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from mdpf import noise
from mdpf.checks import check_count, check_positive
from mdpf.mixture import Mixture, gather
from mdpf.noise import Source
from mdpf.resamplers.protocol import Draw
from mdpf.resamplers.sinkhorn import TransportPlan, transport_plan
from mdpf.resamplers.weights import uniform_log_weights


@dataclass(frozen=True)
class OptimalTransport:
    r"""Replace each particle by the average of what entropy-regularised optimal transport brings to it (OT-PF).

    .. math:: \hat x_i = n \sum_j P_{ij} x_j, \qquad
              P = \arg\min_P \sum_{ij} P_{ij} \Big( \frac{\|x_i - x_j\|^2}{2 s^2} + \varepsilon \log \frac{n P_{ij}}{w_j} \Big)

    over the plans with row sums :math:`1/n` and column sums :math:`w_j`. Angles enter cost and average as unit vectors. The size
    :math:`s` of the cloud is the largest standard deviation of a coordinate, times the root of their number, so
    :math:`\varepsilon` is relative. With ``relative=False`` the size is one; the problem of the papers, with the whole squared
    distance and :math:`\lambda`, is then the one with :math:`\varepsilon = \lambda / 2`.

    The target is the particles themselves with equal weights. For another number of them it is made of as many whole copies as
    fit, and a random choice for the rest; only then is anything random.

    Args:
        regularization: :math:`\varepsilon`.
        num_iterations: Sinkhorn iterations; by default 32 at 0.5 and above, 256 at 0.01, and in between on a power law. A cloud of
            far and narrow modes may need more: ``plan`` tells the residual.
        scaling: How fast the regularisation is lowered to its value; see ``transport_plan``.
        relative: Whether the cost is in units of the cloud's size.
        detach_scale: Hold the size constant in the gradient, as common implementations do; the gradient is then not that of the
            points.

    Gradient:
        To weights and locations, through the plan, by the implicit function theorem; in proportion to the loss, never clipped. It
        is the derivative of the points, and biased with respect to the weighted particles as the points are.

    Bias:
        The mean of the linear coordinates is kept exactly. The cloud shrinks: on two modes, 13 of their widths apart, the variance
        is 0.45, 0.73 and 0.97 of the cloud's at regularisation 0.5, 0.1 and 0.01, and 44, 17 and 3 percent of the points lie
        between the modes. It vanishes with the regularisation, not as the number of particles grows.

    Cost:
        ``iterations x num_particles x particle``, in training and in use, and a few linear systems of the size of the cloud.

    Example:
        >>> import torch, mdpf
        >>> kernel = mdpf.kernels.Gaussian(torch.tensor([0.5]))
        >>> mixture = mdpf.Mixture(torch.tensor([[-1.0], [1.0]]), torch.tensor([0.25, 0.75]).log(), kernel)
        >>> resampler = OptimalTransport(regularization=0.1)
        >>> resampler(mixture, 2).points.mean()
        tensor(0.5000)
        >>> bool(resampler.plan(mixture, 2).residual < 1e-5)
        True

    References:
        Cuturi (2013), Sinkhorn distances; Corenflos, Thornton, Deligiannidis and Doucet (2021), Differentiable particle filtering
        via entropy-regularized optimal transport.
    """

    regularization: float = 0.5
    num_iterations: int | None = None
    scaling: float = 0.9
    relative: bool = True
    detach_scale: bool = False

    def __post_init__(self) -> None:
        check_positive("OptimalTransport", self.regularization, "regularization")
        if self.num_iterations is not None:
            check_count("OptimalTransport", self.num_iterations, "num_iterations")
        if not 0 < self.scaling < 1:
            raise ValueError(f"OptimalTransport needs scaling between 0 and 1, both excluded, got {self.scaling}. 0.9 is usual.")

    def __call__(self, mixture: Mixture, num_particles: int, *, generator: Source = None) -> Draw:
        plan, _ = self.plan(mixture, num_particles, generator=generator)
        cloud = mixture.space.encode(mixture.locs)
        centre = cloud.mean(-2, keepdim=True)
        # Around the centre: what the row sums lack in convergence is then a share of the cloud, not of its distance from zero.
        points = centre + num_particles * plan @ (cloud - centre)
        return Draw(mixture.space.decode(points), uniform_log_weights(mixture, num_particles))

    def plan(self, mixture: Mixture, num_particles: int, *, generator: Source = None) -> TransportPlan:
        """Solve for the plan behind the points, with its residual."""
        mixture.check("OptimalTransport")
        check_count("OptimalTransport", num_particles, "num_particles")
        cloud = self._scaled(mixture.space.encode(mixture.locs))
        target = _target(cloud, num_particles, generator)
        return transport_plan(
            _half_squared_distance(target, cloud),
            mixture.log_weights,
            regularization=self.regularization,
            num_iterations=self.num_iterations or default_iterations(self.regularization),
            scaling=self.scaling,
        )

    def _scaled(self, cloud: Tensor) -> Tensor:
        cloud = cloud - cloud.mean(-2, keepdim=True)
        if not self.relative:
            return cloud
        variance = cloud.square().mean(-2, keepdim=True).amax(-1, keepdim=True)
        # A cloud of a single place has no size; any scale will do, but its gradient must be finite.
        scale = (cloud.shape[-1] * variance).clamp_min(torch.finfo(cloud.dtype).tiny).sqrt()
        return cloud / (scale.detach() if self.detach_scale else scale)


def default_iterations(regularization: float) -> int:
    """Sinkhorn iterations that suffice for most clouds: 32 at 0.5, 256 at 0.01."""
    return max(32, math.ceil(32 * (0.5 / regularization) ** (math.log(8) / math.log(50)) - 1e-9))


def _target(cloud: Tensor, num_particles: int, generator: Source) -> Tensor:
    """Equally weighted particles: whole copies of the cloud, and some of it, chosen at random, to fill up."""
    num_rounds, num_left = divmod(num_particles, cloud.shape[-2])
    parts = [cloud] * num_rounds
    if num_left:
        order = noise.uniform(tuple(cloud.shape[:-1]), cloud, generator).argsort(-1)
        parts.append(gather(cloud, order[..., :num_left]))
    return torch.cat(parts, -2)


def _half_squared_distance(left: Tensor, right: Tensor) -> Tensor:
    """Between all pairs, ``[*batch, m, n]``; accurate for clouds that are centred."""
    squares = left.square().sum(-1).unsqueeze(-1) + right.square().sum(-1).unsqueeze(-2)
    return squares / 2 - left @ right.mT
