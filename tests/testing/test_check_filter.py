"""Every resampler in a filter against the Kalman filter, and filters that are wrong and must be found out."""

import math
from dataclasses import dataclass

import pytest
import torch

import mdpf
from mdpf import kernels, resamplers, selection
from mdpf.exact import KalmanTrajectory, kalman
from mdpf.filters import reweight
from mdpf.filters.belief import Belief
from mdpf.models import FixedBandwidth
from mdpf.resamplers import Adaptive, Draw
from mdpf.resamplers.transport import OptimalTransport
from mdpf.tasks.linear_gaussian import example_model
from mdpf.testing import assert_decays, check_belief, check_filter
from mdpf.testing.filters import assert_exact_moments, assert_small_bias, run_replicates
from mdpf.testing.linear_gaussian import dynamics_of, example_data, log_likelihood_of, smoothed_kalman

RULES = [selection.multinomial, selection.stratified, selection.systematic, selection.residual]
COPYING = {
    **{f"discrete-{rule.__name__}": resamplers.Discrete(rule) for rule in RULES},
    "soft": resamplers.Soft(0.4),
    "stop-gradient": resamplers.StopGradient(),
}
SMOOTHING = {
    "truncated": resamplers.Truncated(),
    "truncated-systematic": resamplers.Truncated(selection.systematic),
    "importance": resamplers.ImportanceWeighted(),
    "pathwise": resamplers.ComponentPathwise(),
    "implicit": resamplers.ImplicitlyReparameterized(),
}
# Choice instead of average: what is left of the bias at this temperature is far below what the test can see.
LIMITS = {"concrete": resamplers.Concrete(1e-3)}
THRESHOLDS = [0.5, 0.9, 1.0]

pytestmark = pytest.mark.statistical
on_every_device = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


def makes(resampler):
    return lambda **parts: mdpf.ParticleFilter(resampler=resampler, **parts)


def against_kalman(resampler, *, scale=0.4, smooths=False, num_particles=16, num_replicates=2500, seed=5):
    """What a filter believes, many times over, and the truth."""
    model = example_model(dtype=torch.float64)
    data, kernel = example_data(model), kernels.Gaussian(torch.full((2,), scale, dtype=torch.float64))
    pf = mdpf.ParticleFilter(
        dynamics=dynamics_of(model), measurement=log_likelihood_of(model), bandwidth=FixedBandwidth(kernel), resampler=resampler
    )
    found = run_replicates(pf, data, num_particles, num_replicates, torch.Generator().manual_seed(seed))
    return found, smoothed_kalman(model, data, kernel.variance(), smooths=smooths)


@on_every_device
@pytest.mark.parametrize("resampler", COPYING.values(), ids=COPYING)
def test_copying_filter_agrees_with_kalman(resampler, device):
    check_filter(makes(resampler), smooths=False, device=device)


@on_every_device
@pytest.mark.parametrize("resampler", SMOOTHING.values(), ids=SMOOTHING)
def test_smoothing_filter_agrees_with_kalman_of_noisier_motion(resampler, device):
    check_filter(makes(resampler), smooths=True, device=device)


@pytest.mark.parametrize("resampler", LIMITS.values(), ids=LIMITS)
def test_biased_filter_agrees_with_kalman_in_its_limit(resampler):
    assert_exact_moments(*against_kalman(resampler))


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("resampler", (COPYING | LIMITS).values(), ids=COPYING | LIMITS)
def test_adaptive_copying_keeps_moments_and_evidence_exact(resampler, threshold):
    assert_exact_moments(*against_kalman(Adaptive(resampler, threshold)))


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("resampler", SMOOTHING.values(), ids=SMOOTHING)
def test_adaptive_smoothing_keeps_moments_and_evidence_exact(resampler, threshold):
    # How often the kernel widens the belief is random now; a tiny kernel makes it nothing.
    assert_exact_moments(*against_kalman(Adaptive(resampler, threshold), scale=1e-4))


# Rules that are biased at any number of particles, and by how much: in posterior standard deviations, with 32 particles. (Every
# filter has a bias of the order of 1 / 32 at 32 particles; the stated one comes on top and shrinks with the parameter.)
BIASED = {
    "concrete-0.1": (resamplers.Concrete(0.1), 0.12),
    "concrete-0.5": (resamplers.Concrete(0.5), 0.2),
    "transport-0.1": (OptimalTransport(0.1), 0.1),
    "transport-0.5": (OptimalTransport(0.5), 0.2),
    "diffusion": (resamplers.Diffusion(smoothing=0.0), 0.05),
    "diffusion-smoothed": (resamplers.Diffusion(), 0.05),
    "diffusion-flow": (resamplers.Diffusion(stochastic=False), 0.05),
}


@pytest.mark.parametrize("name", BIASED)
@pytest.mark.parametrize("adaptive", [False, True], ids=["always", "adaptive"])
def test_biased_filter_stays_within_its_bound(name, adaptive):
    resampler, bound = BIASED[name]
    trajectory, exact = against_kalman(Adaptive(resampler) if adaptive else resampler, num_particles=32, num_replicates=250)
    assert_small_bias(trajectory, exact, bound)


def test_adaptive_particle_filter_with_equal_heads_agrees_with_kalman():
    def make(dynamics, measurement, bandwidth):
        def twice(particles, observation):
            return measurement(particles, observation).unsqueeze(-1).expand(*particles.shape[:-1], 2)

        return mdpf.AdaptiveParticleFilter(
            dynamics=dynamics,
            measurement=twice,
            bandwidth=bandwidth,
            resampling_bandwidth=bandwidth,
            resampler=resamplers.ImportanceWeighted(),
        )

    check_filter(make, smooths=True)


def test_adaptive_particle_filter_with_different_heads_agrees_with_two_kalman_updates():
    """Beliefs travel by the second head and its kernel; the first makes of each what is reported, without a trace in the next."""
    model = example_model(dtype=torch.float64)
    doubtful = model._replace(emission_cov=6 * model.emission_cov)
    data, (narrow, wide) = example_data(model), (torch.tensor(each, dtype=torch.float64) for each in ([0.3, 0.2], [0.6, 0.7]))
    first, second = log_likelihood_of(model), log_likelihood_of(doubtful)
    pf = mdpf.AdaptiveParticleFilter(
        dynamics=dynamics_of(model),
        measurement=lambda particles, feature: torch.stack([first(particles, feature), second(particles, feature)], -1),
        bandwidth=FixedBandwidth(kernels.Gaussian(narrow)),
        resampling_bandwidth=FixedBandwidth(kernels.Gaussian(wide)),
        resampler=resamplers.ImportanceWeighted(),
    )
    found = run_replicates(pf, data, 512, 100, torch.Generator().manual_seed(5))

    def choose(mask, value, other):
        return [one.where(mask.view(2, *[1] * (one.ndim - 1)), rest) for one, rest in zip(value, other, strict=True)]

    belief = reported = (model.initial_mean.expand(2, -1), model.initial_cov.expand(2, -1, -1))
    means, covs, evidence = [], [], []
    for t in range(data.valid.shape[1]):
        mean, cov = belief
        moved = kalman.predict(model, mean, cov + torch.diag(wide.square()) if t > 0 else cov, data.actions[:, t])
        *told, log_evidence = kalman.update(model, *moved, data.observations[:, t])
        *doubted, _ = kalman.update(doubtful, *moved, data.observations[:, t])
        exists, sees = data.valid[:, t], (data.observed & data.valid)[:, t]
        belief = choose(exists, choose(sees, doubted, moved), belief)
        reported = choose(exists, choose(sees, told, moved), reported)
        means.append(reported[0])
        covs.append(reported[1] + torch.diag(narrow.square()))
        evidence.append(log_evidence.where(sees, 0.0))
    exact = KalmanTrajectory(torch.stack(means, 1), torch.stack(covs, 1), torch.stack(evidence, 1))
    assert_small_bias(found, exact, 0.02)
    spread = found.posterior.covariance().mean(0)
    torch.testing.assert_close(spread, exact.covariances, rtol=0.03, atol=0.01)


def test_filter_covariance_and_evidence_converge_at_the_root_of_n():
    sizes = (128, 512, 2048)
    spread, surprise = [], []
    for size in sizes:
        trajectory, exact = against_kalman(Adaptive(resamplers.Discrete()), num_particles=size, num_replicates=100)
        spread.append((trajectory.posterior.covariance() - exact.covariances).abs().mean((-1, -2))[:, 0, -1])
        surprise.append((trajectory.info.log_evidence - exact.log_evidence).abs().mean((-1, -2)))
    assert_decays(sizes, torch.stack(spread, -1), 0.5, max_se=0.05)
    assert_decays(sizes, torch.stack(surprise, -1), 0.5, max_se=0.05)


# --- Mutants ----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bent:
    """A resampler with its draw bent out of shape."""

    bend: object
    inner: object = resamplers.Discrete()

    def __call__(self, mixture, num_particles, *, generator=None):
        return self.bend(mixture, self.inner(mixture, num_particles, generator=generator))


def uniform(draw):
    return torch.full_like(draw.log_weights, -math.log(draw.log_weights.shape[-1]))


MUTANTS = {
    "carried weights dropped": Bent(
        lambda mixture, draw: draw._replace(log_weights=uniform(draw)), Adaptive(resamplers.Discrete())
    ),
    "log n forgotten": Bent(lambda mixture, draw: draw._replace(log_weights=torch.zeros_like(draw.log_weights))),
    "log n forgotten where weights are carried": Bent(
        lambda mixture, draw: draw._replace(
            log_weights=torch.where((draw.log_weights == uniform(draw)), draw.log_weights, draw.log_weights + math.log(16))
        ),
        Adaptive(resamplers.Discrete()),
    ),
    "correction forgotten": Bent(lambda mixture, draw: draw._replace(log_weights=uniform(draw)), resamplers.Soft(0.4)),
    "weights of other particles": Bent(
        lambda mixture, draw: draw._replace(log_weights=draw.log_weights.roll(1, -1)), resamplers.Soft(0.4)
    ),
    "weighted again after resampling": Bent(
        lambda mixture, draw: draw._replace(log_weights=mixture.log_weights), resamplers.Discrete(selection.systematic)
    ),
    "resampled without need of weights": Bent(lambda mixture, draw: Draw(mixture.locs, uniform(draw))),
    "cloud shrunk": Bent(
        lambda mixture, draw: draw._replace(points=0.9 * draw.points + 0.1 * mixture.mean().unsqueeze(-2)),
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_mutant_resampler_is_found_out(mutant):
    with pytest.raises(AssertionError, match="weighted by evidence|over its exact value"):
        assert_exact_moments(*against_kalman(mutant))


def test_mutant_filters_are_found_out():
    class ResamplesAtOnce(mdpf.ParticleFilter):
        def init(self, particles, log_weights=None):
            belief = super().init(particles, log_weights)
            return Belief(belief.posterior, belief.posterior)

    class WeighsBeforeMoving(mdpf.ParticleFilter):
        def step(self, belief, feature, action=None, *, observed=None, generator=None):
            scores = torch.where(observed[..., None], self.measurement(belief.particles, feature.nan_to_num(0.0)), 0.0)
            weights = reweight(belief.posterior.log_weights, scores)
            posterior = belief.posterior._replace(log_weights=weights.log_weights)
            new, info = super().step(Belief(posterior, posterior), None, action, generator=generator)
            return new, info._replace(log_evidence=weights.log_evidence)

    class UnweightedEvidence(mdpf.ParticleFilter):
        def step(self, belief, feature, action=None, *, observed=None, generator=None):
            new, info = super().step(belief, feature, action, observed=observed, generator=generator)
            scores = torch.where(observed[..., None], self.measurement(new.particles, feature.nan_to_num(0.0)), 0.0)
            return new, info._replace(log_evidence=scores.logsumexp(-1) - math.log(scores.shape[-1]))

    class UsesTheGlobalStream(mdpf.ParticleFilter):
        def step(self, belief, feature, action=None, *, observed=None, generator=None):
            return super().step(belief, feature, action, observed=observed)

    def reject(cls, resampler, smooths, match):
        with pytest.raises(AssertionError, match=match):
            check_filter(lambda **parts: cls(resampler=resampler, **parts), smooths=smooths, num_replicates=2000)

    reject(ResamplesAtOnce, resamplers.Truncated(), True, "right after init")
    reject(WeighsBeforeMoving, resamplers.Discrete(), False, "over its exact value|weighted by evidence")
    reject(UnweightedEvidence, Adaptive(resamplers.Discrete()), False, "over its exact value|weighted by evidence")
    reject(UsesTheGlobalStream, resamplers.Discrete(), False, "equals the same step|global stream")
    reject(mdpf.ParticleFilter, resamplers.Truncated(), False, "over its exact value|weighted by evidence")


def test_check_filter_bounds_the_bias_of_biased_rules():
    with pytest.raises(AssertionError, match="posterior standard deviations, more than 0.06"):
        check_filter(makes(resamplers.Concrete(2.0)), smooths=False, bias=0.06, num_replicates=1000)
    with pytest.raises(AssertionError, match="no power"):
        check_filter(makes(resamplers.Discrete()), smooths=False, bias=0.01, num_replicates=100)


def test_check_belief_names_what_is_wrong():
    locs, log_weights = torch.zeros(2, 3, 1), torch.full((2, 3), -math.log(3))
    good = mdpf.Mixture(locs, log_weights, kernels.Gaussian(torch.ones(2, 1)))
    check_belief(Belief(good, None))
    check_belief(Belief(good, good))
    bad = {
        "normalised": good._replace(log_weights=torch.zeros(2, 3)),
        "finite locs": good._replace(locs=locs / 0),
        "batch axes": good._replace(kernel=kernels.Gaussian(torch.ones(1))),
        "finite and positive": good._replace(kernel=kernels.Gaussian(torch.zeros(2, 1))),
        "float64": good._replace(kernel=kernels.Gaussian(torch.ones(2, 1, dtype=torch.float64))),
    }
    for words, mixture in bad.items():
        with pytest.raises(AssertionError, match=words):
            check_belief(Belief(mixture, None))
        with pytest.raises(AssertionError, match=words):
            check_belief(Belief(good, mixture))
    with pytest.raises(AssertionError, match="posterior"):
        check_belief(Belief(good, mdpf.Mixture(locs[:, :1], torch.zeros(2, 1), good.kernel)))
    with pytest.raises(AssertionError, match="got Mixture"):
        check_belief(good)
