"""The check of kernels rejects kernels that are subtly wrong, each for its own reason."""

import math
from typing import NamedTuple

import pytest
import torch

from mdpf.kernels import Gaussian, VonMises
from mdpf.spaces import StateSpace
from mdpf.testing.kernels import check_kernel


def broken(original, **changes):
    """A kernel of one field like the original, with some methods replaced."""

    class Mutant(NamedTuple):
        parameter: torch.Tensor

    def inherit(name):
        return lambda self, *args, **options: getattr(original(self.parameter), name)(*args, **options)

    for name in ("log_prob", "log_factors", "scores", "cdf", "sample", "variance"):
        setattr(Mutant, name, changes.get(name, inherit(name)))
    Mutant.state_dim = property(lambda self: self.parameter.shape[-1])
    Mutant.space = property(lambda self: original(self.parameter).space)
    Mutant.select = changes.get("select", lambda self, dims: Mutant(self.parameter[..., list(dims)]))
    return Mutant(torch.tensor([0.5, 2.0], dtype=torch.float64))


def unnormalised(self, x, loc):
    return -0.5 * ((x - loc) / self.parameter[..., None, :]).square().sum(-1)


def too_wide(self, loc, *, generator=None):
    return Gaussian(1.05 * self.parameter).sample(loc, generator=generator)


def from_the_global_stream(self, loc, *, generator=None):
    return Gaussian(self.parameter).sample(loc)


def without_gradient(self, loc, *, generator=None):
    return loc + (Gaussian(self.parameter).sample(loc, generator=generator) - loc).detach()


def modifying(self, loc, *, generator=None):
    drawn = Gaussian(self.parameter).sample(loc, generator=generator)
    loc.detach().add_(1.0)
    return drawn


def unwrapped_draw(self, loc, *, generator=None):
    return loc + VonMises(self.parameter).sample(torch.zeros_like(loc), generator=generator)


def unwrapped_density(self, x, loc):
    return Gaussian(self.parameter.rsqrt()).log_factors(x, loc)


def right_aligned(self, x, loc):
    return (-0.5 * ((x - loc) / self.parameter).square() - self.parameter.log() - 0.5 * math.log(2 * math.pi)).sum(-1)


def wrapped_normal_cdf(self, x, loc):
    turns = ((x - loc) / (2 * math.pi)).round()
    return turns + Gaussian(self.parameter.rsqrt()).cdf(x - 2 * math.pi * turns, loc)


MUTANTS = {
    "density that does not integrate to one": (broken(Gaussian, log_prob=unnormalised), "integral"),
    "draws five per cent too wide": (broken(Gaussian, sample=too_wide), "variance of the draws"),
    "variance that is a standard deviation": (broken(Gaussian, variance=lambda self: self.parameter), "variance 0"),
    "draws without a gradient to the width": (broken(Gaussian, sample=without_gradient), "derivative of a draw"),
    "draws that ignore the generator": (broken(Gaussian, sample=from_the_global_stream), "another draw"),
    "draws that write into the locations": (broken(Gaussian, sample=modifying), "."),
    "parameters aligned from the right": (broken(Gaussian, log_prob=right_aligned), "."),
    "selection that forgets the order": (
        broken(Gaussian, select=lambda self, dims: type(self)(self.parameter[..., sorted(dims)])),
        "another order",
    ),
    "angles that are not wrapped": (broken(VonMises, sample=unwrapped_draw), "outside"),
    "density without the period": (
        broken(VonMises, log_factors=unwrapped_density, log_prob=lambda self, x, loc: unwrapped_density(self, x, loc).sum(-1)),
        "integral",
    ),
    "a normal's distribution function on the circle": (broken(VonMises, cdf=wrapped_normal_cdf), "cdf"),
    "scores with the wrong sign": (broken(Gaussian, scores=lambda self, x, loc: x - loc), "scores"),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", MUTANTS)
def test_check_kernel_rejects(name, generator):
    mutant, reason = MUTANTS[name]
    with pytest.raises((AssertionError, RuntimeError), match=reason):
        check_kernel(mutant, generator=generator)


@pytest.mark.statistical
def test_check_kernel_accepts_what_is_right(generator):
    check_kernel(broken(Gaussian), generator=generator)
    check_kernel(broken(VonMises), generator=generator)


def test_check_kernel_asks_for_double_precision(generator):
    with pytest.raises(ValueError, match=r"got torch\.float32\. .* make them with dtype=torch\.float64\.$"):
        check_kernel(Gaussian(torch.ones(1)), generator=generator)


class Laplace(NamedTuple):
    """A correct kernel of somebody else's, with no more than the protocol asks for."""

    spread: torch.Tensor

    @property
    def state_dim(self):
        return self.spread.shape[-1]

    @property
    def space(self):
        return StateSpace.of(*(str(dim) for dim in range(self.state_dim)))

    def _aligned(self, states):
        return self.spread[(..., *[None] * (states.ndim - self.spread.ndim), slice(None))] if self.spread.ndim > 1 else self.spread

    def log_prob(self, x, loc):
        spread = self._aligned(x - loc)
        return (-(x - loc).abs() / spread - (2 * spread).log()).sum(-1)

    def sample(self, loc, *, generator=None):
        from mdpf import noise

        level = noise.uniform(tuple(loc.shape), loc, generator) - 0.5
        return loc - self._aligned(loc) * level.sign() * (-2 * level.abs()).log1p()

    def variance(self):
        return 2 * self.spread.square()

    def select(self, dims):
        return Laplace(self.spread[..., list(dims)])


@pytest.mark.statistical
def test_check_kernel_accepts_a_kernel_from_elsewhere_without_a_cdf(generator):
    check_kernel(Laplace(torch.tensor([0.5, 2.0], dtype=torch.float64)), generator=generator)
