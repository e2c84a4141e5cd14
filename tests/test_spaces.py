"""Laws of linear and angular coordinates, in any mix and order."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mdpf.spaces import TWO_PI, Coordinate, StateSpace, wrap

POSE = StateSpace.of("x", "y", theta="angle")
MIXED = StateSpace.of("x", heading="angle", y="linear", bearing="angle")
SPACES = [StateSpace.of("x", "y"), StateSpace.of(theta="angle"), POSE, MIXED, MIXED.select((3, 2, 1, 0))]

laws = settings(derandomize=True, deadline=None, max_examples=60)
spaces = st.lists(st.booleans(), min_size=1, max_size=5).map(
    lambda kinds: StateSpace(tuple(Coordinate(f"c{index}", angle) for index, angle in enumerate(kinds)))
)


@st.composite
def spaces_with_states(draw, num_states=3, limit=50.0):
    space = draw(spaces)
    values = draw(st.lists(st.floats(-limit, limit), min_size=num_states * space.dim, max_size=num_states * space.dim))
    return space, torch.tensor(values, dtype=torch.float64).reshape(num_states, space.dim)


def close(actual, expected, tolerance=1e-12):
    return torch.allclose(actual, expected, rtol=0, atol=tolerance)


@laws
@given(st.floats(-1e3, 1e3))
def test_wrap_stays_in_the_half_open_interval_and_turns_whole_circles(angle):
    angle = torch.tensor(angle, dtype=torch.float64)
    wrapped = wrap(angle)
    assert -math.pi <= wrapped < math.pi
    turns = (angle - wrapped) / TWO_PI
    assert close(turns, turns.round())


@laws
@given(st.floats(-3, 3), st.integers(-100, 100))
def test_wrap_is_periodic(angle, turns):
    angle = torch.tensor(angle, dtype=torch.float64)
    assert close(wrap(angle + turns * TWO_PI), angle)


@laws
@given(st.floats(-1e4, 1e4, width=32))
def test_wrap_is_idempotent_and_leaves_the_inside_exactly_alone(angle):
    once = wrap(torch.tensor(angle))
    assert wrap(once) == once
    if -math.pi < angle < math.pi:
        assert once == angle


def neighbours(value, steps, dtype):
    below = above = torch.tensor(value, dtype=dtype)
    found = [below]
    for _ in range(steps):
        below, above = below.nextafter(torch.tensor(-math.inf, dtype=dtype)), above.nextafter(torch.tensor(math.inf, dtype=dtype))
        found += [below, above]
    return torch.stack(found)


@pytest.mark.parametrize("edge", [-3 * math.pi, -math.pi, 0.0, math.pi, 3 * math.pi])
def test_wrap_never_returns_its_open_end(edge, dtype):
    wrapped = wrap(neighbours(edge, 20, dtype))
    pi = torch.tensor(math.pi, dtype=dtype)
    assert (wrapped >= -pi).all()
    assert (wrapped < pi).all()


def test_wrap_has_slope_one_everywhere(dtype):
    angle = torch.linspace(-10, 10, 101, dtype=dtype).requires_grad_()
    wrap(angle).sum().backward()
    assert torch.equal(angle.grad, torch.ones_like(angle))


@laws
@given(spaces_with_states())
def test_decode_inverts_encode(case):
    space, states = case
    assert space.encode(states).shape == (3, space.encoded_dim)
    decoded = space.decode(space.encode(states))
    assert close(space.difference(decoded, states), torch.zeros_like(states))
    assert close(decoded[..., list(space.linear)], states[..., list(space.linear)], 0)


@laws
@given(spaces_with_states(), st.floats(0.1, 10))
def test_decode_ignores_the_length_of_unit_vectors(case, factor):
    space, states = case
    scale = torch.ones(space.encoded_dim, dtype=torch.float64)
    scale[len(space.linear) :] = factor
    assert close(space.decode(space.encode(states) * scale), space.decode(space.encode(states)))


@laws
@given(spaces_with_states())
def test_difference_is_short_antisymmetric_and_leads_from_right_to_left(case):
    space, states = case
    left, right = states[0], states[1]
    difference = space.difference(left, right)
    assert (difference[list(space.angular)].abs() <= math.pi).all()
    assert close(space.difference(right + difference, left), torch.zeros_like(left))
    assert close(space.wrap(difference + space.difference(right, left)).sin(), torch.zeros_like(left))


@laws
@given(spaces_with_states())
def test_wrap_leaves_linear_coordinates_alone(case):
    space, states = case
    linear = list(space.linear)
    assert torch.equal(space.wrap(states)[..., linear], states[..., linear])


@laws
@given(spaces_with_states())
def test_encode_repeats_every_circle(case):
    space, states = case
    turned = states.clone()
    turned[..., list(space.angular)] += TWO_PI
    assert close(space.encode(turned), space.encode(states), 1e-12)


def test_encode_puts_linear_first_then_sine_and_cosine_of_each_angle():
    encoded = MIXED.encode(torch.tensor([1.0, 0.3, 2.0, -0.4]))
    expected = [1.0, 2.0, math.sin(0.3), math.cos(0.3), math.sin(-0.4), math.cos(-0.4)]
    assert torch.allclose(encoded, torch.tensor(expected))


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_methods_keep_batch_axes_and_dtype(space, batch, dtype, generator):
    states = torch.randn((*batch, 4, space.dim), generator=generator).to(dtype)
    weights = torch.full((*batch, 4), 0.25, dtype=dtype)
    assert space.mean(states, weights).shape == (*batch, space.dim)
    for result in (space.mean(states, weights), space.wrap(states), space.encode(states), space.difference(states, states)):
        assert result.dtype == dtype
        assert result.shape[: len(batch)] == batch


def test_mean_is_circular_across_the_cut():
    states = torch.tensor([[0.0, 0.0, math.pi - 0.2], [2.0, 4.0, -math.pi + 0.1]], dtype=torch.float64)
    weights = torch.tensor([0.5, 0.5], dtype=torch.float64)
    expected = torch.tensor([1.0, 2.0, math.pi - 0.05], dtype=torch.float64)
    assert close(POSE.difference(POSE.mean(states, weights), expected), torch.zeros(3, dtype=torch.float64))


def test_mean_of_linear_coordinates_is_the_weighted_sum(generator):
    space = StateSpace.of("x", "y")
    states, weights = torch.randn(6, 2, generator=generator), torch.rand(6, generator=generator).softmax(-1)
    assert torch.allclose(space.mean(states, weights), weights @ states)


@laws
@given(st.floats(-20, 20))
def test_mean_turns_with_its_states(turn):
    space = StateSpace.of(theta="angle")
    states = torch.tensor([[0.3], [1.4], [-0.9]], dtype=torch.float64)
    weights = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    difference = space.difference(space.mean(states + turn, weights), space.mean(states, weights) + turn)
    assert close(difference, torch.zeros_like(difference))


def test_angle_without_direction_has_mean_and_gradient_zero():
    encoded = torch.zeros(3, requires_grad=True)
    space = StateSpace.of("x", theta="angle")
    decoded = space.decode(encoded)
    assert torch.equal(decoded, torch.zeros(2))
    (gradient,) = torch.autograd.grad(decoded[1], encoded)
    assert torch.equal(gradient, torch.zeros(3))


def test_gradients_of_every_map_agree_with_differences(generator):
    states = torch.randn(2, 3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    other = torch.randn(2, 3, 4, generator=generator, dtype=torch.float64)
    weights = torch.rand(2, 3, generator=generator, dtype=torch.float64).softmax(-1).requires_grad_()
    assert torch.autograd.gradcheck(MIXED.encode, states)
    assert torch.autograd.gradcheck(lambda s: MIXED.decode(MIXED.encode(s)), states)
    assert torch.autograd.gradcheck(lambda s: MIXED.difference(s, other), states)
    assert torch.autograd.gradcheck(MIXED.mean, (states, weights))


def test_space_knows_its_coordinates():
    assert (POSE.dim, POSE.encoded_dim, POSE.names) == (3, 4, ("x", "y", "theta"))
    assert (MIXED.linear, MIXED.angular) == ((0, 2), (1, 3))
    assert MIXED.select((3, 0)) == StateSpace((Coordinate("bearing", True), Coordinate("x")))


@laws
@given(spaces)
def test_json_round_trip_keeps_the_space(space):
    assert StateSpace.from_json(space.to_json()) == space


def test_json_of_data_files_is_read():
    text = '{"coordinates": [{"name": "x"}, {"name": "y"}, {"name": "theta", "angle": true}]}'
    assert StateSpace.from_json(text) == POSE


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "[]",
        "{}",
        "null",
        '{"coordinates": "xy"}',
        '{"coordinates": [{"angle": true}]}',
        '{"coordinates": [{"name": 1}]}',
        '{"coordinates": [{"name": "x", "angle": "false"}]}',
        '{"coordinates": [{"name": "x", "angel": true}]}',
        '{"coordinates": [{"name": "x", "type": "angle"}]}',
        None,
    ],
)
def test_json_of_another_form_says_what_was_needed(text):
    with pytest.raises(ValueError, match=r'"theta", "angle": true}]}, got ') as caught:
        StateSpace.from_json(text)
    assert repr(str(text)) in str(caught.value)


def test_space_refuses_equal_names_and_none_at_all():
    with pytest.raises(ValueError, match=r"each with its own name, got \['x', 'x'\]"):
        StateSpace((Coordinate("x"), Coordinate("x", True)))
    with pytest.raises(ValueError, match=r"at least one coordinate, each with its own name, got \[\]"):
        StateSpace(())
    with pytest.raises(ValueError, match=r"got {'theta': 'angel'}"):
        StateSpace.of(theta="angel")


def test_methods_refuse_other_dimensions():
    right, wrong = torch.zeros(5, 3), torch.zeros(5, 2)
    calls = {
        "wrap": lambda: POSE.wrap(wrong),
        "encode": lambda: POSE.encode(wrong),
        "difference": lambda: POSE.difference(right, torch.zeros(5, 1)),
        "mean": lambda: POSE.mean(wrong, torch.ones(5)),
    }
    for name, call in calls.items():
        with pytest.raises(ValueError, match=rf"StateSpace.{name} needs .* has the coordinates \['x', 'y', 'theta'\]."):
            call()
    with pytest.raises(ValueError, match=r"\[\*batch, 4\], got a float32 tensor of shape \[5, 3\]. The space has the coordinates"):
        POSE.decode(right)
    with pytest.raises(ValueError, match=r"got a float32 tensor of shape \[4\]. One weight per state."):
        POSE.mean(right, torch.ones(4))
