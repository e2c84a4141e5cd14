"""Learned dynamics: bounded, the same everywhere, equivariant to the order of the particles."""

import math

import pytest
import torch

from mdpf import noise
from mdpf.models import PReLU, ResidualDynamics
from mdpf.spaces import StateSpace

SPACE = StateSpace.of("x", theta="angle", y="linear")
BOUND = (0.9, 0.5, 0.7, 0.3)


def make(scale=1.0, **options):
    dynamics = ResidualDynamics(SPACE, bound=BOUND, hidden_dim=6, **options).double()
    with torch.no_grad():
        for parameter in dynamics.parameters():
            parameter.mul_(scale)
    return dynamics


def points(generator, *batch):
    raw = 3 * torch.randn(*batch, 5, 3, generator=generator, dtype=torch.float64)
    return SPACE.wrap(raw)


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_step_stays_within_the_bound_of_each_coordinate(scale, generator):
    x = points(generator, 200)
    moved = make(scale)(x, generator=generator)
    step = (moved - x)[..., [0, 2]].abs().amax((0, 1))
    assert (step <= torch.tensor([0.9, 0.5]) + 1e-6).all()  # The bound is kept in single precision until then.
    if scale > 1:
        assert (step > torch.tensor([0.89, 0.49])).all()
    assert (moved[..., 1] >= -math.pi).all()
    assert (moved[..., 1] < math.pi).all()


def test_step_follows_the_formula(generator):
    dynamics, x, eta = make(), points(generator), torch.randn(5, 4, generator=generator, dtype=torch.float64)
    theta = x[:, 1]
    inputs = torch.cat([eta, dynamics.state_encoder(torch.stack([theta.sin(), theta.cos()], -1))], -1)
    u = dynamics.step(inputs)
    encoded = torch.stack([x[:, 0], x[:, 2], theta.sin(), theta.cos()], -1)
    encoded = encoded + torch.tensor(BOUND, dtype=torch.float64) * (2 * torch.sigmoid(u) - 1)
    expected = torch.stack([encoded[:, 0], torch.atan2(encoded[:, 2], encoded[:, 3]), encoded[:, 1]], -1)
    # The bound is kept in single precision until the module is converted.
    torch.testing.assert_close(dynamics(x, generator=noise.Noise((eta,))), expected, rtol=1e-7, atol=1e-7)


def test_linear_coordinates_are_not_looked_at(generator):
    dynamics, x = make(), points(generator, 3)
    recorder = noise.Recorder(generator)
    moved = dynamics(x, generator=recorder)
    shift = torch.tensor([5.0, 0.0, -7.0], dtype=torch.float64)
    torch.testing.assert_close(dynamics(x + shift, generator=recorder.noise), moved + shift)


def test_linear_coordinates_are_looked_at_where_they_are_told_to(generator):
    dynamics, x = make(located=True), points(generator, 3)
    recorder = noise.Recorder(generator)
    moved = dynamics(x, generator=recorder)
    shift = torch.tensor([5.0, 0.0, -7.0], dtype=torch.float64)
    assert not torch.allclose(dynamics(x + shift, generator=recorder.noise), moved + shift, atol=1e-3)
    assert dynamics.state_encoder[0].weight.shape == (6, 4)


def test_a_whole_turn_changes_nothing(generator):
    dynamics, x = make(), points(generator, 3)
    recorder = noise.Recorder(generator)
    moved = dynamics(x, generator=recorder)
    turn = torch.tensor([0.0, 2 * math.pi, 0.0], dtype=torch.float64)
    torch.testing.assert_close(dynamics(x + turn, generator=recorder.noise), moved)


def test_particles_move_each_on_its_own(generator):
    dynamics, x = make(action_dim=2), points(generator, 3)
    action = torch.randn(3, 2, generator=generator, dtype=torch.float64)
    recorder = noise.Recorder(generator)
    moved = dynamics(x, action, generator=recorder)
    order = torch.randperm(5, generator=generator)
    shuffled = noise.Noise(tuple(draw[:, order] for draw in recorder.noise.draws))
    torch.testing.assert_close(dynamics(x[:, order], action, generator=shuffled), moved[:, order])


@pytest.mark.parametrize("action_dim", [0, 2])
@pytest.mark.parametrize("activation", [torch.nn.ReLU, PReLU])
def test_every_parameter_gets_a_gradient(action_dim, activation, generator):
    torch.manual_seed(0)
    dynamics, x = make(action_dim=action_dim, activation=activation), points(generator, 40)
    action = torch.randn(40, action_dim, generator=generator, dtype=torch.float64) if action_dim else None
    moved = dynamics(x, action, generator=generator)
    found = torch.autograd.grad(moved.square().sum(), list(dynamics.parameters()))
    assert all(gradient.any() for gradient in found)


def test_noise_makes_the_difference_between_particles(generator):
    dynamics = make()
    moved = dynamics(torch.zeros(2, 7, 3, dtype=torch.float64), generator=generator)
    assert len(moved.reshape(-1, 3).unique(dim=0)) == 14
    quiet = noise.Noise((torch.zeros(2, 7, 4),))
    assert len(dynamics(torch.zeros(2, 7, 3, dtype=torch.float64), generator=quiet).reshape(-1, 3).unique(dim=0)) == 1


def test_errors_say_what_is_missing():
    with pytest.raises(ValueError, match="one bound for each of the 4 encoded coordinates, got 3"):
        ResidualDynamics(SPACE, bound=(1.0, 1.0, 1.0), hidden_dim=4)
    x = torch.zeros(2, 5, 3, dtype=torch.float64)
    with pytest.raises(ValueError, match="got none. Pass actions"):
        make(action_dim=2)(x)
    with pytest.raises(ValueError, match="got one. Pass actions, or build it with action_dim=0"):
        make()(x, torch.zeros(2, 2, dtype=torch.float64))
