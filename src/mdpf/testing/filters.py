r"""What proves a filter right: exact moments at any number of particles, agreement in the limit, and good manners.

For a linear-Gaussian model the exact belief is known. That a particle filter comes close with many particles is weak evidence; a
wrong evidence under adaptive resampling, for example, is close enough. But for every unbiased rule the products

.. math:: \hat Z_t, \quad \hat Z_t\, \hat m_t, \quad \hat Z_t\, \hat C_t

of the estimated evidence with the estimated mean and second moment are *exactly* unbiased, with ten particles as with ten thousand.
A z-test over replicates of a small filter therefore has no tolerance to guess, and any error of one per cent is seen.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from mdpf import kernels, trees
from mdpf.exact import KalmanTrajectory, LinearGaussian
from mdpf.filters.belief import Belief, StepInfo, Trajectory
from mdpf.mixture import Mixture
from mdpf.models.bandwidth import FixedBandwidth
from mdpf.models.protocol import Feature
from mdpf.noise import Source
from mdpf.tasks.linear_gaussian import example_model
from mdpf.testing.assertions import assert_decays, assert_mean, critical_value
from mdpf.testing.linear_gaussian import (
    Data,
    dynamics_of,
    example_data,
    initial_particles,
    log_likelihood_of,
    smoothed_kalman,
)


class Filter(Protocol):
    """What is checked: a belief from particles, a step, and a call that takes one step after the other."""

    def init(self, particles: Tensor) -> Belief: ...

    def step(
        self, belief: Belief, feature: Feature, action: Tensor | None = None, *, observed: Tensor | None, generator: Source
    ) -> tuple[Belief, StepInfo]: ...

    def __call__(
        self,
        belief: Belief,
        observations: Tensor,
        actions: Tensor | None = None,
        *,
        observed: Tensor | None,
        valid: Tensor | None = None,
        generator: Source,
    ) -> tuple[Belief, Trajectory]: ...


MakeFilter = Callable[..., Filter]


def check_belief(belief: Belief) -> None:
    """Reject unless a belief is well formed: finite normalised mixtures of one shape, every tensor with all batch axes."""
    if not isinstance(belief, Belief):
        raise AssertionError(f"a filter carries a Belief, got {type(belief).__name__}")
    mixtures = {"posterior": belief.posterior} | ({} if belief.resampling is None else {"resampling": belief.resampling})
    for name, mixture in mixtures.items():
        _check_mixture(f"belief.{name}", mixture)
        if mixture.locs.shape != belief.posterior.locs.shape:
            raise AssertionError(f"belief.{name}: locs {list(mixture.locs.shape)}, posterior {list(belief.posterior.locs.shape)}")


def _check_mixture(name: str, mixture: Mixture) -> None:
    try:
        mixture.check_values(name)
    except (ValueError, TypeError) as error:
        raise AssertionError(str(error)) from error
    for parameter in trees.leaves(mixture.kernel):
        if parameter.shape[:-1] != mixture.batch_shape:
            raise AssertionError(f"{name}: kernel parameter {list(parameter.shape)}, batch axes {list(mixture.batch_shape)}")
        if (parameter.dtype, parameter.device) != (mixture.locs.dtype, mixture.locs.device):
            raise AssertionError(f"{name}: kernel parameter of {parameter.dtype}, particles of {mixture.locs.dtype}")
        if not bool((parameter.isfinite() & (parameter > 0)).all()):
            raise AssertionError(f"{name}: kernel parameters must be finite and positive")


def check_filter(
    make_filter: MakeFilter,
    *,
    smooths: bool,
    bias: float = 0.0,
    scale: float = 0.4,
    num_particles: int = 24,
    num_replicates: int = 3000,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> None:
    """Reject unless a filter is right on a linear-Gaussian model with missing and ragged frames.

    Args:
        make_filter: ``make_filter(dynamics=, measurement=, bandwidth=)`` returns the filter with these parts.
        smooths: Whether the filter draws new particles from the kernels (as the MDPF does, at every step) or copies particles. An
            adaptive filter that draws from kernels fits neither; check it with ``smooths=False`` and a tiny ``scale``.
        bias: The largest systematic error of mean and evidence, in posterior standard deviations, that the filter admits with this
            number of particles. Zero for an unbiased one, which is tested exactly.
        scale: The standard deviation of the kernel.
        num_particles: How many particles; few make errors large.
        num_replicates: How many independent filters.
        seed: The seed of all random numbers.
        device: Where to compute.

    Example:
        >>> import mdpf
        >>> def make(**parts):
        ...     return mdpf.ParticleFilter(resampler=mdpf.resamplers.Discrete(), **parts)
        >>> check_filter(make, smooths=False)
    """
    model = _model_on(device)
    data = trees.tree_map(lambda tensor: tensor.to(device), example_data(example_model(dtype=torch.float64)))
    kernel = kernels.Gaussian(torch.full((2,), scale, dtype=torch.float64, device=device))
    pf = make_filter(dynamics=dynamics_of(model), measurement=log_likelihood_of(model), bandwidth=FixedBandwidth(kernel))
    exact = smoothed_kalman(model, data, kernel.variance(), smooths=smooths)

    def run(particles: int, replicates: int, stream: int) -> Trajectory:
        return run_replicates(pf, data, particles, replicates, torch.Generator(device).manual_seed(seed + stream))

    check_manners(pf, data)
    if bias == 0:
        assert_exact_moments(run(num_particles, num_replicates, 1), exact)
        sizes = (128, 512, 2048)
        errors = [(run(size, 100, 2).posterior.mean() - exact.means)[:, 0].abs().mean((-1, -2)) for size in sizes]
        assert_decays(sizes, torch.stack(errors, -1), 0.5, max_se=0.05)
    else:
        assert_small_bias(run(num_particles, num_replicates, 1), exact, bias)


def _model_on(device: torch.device | str) -> LinearGaussian:
    return trees.tree_map(lambda tensor: tensor.to(device), example_model(dtype=torch.float64))


@torch.no_grad()
def run_replicates(pf: Filter, data: Data, num_particles: int, num_replicates: int, generator: torch.Generator) -> Trajectory:
    """Filter every sequence of ``data`` many times: batch axes ``[replicate, sequence]``."""
    shape = (num_replicates, data.valid.shape[0])
    observations, actions, observed, valid = (value.expand(num_replicates, *value.shape) for value in data)
    belief = pf.init(initial_particles(_model_on(observations.device), (*shape, num_particles), generator))
    return pf(belief, observations, actions, observed=observed, valid=valid, generator=generator)[1]


def assert_exact_moments(trajectory: Trajectory, exact: KalmanTrajectory, *, max_se: float = 0.04) -> None:
    """Reject unless evidence, and mean and second moment weighted by it, are unbiased at every frame.

    Deviations are measured in exact posterior standard deviations.
    """
    ratio = (trajectory.info.log_evidence.cumsum(-1) - exact.log_evidence.cumsum(-1)).exp()
    assert_mean(ratio, 1.0, max_se=max_se, what="evidence over its exact value")
    deviation, second = _standardised(trajectory.posterior, exact)
    assert_mean(ratio[..., None] * deviation, 0.0, max_se=max_se, what="mean weighted by evidence")
    # The exact second moment is subtracted inside, so that what fluctuates is small.
    correlation = _standardise(exact.covariances, exact.covariances)
    surplus = ratio[..., None, None] * (second - correlation)
    assert_mean(surplus, 0.0, max_se=max_se, what="second moment weighted by evidence")


def assert_small_bias(trajectory: Trajectory, exact: KalmanTrajectory, bias: float) -> None:
    """Reject if mean or log-evidence are off, on average, by more than ``bias`` beyond what chance explains."""
    deviation, _ = _standardised(trajectory.posterior, exact)
    surprise = (trajectory.info.log_evidence - exact.log_evidence)[..., None]
    for what, errors in (("mean", deviation), ("log-evidence", surprise)):
        error, se = errors.mean(0).abs(), errors.std(0) / len(errors) ** 0.5
        if not bool((se < bias / 2).all()):
            raise AssertionError(f"{what}: no power, standard error {float(se.max()):.2g} for a bound of {bias}")
        if not bool((error <= bias + critical_value(error.numel(), len(errors)) * se).all()):
            raise AssertionError(f"{what}: off by {float(error.max()):.3g} posterior standard deviations, more than {bias}")


def _standardised(posterior: Mixture, exact: KalmanTrajectory) -> tuple[Tensor, Tensor]:
    """Deviation of the mean, and second moment about the exact mean, in exact standard deviations."""
    deviation = posterior.mean() - exact.means
    second = posterior.covariance() + deviation[..., None] * deviation[..., None, :]
    scale = exact.covariances.diagonal(dim1=-2, dim2=-1).sqrt()
    return deviation / scale, _standardise(second, exact.covariances)


def _standardise(second: Tensor, covariances: Tensor) -> Tensor:
    scale = covariances.diagonal(dim1=-2, dim2=-1).sqrt()
    return second / (scale[..., None] * scale[..., None, :])


def check_manners(pf: Filter, data: Data, num_particles: int = 5) -> None:
    """Reject unless beliefs are well formed, ``forward`` is ``step`` repeated, and all randomness comes from the generator."""
    observations, observed = data.observations, data.observed & data.valid
    actions, device = data.actions.nan_to_num(0.0), observations.device
    particles = initial_particles(_model_on(device), (2, num_particles), torch.Generator(device).manual_seed(3))
    before, kept = _global_stream(device), particles.clone()
    first = pf.init(particles)
    check_belief(first)
    _require(first.resampling is None, "a belief right after init has no mixture to resample from")
    last, trajectory = pf(first, observations, actions, observed=observed, generator=torch.Generator(device).manual_seed(4))

    belief, stream = first, torch.Generator(device).manual_seed(4)
    for t in range(observations.shape[1]):
        belief, info = pf.step(belief, observations[:, t], actions[:, t], observed=observed[:, t], generator=stream)
        check_belief(belief)
        _require(torch.equal(belief.posterior.locs, trajectory.posterior.locs[:, t]), f"step {t} equals the same step of forward")
        _require(torch.equal(info.log_evidence, trajectory.info.log_evidence[:, t]), f"evidence of step {t} as in forward")
    _require(last.posterior.locs.shape == particles.shape, "a filter keeps the number of particles")
    _require(torch.equal(before, _global_stream(device)), "the global stream stays untouched when a generator is given")
    _require(torch.equal(kept, particles), "the particles handed in stay as they are")


def _global_stream(device: torch.device) -> Tensor:
    """What the streams are at from which everybody draws who gives no generator."""
    here = torch.random.get_rng_state()
    return torch.cat([here, torch.cuda.get_rng_state(device)]) if device.type == "cuda" else here


def _require(condition: bool, law: str) -> None:
    if not condition:
        raise AssertionError(f"violated: {law}")
