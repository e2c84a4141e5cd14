"""The check accepts what is right and rejects every one of these mutants, each for its own reason."""

import math

import pytest
import torch

from mdpf import noise, resamplers
from mdpf.mixture import gather
from mdpf.ops import mixture_log_prob
from mdpf.resamplers import Draw
from mdpf.resamplers.weights import uniform_log_weights, weight_one
from mdpf.selection import multinomial
from mdpf.testing.resamplers import INPUTS, check_resampler

pytestmark = pytest.mark.statistical

DISCRETE = {"smoothed": False, "unbiased_gradient": ("weights", "locs"), "no_gradient": ("bandwidth",)}
CUT = {"unbiased_gradient": (), "no_gradient": INPUTS}


def weights_not_gathered(mixture, num_particles, *, generator=None):
    uniform = torch.full_like(mixture.log_weights, -math.log(mixture.num_components))
    ancestors = multinomial(uniform, num_particles, generator=generator)
    padding = (0, max(num_particles - mixture.num_components, 0))
    log_ratio = torch.nn.functional.pad(mixture.log_weights - uniform, padding)[..., :num_particles]
    return Draw(gather(mixture.locs, ancestors), log_ratio - math.log(num_particles))


def log_n_forgotten(mixture, num_particles, *, generator=None):
    draw = resamplers.StopGradient()(mixture, num_particles, generator=generator)
    return draw._replace(log_weights=draw.log_weights + math.log(num_particles))


def ancestors_off_by_one(mixture, num_particles, *, generator=None):
    ancestors = (multinomial(mixture.log_weights, num_particles, generator=generator) + 1) % mixture.num_components
    return Draw(gather(mixture.locs, ancestors), weight_one(mixture.log_weights.gather(-1, ancestors)))


def smoothing_forgotten(mixture, num_particles, *, generator=None):
    return resamplers.Discrete()(mixture, num_particles, generator=generator)


def wrong_sign(mixture, num_particles, *, generator=None):
    points = mixture.sample(num_particles, generator=generator).detach()
    return Draw(points, weight_one(-mixture.log_prob(points)))


def points_not_detached(mixture, num_particles, *, generator=None):
    points = mixture.sample(num_particles, generator=generator)
    return Draw(points, weight_one(mixture.log_prob(points)))


def self_normalised(mixture, num_particles, *, generator=None):
    draw = resamplers.ImportanceWeighted()(mixture, num_particles, generator=generator)
    return draw._replace(log_weights=draw.log_weights.log_softmax(-1))


def bandwidth_forgotten(mixture, num_particles, *, generator=None):
    points = mixture.sample(num_particles, generator=generator).detach()
    kernel = resamplers.pathwise.detach(mixture.kernel)
    return Draw(points, weight_one(mixture_log_prob(points, mixture.locs, mixture.log_weights, kernel)))


def gradient_not_cut(mixture, num_particles, *, generator=None):
    return Draw(mixture.sample(num_particles, generator=generator), uniform_log_weights(mixture, num_particles))


def global_stream(mixture, num_particles, *, generator=None):
    return resamplers.ImportanceWeighted()(mixture, num_particles)


def one_number_for_the_batch(mixture, num_particles, *, generator=None):
    level = noise.uniform((num_particles,), mixture.locs, generator).expand(*mixture.batch_shape, num_particles)
    return resamplers.Discrete()(mixture, num_particles, generator=noise.Noise((level,)))


def in_place(mixture, num_particles, *, generator=None):
    draw = resamplers.Truncated()(mixture, num_particles, generator=generator)
    mixture.locs.detach().add_(1.0)
    return draw


def in_single_precision(mixture, num_particles, *, generator=None):
    draw = resamplers.Truncated()(mixture, num_particles, generator=generator)
    return Draw(draw.points.float().to(mixture.locs), draw.log_weights.float())


def values_of_grad_mode(mixture, num_particles, *, generator=None):
    rule = resamplers.ImportanceWeighted() if torch.is_grad_enabled() else resamplers.Discrete()
    return rule(mixture, num_particles, generator=generator)


class _Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.clamp(-20, 20)


def clipped(mixture, num_particles, *, generator=None):
    draw = resamplers.ImportanceWeighted()(mixture, num_particles, generator=generator)
    return draw._replace(log_weights=_Clip.apply(draw.log_weights))


def not_a_number_at_zero_weight(mixture, num_particles, *, generator=None):
    draw = resamplers.Truncated()(mixture, num_particles, generator=generator)
    return draw._replace(log_weights=draw.log_weights + 0 * mixture.log_weights.sum(-1, keepdim=True))


MUTANTS = [
    (weights_not_gathered, DISCRETE, "mass.*z = "),
    (log_n_forgotten, DISCRETE, "mass.*z = "),
    (ancestors_off_by_one, DISCRETE, "mean of 5 particles.*z = "),
    (smoothing_forgotten, CUT, "mean of 5 particles.*z = "),
    (one_number_for_the_batch, {**CUT, "smoothed": False}, "no power|z = |batch element"),
    (wrong_sign, {}, "gradient to weights.*z = "),
    (points_not_detached, {}, "gradient to locs.*z = "),
    (self_normalised, {}, "gradient to weights.*z = "),
    (bandwidth_forgotten, {}, "gradient to bandwidth.*z = "),
    (gradient_not_cut, CUT, "gradient to locs.*exactly zero"),
    (resamplers.Soft(), DISCRETE, "gradient to weights.*z = "),
    (global_stream, {}, "global random stream"),
    (in_place, CUT, "has changed"),
    (in_single_precision, CUT, "dtype"),
    (not_a_number_at_zero_weight, CUT, "finite"),
    (values_of_grad_mode, {}, "mean of 5 particles|without gradient"),
    (clipped, {}, "loss times 100"),
]


@pytest.mark.parametrize(("mutant", "claims", "reason"), MUTANTS, ids=lambda value: getattr(value, "__name__", ""))
def test_check_rejects_a_mutant(mutant, claims, reason):
    with pytest.raises(AssertionError, match=f"(?s){reason}"):
        check_resampler(mutant, **claims, num_replicates=2000, max_se=0.04)


def test_check_rejects_a_clipped_gradient_that_is_unbiased_by_claim_of_nothing():
    with pytest.raises(AssertionError, match="loss times 100"):
        check_resampler(clipped, unbiased_gradient=())


def test_check_rejects_different_values_without_gradient():
    with pytest.raises(AssertionError, match="without gradient"):
        check_resampler(values_of_grad_mode, unbiased=False, unbiased_gradient=())


@pytest.mark.parametrize("claims", [{"no_gradient": ("weights",)}, {"unbiased_gradient": ("everything",)}])
def test_check_rejects_claims_that_contradict_or_are_unknown(claims):
    with pytest.raises(ValueError, match="disjoint"):
        check_resampler(resamplers.Truncated(), **claims)
