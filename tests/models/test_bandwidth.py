"""Bandwidths: where they start, what they cannot fall below, which kernel they make."""

import math

import pytest
import torch

from mdpf.kernels import Epanechnikov, Gaussian, Product, VonMises
from mdpf.models import FixedBandwidth, LearnedBandwidth, kernel_of, stack_runs
from mdpf.spaces import StateSpace

SPACE = StateSpace.of("x", "y", theta="angle")
START, MINIMUM = (0.84, 0.84, 0.031), (0.1, 0.1, 0.001)


def make():
    return LearnedBandwidth(SPACE, START, MINIMUM)


def test_learned_bandwidth_starts_where_it_is_told():
    bandwidth = make()
    torch.testing.assert_close(bandwidth.bandwidths(), torch.tensor(START))
    torch.testing.assert_close(bandwidth.log_excess.exp(), torch.tensor([0.74, 0.74, 0.03]))
    kernel = bandwidth(torch.zeros(2, 5, 3))
    assert isinstance(kernel, Product)
    position, heading = kernel.parts
    torch.testing.assert_close(position.scale, torch.tensor([0.84, 0.84]))
    torch.testing.assert_close(heading.concentration, torch.tensor([1 / 0.031]))


def test_learned_bandwidth_stays_above_its_minimum_with_a_gradient():
    bandwidth = make()
    torch.nn.init.constant_(bandwidth.log_excess, -12.0)
    widths = bandwidth.bandwidths()
    assert (widths >= torch.tensor(MINIMUM)).all()
    (gradient,) = torch.autograd.grad(widths.sum(), [bandwidth.log_excess])
    assert (gradient > 0).all()


def test_every_coordinate_has_a_gradient_through_the_kernel():
    bandwidth = make()
    density = bandwidth(torch.zeros(1, 3)).log_prob(torch.tensor([[0.3, -0.2, 0.1]]), torch.zeros(1, 3))
    (gradient,) = torch.autograd.grad(density.sum(), [bandwidth.log_excess])
    assert gradient.all()


@pytest.mark.parametrize(
    ("space", "parts"),
    [
        (StateSpace.of("x", "y"), None),
        (StateSpace.of(a="angle", b="angle"), None),
        (StateSpace.of(a="angle", x="linear", b="angle", y="linear", z="linear"), [1, 1, 1, 2]),
    ],
)
def test_kernel_covers_the_coordinates_in_their_order(space, parts):
    widths = torch.linspace(0.2, 0.9, space.dim).expand(4, -1)
    kernel = kernel_of(space, widths, Epanechnikov)
    assert [coordinate.angle for coordinate in kernel.space.coordinates] == [coordinate.angle for coordinate in space.coordinates]
    flat = kernel.parts if isinstance(kernel, Product) else (kernel,)
    if parts is not None:
        assert [part.state_dim for part in flat] == parts
    values = torch.cat([1 / part[0] if isinstance(part, VonMises) else part[0] for part in flat], -1)
    torch.testing.assert_close(values, widths)


def test_kernel_of_runs_has_one_bandwidth_for_each():
    stacked = stack_runs([LearnedBandwidth(SPACE, (1.0 + run, 2.0, 0.1), MINIMUM) for run in range(3)])
    position, heading = stacked(torch.zeros(3, 2, 5, 3)).parts
    assert position.scale.shape == (3, 2)
    assert heading.concentration.shape == (3, 1)
    torch.testing.assert_close(position.scale[:, 0], torch.tensor([1.0, 2.0, 3.0]))


def test_fixed_bandwidth_moves_with_its_module_and_learns_nothing():
    kernel = Product((Gaussian(torch.tensor([0.5])), VonMises(torch.tensor([10.0]))))
    bandwidth = FixedBandwidth(kernel).double()
    found = bandwidth(torch.zeros(3, 2))
    assert isinstance(found, Product)
    assert found.parts[1].concentration.dtype == torch.float64
    assert found.parts[0].scale.item() == 0.5
    assert not list(bandwidth.parameters())
    assert len(bandwidth.state_dict()) == 2


@pytest.mark.parametrize(
    ("start", "minimum"),
    [
        ((0.5, 0.5), MINIMUM),
        (START, (0.1, 0.1)),
        ((0.84, 0.1, 0.03), MINIMUM),
        (START, (-0.1, 0.1, 0.001)),
        ((1, 1, float("nan")), MINIMUM),
    ],
)
def test_bandwidths_that_make_no_sense_are_refused(start, minimum):
    with pytest.raises(ValueError, match="3 bandwidths to start from, each above its minimum of zero or more"):
        LearnedBandwidth(SPACE, start, minimum)


def test_a_maximum_is_approached_and_never_reached_with_a_gradient():
    maximum = (math.inf, 3.0, 0.25)
    bandwidth = LearnedBandwidth(SPACE, START, MINIMUM, maximum=maximum)
    torch.testing.assert_close(bandwidth.bandwidths(), torch.tensor(START))
    # A coordinate without a maximum is as it is without any.
    assert bandwidth.log_excess[0] == make().log_excess[0]
    torch.nn.init.constant_(bandwidth.log_excess, 8.0)
    widths = bandwidth.bandwidths()
    torch.testing.assert_close(widths[0].item(), 0.1 + math.exp(8), rtol=1e-5, atol=0)
    assert widths[1] < 3.0
    assert 0.2499 < widths[2] < 0.25
    (gradient,) = torch.autograd.grad(widths.sum(), [bandwidth.log_excess])
    assert (gradient > 0).all()
    with pytest.raises(ValueError, match="needs 3 maxima, each above the bandwidth to start from"):
        LearnedBandwidth(SPACE, START, MINIMUM, maximum=(math.inf, 0.5, 0.25))
