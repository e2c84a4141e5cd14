"""Units: standardised inputs, scaled spaces, and dynamics that start from a given motion."""

import math

import pytest
import torch

from mdpf.models import InformedDynamics, MotionFeatures, ScaledSpace, Standardise, stack_runs
from mdpf.models.images import PictureEncoder
from mdpf.spaces import StateSpace

SPACE = ScaledSpace(StateSpace.of("x", theta="angle"), (100.0,), (10.0,))


def make(noise=1e-6, hidden_dim=4):
    features = MotionFeatures(SPACE, (), action_dim=1)
    # cosine, sine and action seen from both: x moves by the action along the cosine, theta by the action.
    weight = [[0.0] * features.dim, [0.0] * features.dim]
    weight[0][4], weight[1][2] = 1.0, 1.0
    return InformedDynamics(
        features,
        scale=(2.0, 0.5),
        weight=weight,
        bias=(0.25, 0.0),
        noise_scale=(noise, noise),
        bound=(4.0, 1.0),
        hidden_dim=hidden_dim,
    )


def test_standardise_is_what_it_says_and_bounds_the_absurd():
    layer = Standardise((1.0, 2.0, 3.0, 4.0), (1.0, 2.0, 4.0, 8.0), ndim=2)
    x = torch.tensor([[[2.0, 2.0], [7.0, 1e30]], [[-1e30, 0.0], [3.0, 4.0]]])
    assert torch.equal(layer(x), torch.tensor([[1.0, 0.0, 1.0, 10.0], [-10.0, -1.0, 0.0, 0.0]]))


def test_scaled_space_decodes_what_it_encodes(generator):
    state = torch.randn(50, 2, generator=generator) * torch.tensor([30.0, 1.0])
    torch.testing.assert_close(SPACE.decode(SPACE.encode(state)), state, rtol=1e-5, atol=1e-5)
    assert SPACE.encode(torch.tensor([120.0, 0.0])).tolist() == [2.0, 0.0, 1.0]


def test_dynamics_start_with_the_motion_they_are_given(generator):
    state = torch.tensor([[[100.0, 0.5], [120.0, -0.5]]])
    moved = make()(state, torch.tensor([[0.75]]), generator=generator)
    expected = state.clone()
    expected[..., 0] += 2 * (0.25 + 0.75 * state[..., 1].cos())
    expected[..., 1] += 0.5 * 0.75
    torch.testing.assert_close(moved, expected, rtol=0, atol=1e-4)


def test_steps_are_bounded_whatever_comes(generator):
    state = torch.tensor([[[100.0, 3.0]]])
    for action in (1e30, -1e30, math.inf):
        step = SPACE.space.difference(make()(state, torch.tensor([[action]]), generator=generator), state)
        if math.isfinite(action):
            assert step.abs().max() <= 4.0 + 1e-4
            assert step[..., 1].abs().max() <= 1.0 + 1e-5


def test_dynamics_have_a_run_axis(generator):
    alone = [make(noise) for noise in (0.1, 0.5, 1.0)]
    state = torch.randn(3, 5, 7, 2, generator=generator)
    action = torch.randn(3, 5, 1, generator=generator)
    from mdpf import noise

    recorder = noise.Recorder(generator)
    together = stack_runs(alone)(state, action, generator=recorder)
    for run, single in enumerate(alone):
        drawn = noise.Noise(tuple(draw[run] for draw in recorder.noise.draws))
        torch.testing.assert_close(together[run], single(state[run], action[run], generator=drawn))


def test_features_without_anything_to_look_at(generator):
    space = ScaledSpace(StateSpace.of("x"), (0.0,), (1.0,))
    dynamics = InformedDynamics(
        MotionFeatures(space, ()), scale=(1.0,), weight=((),), bias=(0.5,), noise_scale=(1e-6,), bound=(2.0,), hidden_dim=4
    )
    torch.testing.assert_close(dynamics(torch.zeros(3, 1), generator=generator), torch.full((3, 1), 0.5), rtol=0, atol=1e-4)


@pytest.mark.parametrize("given", [None, torch.zeros(1, 1)])
def test_actions_come_exactly_if_asked_for(given):
    dynamics = (
        make()
        if given is None
        else InformedDynamics(
            MotionFeatures(SPACE, ()),
            scale=(1.0, 1.0),
            weight=((0.0, 0.0),) * 2,
            bias=(0.0, 0.0),
            noise_scale=(1.0, 1.0),
            bound=(1.0, 1.0),
            hidden_dim=4,
        )
    )
    with pytest.raises(ValueError, match="exactly if it was built with an action_dim, got (none|one)"):
        dynamics(torch.zeros(1, 2, 2), given)


def test_pictures_of_any_size_have_features_and_a_run_axis():
    for shape in ((9, 30, 1), (64, 48, 3)):
        encoders = [PictureEncoder(shape, feature_dim=5) for _ in range(2)]
        images = torch.randint(0, 256, (2, 3, 2, *shape), dtype=torch.uint8)
        together = stack_runs(encoders)(images)
        for run, encoder in enumerate(encoders):
            torch.testing.assert_close(together[run], encoder(images[run]))
        assert encoders[0](images[0, 0, 0]).shape == (5,)
