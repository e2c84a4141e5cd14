"""Filters for models that are given rather than learned: dynamics to draw from and a likelihood to weigh with."""

from mdpf.filters.particle import ParticleFilter
from mdpf.kernels.protocol import Kernel
from mdpf.models.bandwidth import FixedBandwidth
from mdpf.models.protocol import Bandwidth, Dynamics, Measurement
from mdpf.resamplers.discrete import Discrete
from mdpf.resamplers.protocol import Resampler
from mdpf.resamplers.truncated import Truncated


def bootstrap(
    dynamics: Dynamics, log_likelihood: Measurement, bandwidth: Kernel | Bandwidth, *, resampler: Resampler | None = None
) -> ParticleFilter:
    """Build the bootstrap filter: copy particles, move them by the dynamics, weigh them by the likelihood.

    Args:
        dynamics: Draws the next state: ``(points, action, *, generator)``.
        log_likelihood: The log-density of the observation at each particle: ``(particles, observation)`` to ``[*batch, n]``. With
            its constants the evidence is that of the model.
        bandwidth: The kernel that makes a density of the particles; it smooths the posterior and takes no part in the recursion.
        resampler: ``Discrete`` by default; ``Adaptive(Discrete())`` copies only where it is needed.

    Example:
        >>> import torch, mdpf
        >>> walk = lambda points, action, *, generator: points + mdpf.noise.normal(points.shape, points, generator)
        >>> likelihood = lambda particles, seen: -0.5 * (particles[..., 0] - seen).square()
        >>> pf = bootstrap(walk, likelihood, mdpf.kernels.Gaussian(torch.tensor([0.3])))
        >>> belief, trajectory = pf(pf.init(torch.zeros(100, 1)), torch.tensor([[0.5], [1.0], [1.5]]))
        >>> trajectory.posterior.mean().shape
        torch.Size([3, 1])

    References:
        Gordon, Salmond and Smith (1993), Novel approach to nonlinear/non-Gaussian Bayesian state estimation.
    """
    return ParticleFilter(
        dynamics=dynamics,
        measurement=log_likelihood,
        bandwidth=_as_module(bandwidth),
        resampler=Discrete() if resampler is None else resampler,
    )


def regularized(
    dynamics: Dynamics, log_likelihood: Measurement, bandwidth: Kernel | Bandwidth, *, resampler: Resampler | None = None
) -> ParticleFilter:
    """Build the regularized filter: draw from the smoothed posterior, so that no two particles coincide.

    The kernel takes part in the recursion: each resampling adds its variance to that of the dynamics.

    Args:
        dynamics: As for ``bootstrap``.
        log_likelihood: As for ``bootstrap``.
        bandwidth: The kernel that smooths the posterior and that new particles are drawn from.
        resampler: ``Truncated`` by default; ``ImportanceWeighted`` has the same values and a gradient.

    References:
        Musso, Oudjane and Le Gland (2001), Improving regularised particle filters.
    """
    return ParticleFilter(
        dynamics=dynamics,
        measurement=log_likelihood,
        bandwidth=_as_module(bandwidth),
        resampler=Truncated() if resampler is None else resampler,
    )


def _as_module(bandwidth: Kernel | Bandwidth) -> Bandwidth:
    return FixedBandwidth(bandwidth) if isinstance(bandwidth, Kernel) else bandwidth
