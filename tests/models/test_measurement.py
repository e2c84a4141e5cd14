"""Learned scores: bounded, periodic, one for each particle on its own."""

import math

import pytest
import torch

from mdpf.models import ScoreNetwork
from mdpf.models.measurement import LOWEST_SCORE
from mdpf.spaces import StateSpace

SPACE = StateSpace.of("x", theta="angle")


def make(num_heads=1, scale=1.0, dtype=torch.float64):
    torch.manual_seed(1)
    network = ScoreNetwork(SPACE, feature_dim=3, particle_sizes=(6, 6), hidden_dim=6, num_heads=num_heads).to(dtype)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(scale)
    return network


def inputs(generator, *batch, dtype=torch.float64):
    particles = torch.randn(*batch, 5, 2, generator=generator, dtype=torch.float64)
    return particles.to(dtype), torch.randn(*batch, 3, generator=generator, dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("num_heads", [1, 2])
def test_scores_have_one_number_for_each_particle_and_head(num_heads, batch, generator):
    scores = make(num_heads)(*inputs(generator, *batch))
    assert scores.shape == ((*batch, 5) if num_heads == 1 else (*batch, 5, 2))


def test_scores_lie_between_the_floor_and_one_whatever_the_networks_say(dtype, generator):
    scores = make(scale=1000.0, dtype=dtype)(*inputs(generator, 300, dtype=dtype))
    assert scores.isfinite().all()
    assert scores.max() <= 0
    assert scores.min() >= math.log(LOWEST_SCORE) - 1e-5
    assert scores.max() - scores.min() > 11  # Both ends are reached.


def test_scores_follow_the_formula(generator):
    network, (particles, feature) = make(), inputs(generator)
    x, theta = particles.unbind(-1)
    encoded = network.particle_encoder(torch.stack([x, theta.sin(), theta.cos()], -1))
    output = network.heads[0](torch.cat([feature.expand(5, 3), encoded], -1)).squeeze(-1)
    expected = (1e-5 + (1 - 1e-5) * torch.sigmoid(output)).log()
    torch.testing.assert_close(network(particles, feature), expected)


@pytest.mark.parametrize("num_heads", [1, 2])
def test_scores_follow_the_order_of_the_particles_and_forget_whole_turns(num_heads, generator):
    network, (particles, feature) = make(num_heads), inputs(generator, 4)
    scores = network(particles, feature)
    order = torch.randperm(5, generator=generator)
    torch.testing.assert_close(network(particles[:, order], feature), scores[:, order])
    turn = torch.tensor([0.0, 2 * math.pi], dtype=torch.float64)
    torch.testing.assert_close(network(particles + turn, feature), scores)


def test_two_heads_share_their_encoder_and_nothing_else(generator):
    network, (particles, feature) = make(2), inputs(generator, 30)
    first = torch.autograd.grad(network(particles, feature)[..., 0].sum(), list(network.parameters()), allow_unused=True)
    reached = {
        name for (name, _), found in zip(network.named_parameters(), first, strict=True) if found is not None and found.any()
    }
    assert {name.split(".")[0] for name in reached} == {"particle_encoder", "heads"}
    assert all(not name.startswith("heads.1") for name in reached)


@pytest.mark.parametrize("num_heads", [1, 2])
def test_every_parameter_gets_a_gradient(num_heads, generator):
    network = make(num_heads)
    found = torch.autograd.grad(network(*inputs(generator, 40)).square().sum(), list(network.parameters()))
    assert all(gradient.any() for gradient in found)


def test_a_third_head_is_refused():
    with pytest.raises(ValueError, match="num_heads of 1 or 2, got 3"):
        make(3)
