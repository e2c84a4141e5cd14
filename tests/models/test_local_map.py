"""Crops of the map: their geometry against the formula, blurring, borders, gradients, and models made of them."""

import math

import numpy as np
import pytest
import torch

from mdpf.models import LocalMap, MapRecurrentNetwork, MapScoreNetwork, MapView, RecurrentNetwork, Sight, stack_runs
from mdpf.models.blocks import mlp
from mdpf.models.local_map import FREE
from mdpf.spaces import StateSpace

SPACE = StateSpace.of("x", "y", theta="angle")


def cloudy(rows, columns, generator):
    return torch.rand(rows, columns, generator=generator) < 0.6


def naive_crop(free, pose, spacing=8, cells=28):
    """The published crop, cell by cell: row r and column c show the point 4 + 8 (27 - r) ahead and 8 (c - 13.5) aside."""
    x, y, theta = pose
    found = np.zeros((cells, cells))
    for row in range(cells):
        for column in range(cells):
            ahead, aside = 4 + 8 * (27 - row), 8 * (column - 13.5)
            # Towards theta, and towards theta + 90 degrees; a state coordinate s corresponds to index s - 0.5.
            j = x + ahead * math.cos(theta) + aside * math.cos(theta + math.pi / 2) - 0.5
            i = y + ahead * math.sin(theta) + aside * math.sin(theta + math.pi / 2) - 0.5
            found[row, column] = 2 * naive_bilinear(free, i, j)
    return found


def naive_bilinear(values, i, j):
    total = 0.0
    for k in (math.floor(i), math.floor(i) + 1):
        for m in (math.floor(j), math.floor(j) + 1):
            if 0 <= k < values.shape[0] and 0 <= m < values.shape[1]:
                total += (1 - abs(i - k)) * (1 - abs(j - m)) * float(values[k, m])
    return total


@pytest.mark.parametrize("pose", [(150.0, 120.0, 0.0), (150.3, 119.6, 0.7), (20.0, 250.0, -2.5), (310.0, -30.0, 3.0)])
def test_a_crop_of_single_pixels_is_the_published_one(pose, generator):
    free = cloudy(280, 300, generator)
    crop = LocalMap([free], blurred=False)
    found = crop(torch.tensor([[pose]], dtype=torch.float64), torch.tensor([0]))[0, 0]
    np.testing.assert_allclose(found.numpy(), naive_crop(free, pose), atol=1e-9)


def test_for_a_heading_along_x_the_left_of_a_crop_has_smaller_y():
    free = torch.ones(300, 300, dtype=torch.bool)
    free[:140] = False
    for blurred in (True, False):
        crop = LocalMap([free], blurred=blurred)(torch.tensor([[[20.0, 150.0, 0.0]]]), torch.tensor([0]))[0, 0]
        assert (crop[:, 0] == 0).all()
        assert (crop[:, -1] == FREE).all()


@pytest.mark.parametrize("blurred", [True, False])
def test_a_crop_reaches_448_pixels_and_sees_nothing_behind(blurred):
    crop = LocalMap([torch.ones(600, 600, dtype=torch.bool)], blurred=blurred)
    assert crop.reach == 224
    x, y = crop.places(torch.tensor([[[300.0, 200.0, math.pi / 2]]], dtype=torch.float64))
    assert y.min().item() == pytest.approx(204)
    assert y.max().item() == pytest.approx(420)
    assert (x.min().item(), x.max().item()) == (pytest.approx(192), pytest.approx(408))


def test_a_blurred_cell_shows_the_mean_of_its_pixels(generator):
    free = cloudy(290, 301, generator)
    crop = LocalMap([free])
    # The middle of a box is at a multiple of the spacing's half, plus a quarter: there the mean is exact.
    pose = torch.tensor([[[146.0, 142.0, 0.0]]], dtype=torch.float64)
    found = crop(pose, torch.tensor([0]))[0, 0]
    for row, column in ((27, 13), (20, 3), (10, 20)):
        x, y = (int(place[0, 0, row, column]) for place in crop.places(pose))
        box = free[y - 4 : y + 4, x - 4 : x + 4].double()
        assert found[row, column].item() == pytest.approx(2 * box.mean().item(), abs=1e-12)


def test_a_thin_wall_is_never_lost_in_a_blurred_crop():
    """Single pixels miss a wall of 5 pixels at some distances; the mean never does."""
    lost = {}
    for blurred in (True, False):
        depth = []
        for shift in range(8):
            free = torch.ones(400, 400, dtype=torch.bool)
            free[:, 150 + shift : 155 + shift] = False
            poses = torch.tensor([[[100.0, 150.0, 0.0]]])
            depth.append((FREE - LocalMap([free], blurred=blurred)(poses, torch.tensor([0]))[0, 0, :, 14]).sum().item())
        lost[blurred] = min(depth) / max(depth)
    assert lost[False] == 0
    assert lost[True] > 0.9


def test_maps_of_different_size_share_a_table_and_are_told_apart(generator):
    maps = [cloudy(90, 120, generator), cloudy(200, 60, generator)]
    crop = LocalMap(maps)
    poses = torch.rand(2, 3, 5, 3, generator=generator) * torch.tensor([150.0, 150.0, 6.0])
    index = torch.tensor([[0, 1, 0], [1, 1, 0]])
    together = crop(poses, index)
    assert together.shape == (2, 3, 5, 28, 28)
    for which, free in enumerate(maps):
        alone = LocalMap([free])(poses, torch.zeros_like(index))
        torch.testing.assert_close(together[index == which], alone[index == which])
    assert crop.table.dtype == torch.uint8
    assert not crop.state_dict()


@pytest.mark.parametrize("blurred", [True, False])
def test_the_gradient_reaches_the_pose(blurred, generator):
    crop = LocalMap([cloudy(260, 240, generator)], cells=6, spacing=8, blurred=blurred)
    poses = (torch.rand(2, 3, 3, generator=generator, dtype=torch.float64) * torch.tensor([200.0, 200.0, 6.0])).requires_grad_()
    assert torch.autograd.gradcheck(lambda value: crop(value, torch.tensor([0, 0])), (poses,), eps=1e-7, atol=1e-5)
    (gradient,) = torch.autograd.grad(crop(poses, torch.tensor([0, 0])).square().sum(), poses)
    assert (gradient.abs().sum((0, 1)) > 0).all()


def test_bad_maps_and_poses_are_refused(generator):
    free = cloudy(20, 20, generator)
    with pytest.raises(ValueError, match=r"bool tensor \[rows, columns\], got a float32 tensor of shape \[20, 20\] for map 1"):
        LocalMap([free, free.float()])
    with pytest.raises(ValueError, match="an even spacing and at least one map, got 7 and 1 maps"):
        LocalMap([free], spacing=7)
    crop = LocalMap([free])
    with pytest.raises(ValueError, match=r"with leading axes \[2\], got a int64 tensor of shape \[3\]. One map for each"):
        crop(torch.zeros(2, 5, 3), torch.zeros(3, dtype=torch.long))
    with pytest.raises(ValueError, match=r"one map for each batch element \[2\], int64, got a int32"):
        crop(torch.zeros(2, 5, 3), torch.zeros(2, dtype=torch.int32))


class TinyEncoder(torch.nn.Module):
    """Crops of 4 by 4 to five numbers."""

    def __init__(self):
        super().__init__()
        self.layers = mlp([16, 5])

    def forward(self, images):
        return self.layers(images.flatten(-3))


def tiny_view(free):
    return MapView(LocalMap([free, ~free], cells=4, spacing=8), TinyEncoder())


@pytest.mark.parametrize("num_heads", [1, 2])
def test_scores_depend_on_image_and_map_and_runs_are_independent(num_heads, generator):
    free = cloudy(60, 60, generator)
    torch.manual_seed(1)
    singles = [MapScoreNetwork(tiny_view(free), feature_dim=8, hidden_dim=6, num_heads=num_heads).double() for _ in range(2)]
    stacked = stack_runs(singles)
    particles = torch.rand(2, 3, 7, 3, generator=generator, dtype=torch.float64) * torch.tensor([60.0, 60.0, 6.0])
    sight = Sight(torch.randn(2, 3, 3, generator=generator, dtype=torch.float64), torch.tensor([[0, 1, 0], [1, 0, 0]]))
    found = stacked(particles, sight)
    assert found.shape == ((2, 3, 7) if num_heads == 1 else (2, 3, 7, 2))
    assert (found <= 0).all()
    for run, single in enumerate(singles):
        alone = single(particles[run], Sight(sight.feature[run], sight.index[run]))
        torch.testing.assert_close(found[run], alone, rtol=1e-12, atol=1e-12)
    assert not torch.equal(found, stacked(particles, sight._replace(index=1 - sight.index)))
    assert not torch.equal(found, stacked(particles, sight._replace(feature=-sight.feature)))


def test_a_recurrent_network_sees_the_map_around_its_estimate(generator):
    free = cloudy(60, 60, generator)
    torch.manual_seed(1)
    network = RecurrentNetwork(SPACE, feature_dim=8, bound=(75, 75, 0.99, 0.99), encoder_dim=4, memory_dim=6, num_layers=2)
    network = MapRecurrentNetwork(network, tiny_view(free)).double()
    state = torch.tensor([[30.0, 30.0, 0.3]], dtype=torch.float64)
    memory = torch.zeros(1, *network.memory_shape, dtype=torch.float64)
    feature = torch.randn(1, 3, generator=generator, dtype=torch.float64)
    first, other = (network(state, Sight(feature, torch.tensor([index])), None, memory, memory)[0] for index in (0, 1))
    assert not torch.equal(first, other)
    with pytest.raises(TypeError, match="the number of the map with every feature"):
        network(state, feature, None, memory, memory)
