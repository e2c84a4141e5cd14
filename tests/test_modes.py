"""How many hypotheses, where, how heavy: on mixtures where one can see the answer, or compute it on a grid."""

import math

import pytest
import torch
from torch.testing import assert_close

from mdpf import Mixture
from mdpf.kernels import Biweight, Epanechnikov, Gaussian, Product, VonMises
from mdpf.modes import find_modes

CLUSTERS = torch.tensor([[-4.0], [-3.9], [0.1], [4.0], [4.2], [3.9]], dtype=torch.float64)


def gaussian(locs, weights=None, scale=0.5):
    locs = torch.as_tensor(locs, dtype=torch.float64)
    weights = torch.full(locs.shape[:-1], 1 / locs.shape[-2]) if weights is None else torch.tensor(weights)
    return Mixture(locs, weights.double().log(), Gaussian(torch.full(locs.shape[-1:], scale, dtype=torch.float64)))


@pytest.mark.parametrize(("num_clusters", "last"), [(1, 2), (2, 3), (3, 6)])
def test_modes_of_separate_clusters_are_counted(num_clusters, last):
    assert int(find_modes(gaussian(CLUSTERS[:last])).count) == num_clusters


def test_modes_are_the_maxima_of_the_density_heaviest_first():
    mixture = gaussian(CLUSTERS, [0.1, 0.25, 0.05, 0.2, 0.3, 0.1])
    modes = find_modes(mixture)
    assert_close(modes.weights[:4], torch.tensor([0.6, 0.35, 0.05, 0.0], dtype=torch.float64))
    grid = torch.linspace(-6, 6, 120_001, dtype=torch.float64)
    density = mixture.log_prob(grid[:, None])
    peaks = grid[1:-1][(density[1:-1] > density[:-2]) & (density[1:-1] > density[2:])]
    assert_close(modes.points[:3, 0].sort().values, peaks, rtol=0, atol=2e-4)
    assert modes.labels.tolist() == [1, 1, 2, 0, 0, 0]


@pytest.mark.parametrize("kernel", [Epanechnikov, Biweight])
def test_modes_of_compact_kernels_are_counted(kernel):
    mixture = Mixture(CLUSTERS, torch.full((6,), -math.log(6)).double(), kernel(torch.tensor([1.5], dtype=torch.float64)))
    modes = find_modes(mixture)
    assert int(modes.count) == 3
    assert_close(modes.points[0], torch.tensor([4.03], dtype=torch.float64), rtol=0, atol=0.05)


def test_modes_across_the_seam_of_an_angle_are_one():
    locs = torch.tensor([[3.1], [-3.1], [3.0], [0.0]], dtype=torch.float64)
    mixture = Mixture(locs, torch.full((4,), 0.25).double().log(), VonMises(torch.tensor([20.0], dtype=torch.float64)))
    modes = find_modes(mixture)
    assert int(modes.count) == 2
    assert_close(modes.weights[:2], torch.tensor([0.75, 0.25], dtype=torch.float64))
    middle = (2 * math.pi - 3.1 + 3.1 + 3.0) / 3
    assert_close(modes.points[0].abs(), torch.tensor([middle], dtype=torch.float64), rtol=0, atol=1e-2)


def test_a_mode_on_the_seam_itself_is_one_from_both_sides():
    locs = torch.tensor([[math.pi - 0.1], [0.1 - math.pi], [math.pi - 0.05], [0.05 - math.pi]], dtype=torch.float64)
    mixture = Mixture(locs, torch.full((4,), 0.25).double().log(), VonMises(torch.tensor([20.0], dtype=torch.float64)))
    modes = find_modes(mixture, num_steps=5)
    assert int(modes.count) == 1
    assert modes.labels.tolist() == [0] * 4
    assert_close(modes.points[0].abs(), torch.tensor([math.pi], dtype=torch.float64), rtol=0, atol=1e-3)


def test_modes_of_poses_tell_opposite_headings_apart():
    locs = torch.tensor([[0.0, 0.0, 3.1], [0.1, 0.0, -3.1], [0.0, 0.1, 0.0]], dtype=torch.float64)
    kernel = Product((Gaussian(torch.full((2,), 0.3).double()), VonMises(torch.tensor([20.0], dtype=torch.float64))))
    modes = find_modes(Mixture(locs, torch.full((3,), 1 / 3).double().log(), kernel))
    assert int(modes.count) == 2
    assert modes.labels.tolist() == [0, 0, 1]


def test_modes_of_a_batch_are_those_of_its_elements(batch, generator, dtype):
    locs = 3 * torch.randn(*batch, 12, 2, generator=generator, dtype=dtype)
    weights = torch.randn(*batch, 12, generator=generator, dtype=dtype).log_softmax(-1)
    scale = 0.5 + torch.rand(*batch, 2, generator=generator, dtype=dtype)
    whole = find_modes(Mixture(locs, weights, Gaussian(scale)))
    assert whole.points.shape == (*batch, 10, 2)
    flat = [tensor.reshape(-1, *tensor.shape[len(batch) :]) for tensor in (locs, weights, scale)]
    alone = [find_modes(Mixture(loc, weight, Gaussian(width))) for loc, weight, width in zip(*flat, strict=True)]
    assert torch.equal(whole.count.flatten(), torch.stack([modes.count for modes in alone]))
    assert_close(whole.weights.reshape(-1, 10), torch.stack([modes.weights for modes in alone]))
    assert torch.equal(whole.labels.reshape(-1, 12), torch.stack([modes.labels for modes in alone]))


def test_modes_without_room_are_left_out():
    modes = find_modes(gaussian(CLUSTERS, [0.1, 0.25, 0.05, 0.2, 0.3, 0.1]), max_modes=1)
    assert modes.points.shape == (1, 1)
    assert modes.labels.tolist() == [-1, -1, -1, 0, 0, 0]
    assert_close(modes.weights, torch.tensor([0.6], dtype=torch.float64))


def test_a_light_mode_is_found_but_not_counted():
    modes = find_modes(gaussian([[-4.0], [4.0]], [0.995, 0.005]))
    assert int(modes.count) == 1
    assert_close(modes.weights[1], torch.tensor(0.005, dtype=torch.float64))


def test_components_of_weight_zero_make_no_mode(dtype):
    locs = torch.tensor([[0.0], [0.1], [50.0]], dtype=dtype)
    for kernel in (Gaussian, Biweight):
        mixture = Mixture(locs, torch.tensor([0.5, 0.5, 0.0], dtype=dtype).log(), kernel(torch.ones(1, dtype=dtype)))
        modes = find_modes(mixture)
        assert int(modes.count) == 1
        assert_close(modes.weights[0], torch.tensor(1.0, dtype=dtype))
        assert modes.points.isfinite().all()


def test_coinciding_components_are_one_mode():
    modes = find_modes(gaussian(torch.zeros(5, 3)))
    assert int(modes.count) == 1
    assert_close(modes.points[0], torch.zeros(3, dtype=torch.float64))


def test_modes_carry_no_gradient():
    locs = torch.zeros(3, 1, requires_grad=True)
    modes = find_modes(Mixture(locs, torch.full((3,), -math.log(3)), Gaussian(torch.ones(1))))
    assert not modes.points.requires_grad


@pytest.mark.parametrize("choice", [{"max_modes": 0}, {"radius": 0.0}, {"radius": math.nan}, {"num_steps": 0}])
def test_modes_refuse_choices_without_sense(choice):
    with pytest.raises(ValueError, match="find_modes needs"):
        find_modes(gaussian(CLUSTERS), **choice)
