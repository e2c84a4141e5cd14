"""Products: blocks of coordinates in order, chosen again in any order."""

import pytest
import torch

from mdpf import noise
from mdpf.kernels import Biweight, Gaussian, Product, VonMises, check_parameters, has_cdf
from mdpf.spaces import StateSpace

POSE = Product((Gaussian(torch.tensor([1.0, 2.0])), VonMises(torch.tensor([3.0])), Biweight(torch.tensor([4.0]))))


class WithoutCdf:
    """The least a kernel can be."""

    space, state_dim = StateSpace.of("0"), 1

    def log_prob(self, x, loc):
        return -(x - loc).abs().sum(-1) - torch.tensor(2.0).log()

    def sample(self, loc, *, generator=None):
        return loc

    def variance(self):
        return torch.tensor([2.0])

    def select(self, dims):
        return self


def test_space_numbers_the_coordinates_and_knows_the_angles():
    assert POSE.space.names == ("0", "1", "2", "3")
    assert POSE.space.angular == (2,)
    assert POSE.state_dim == 4


def test_log_density_is_the_sum_over_the_blocks(generator):
    x, loc = torch.randn(2, 5, 4, generator=generator)
    gauss, angle, edge = POSE.parts
    total = gauss.log_prob(x[:, :2], loc[:, :2]) + angle.log_prob(x[:, 2:3], loc[:, 2:3]) + edge.log_prob(x[:, 3:], loc[:, 3:])
    assert torch.allclose(POSE.log_prob(x, loc), total)
    assert torch.allclose(POSE.log_factors(x, loc).sum(-1), total)


def test_every_part_draws_its_own_noise_in_order(generator):
    recorder = noise.Recorder(generator)
    loc = torch.zeros(5, 4)
    draw = POSE.sample(loc, generator=recorder)
    parts = zip(POSE.parts, loc.split([2, 1, 1], -1), recorder.noise.draws, strict=True)
    assert torch.equal(draw, torch.cat([part.sample(block, generator=noise.Noise((own,))) for part, block, own in parts], -1))


@pytest.mark.parametrize("dims", [(0,), (2,), (3, 0), (2, 0, 1), (1, 2, 0, 3), (0, 2, 1)])
def test_select_takes_coordinates_across_blocks_in_any_order(dims, generator):
    x, loc = torch.randn(2, 5, 4, generator=generator)
    chosen = POSE.select(dims)
    picked = list(dims)
    assert torch.allclose(chosen.log_factors(x[:, picked], loc[:, picked]), POSE.log_factors(x, loc)[:, picked])
    assert torch.allclose(chosen.cdf(x[:, picked], loc[:, picked]), POSE.cdf(x, loc)[:, picked])
    assert torch.allclose(chosen.variance(), POSE.variance()[picked])
    assert chosen.space.angular == tuple(place for place, dim in enumerate(dims) if dim == 2)


def test_select_within_one_block_gives_that_kernel():
    assert isinstance(POSE.select((1, 0)), Gaussian)
    assert POSE.select((1, 0)).scale.tolist() == [2.0, 1.0]


def test_variance_joins_parts_with_and_without_batch_axes():
    kernel = Product((Gaussian(torch.full((2, 3, 1), 2.0)), Biweight(torch.ones(2)), Gaussian(torch.ones(2, 1))))
    variance = kernel.variance()
    assert variance.shape == (2, 3, 4)
    assert torch.allclose(variance[1, 2], torch.tensor([4.0, 1 / 7, 1 / 7, 1.0]))


def test_states_that_do_not_fit_the_blocks_are_refused():
    with pytest.raises(
        ValueError, match=r"Product.log_prob needs states of shape \[..., 4\], got a float32 tensor of shape \[5, 3\]"
    ):
        POSE.log_prob(torch.zeros(5, 3), torch.zeros(5, 3))


def test_a_product_has_a_distribution_function_only_if_every_part_has():
    assert has_cdf(POSE)
    assert not has_cdf(WithoutCdf())
    mixed = Product((Gaussian(torch.ones(1)), Product((WithoutCdf(),))))
    assert not has_cdf(mixed)
    assert mixed.log_prob(torch.zeros(2), torch.zeros(2)).isfinite()


@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_door_refuses_widths_that_are_not_positive(bad):
    kernel = Product((Gaussian(torch.ones(2)), Biweight(torch.tensor([1.0, bad]))))
    with pytest.raises(ValueError, match=f"here needs a positive Biweight.halfwidth, got {bad} in a float32 tensor"):
        check_parameters("here", kernel)


def test_door_refuses_what_is_not_finite_or_no_tensor():
    with pytest.raises(ValueError, match=r"here needs finite VonMises.concentration, got nan at index \[1\]"):
        check_parameters("here", VonMises(torch.tensor([1.0, torch.nan])))
    with pytest.raises(TypeError, match=r"needs Gaussian.scale to be a floating-point tensor of shape \[\*batch, d\], got 0.5"):
        check_parameters("here", Gaussian(0.5))
    with pytest.raises(TypeError, match=r"got a float32 tensor of shape \[\]"):
        check_parameters("here", Gaussian(torch.tensor(0.5)))


def test_door_lets_legal_kernels_pass():
    check_parameters("here", POSE)
    check_parameters("here", Gaussian(torch.ones(0, 2)))
    check_parameters("here", WithoutCdf())
