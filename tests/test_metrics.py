"""Metrics against numbers worked out by hand."""

import math

import pytest
import torch

from mdpf import metrics, trees
from mdpf.kernels import Biweight, Epanechnikov, Gaussian, Product, VonMises
from mdpf.mixture import Mixture

POSE = Product((Gaussian(torch.tensor([0.84, 0.84])), VonMises(torch.tensor([32.0]))))


def points(values, kernel=POSE):
    """A mixture of one component for each frame."""
    locs = torch.as_tensor(values, dtype=torch.float32).unsqueeze(-2)
    return Mixture(locs, torch.zeros(locs.shape[:-1]), kernel)


def test_metrics_of_two_sequences_by_hand():
    # Position errors by frame: sequence 0: 0, 3, 4; sequence 1: 0, 0, 1. Angle errors: 0, 0, 0 and 0, 0.5, 0.
    states = torch.zeros(2, 3, 3)
    estimates = torch.tensor([[[0, 0, 0], [3, 0, 0], [0, 4, 0]], [[0, 0, 0], [0, 0, 0.5], [0, 1, 0]]], dtype=torch.float32)
    found = metrics.summarise(metrics.measure(points(estimates[:, 0]), points(estimates[:, 1:]), states), limit=3.5)
    expected = {
        "rmse": math.sqrt((9 + 16 + 0.25 + 1) / 4),
        "rmse_paper": (math.sqrt(25 / 3) + math.sqrt(1.25 / 3)) / 2,
        "position_rmse": math.sqrt((9 + 16 + 0 + 1) / 4),
        "angle_rmse": math.sqrt(0.25 / 4),
        "lost": 0.5,
        "ess": 1.0,
        "outside": 0.0,
    }
    for name, value in expected.items():
        assert float(found[name]) == pytest.approx(value, rel=1e-5), name


def test_errors_of_angles_go_the_short_way_round():
    states, estimates = torch.tensor([[[0.0, 0.0, 3.0]] * 2, [[0.0, 0.0, -3.0]] * 2]), torch.tensor([[[0.0, 0.0, -3.0]] * 2] * 2)
    frames = metrics.measure(points(estimates[:, 0]), points(estimates[:, 1:]), states)
    expected = torch.tensor([[(2 * math.pi - 6) ** 2] * 2, [0.0] * 2])
    torch.testing.assert_close(frames.squared_angle_error, expected, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(frames.squared_error, expected, rtol=1e-4, atol=1e-6)


def test_paper_likelihood_includes_frame_0_with_its_narrow_kernel():
    """At the truth, off by two hundred narrow bandwidths, and far away at frame 1."""
    states = torch.zeros(3, 2, 3)
    initial = torch.tensor([[0.0, 0.0, 0.0], [0.2, 0.0, 0.0], [0.001, 0.0, 0.0]])
    later = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [90.0, 0.0, 0.0]])
    frames = metrics.measure(points(initial), points(later.unsqueeze(1)), states)
    angular = 1000 - math.log(2 * math.pi) - float(torch.special.i0e(torch.tensor(1000.0, dtype=torch.float64)).log()) - 1000
    peak = -2 * math.log(0.001 * math.sqrt(2 * math.pi)) + angular
    floor = -math.log(1e-8)
    torch.testing.assert_close(frames.nll_paper[:, 0], torch.tensor([-peak, floor, -peak + 0.5]), rtol=1e-4, atol=1e-3)
    assert float(frames.nll_paper[2, 1]) == pytest.approx(floor)
    assert floor == pytest.approx(18.4207, abs=1e-4)
    mean = float(metrics.summarise(frames)["nll_paper"])
    assert mean == pytest.approx(float(frames.nll_paper.mean()), rel=1e-6)
    # In log space frame 0 does not count, and nothing stands between the far truth and its price.
    torch.testing.assert_close(metrics.summarise(frames)["nll"], frames.nll[:, 1].mean())
    assert frames.nll[2, 1] > 5000


def test_initial_particles_of_the_bearings_task_sit_on_the_floor(generator):
    """25 particles around the truth, standard deviation 0.5 and concentration 1 / 0.03: 18.39 on average, 99.7 % on the floor."""
    n = 10_000
    states = torch.zeros(n, 2, 3)
    spread = 0.5 * torch.randn(n, 25, 2, generator=generator)
    angles = VonMises(torch.tensor([1 / 0.03])).sample(torch.zeros(n, 25, 1), generator=generator)
    initial = Mixture(torch.cat([spread, angles], -1), torch.full((n, 25), -math.log(25)), POSE)
    frames = metrics.measure(initial, points(torch.zeros(n, 1, 3)), states)
    at_start = frames.nll_paper[:, 0]
    floor = -math.log(1e-8)
    assert 18.37 < float(at_start.mean()) < 18.41
    assert 0.99 < float((at_start > floor - 1).float().mean()) < 1
    # The squared error of the weighted mean: (0.25 + 0.25 + 0.0305) / 25.
    error = frames.squared_error[:, 0]
    assert float(error.mean()) == pytest.approx(0.53 / 25, abs=5 * float(error.std()) / 100)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (Gaussian(torch.ones(4, 2)), Gaussian(torch.full((4, 2), 1e-3))),
        (Biweight(torch.ones(2)), Biweight(torch.full((2,), 1e-3))),
        (
            Product((Epanechnikov(torch.ones(2)), VonMises(torch.ones(1)))),
            Product((Epanechnikov(torch.full((2,), 1e-3)), VonMises(torch.full((1,), 1e3)))),
        ),
    ],
)
def test_narrowed_keeps_the_family(kernel, expected):
    found = metrics.narrowed(kernel)
    assert repr(found) == repr(expected)


def test_outside_counts_what_no_kernel_covers():
    kernel = Epanechnikov(torch.tensor([1.0]))
    posterior = points(torch.tensor([[[0.0], [0.5], [3.0], [0.0]]]), kernel)
    frames = metrics.measure(points(torch.tensor([[9.0]]), kernel), posterior, torch.zeros(1, 5, 1))
    assert frames.outside.tolist() == [[1, 0, 0, 1, 0]]
    found = metrics.summarise(frames)
    assert float(found["outside"]) == 0.25
    assert float(found["nll"]) == math.inf
    peak = -math.log(0.75)
    edge = -math.log(0.75 * 0.75)
    floor = -math.log(1e-8)
    assert float(found["nll_paper"]) == pytest.approx((floor + peak + edge + floor + peak) / 5, rel=1e-5)


def test_valid_frames_alone_count(generator):
    """A ragged set gives what its sequences give alone; what stands behind the end may be anything."""
    states = torch.randn(3, 6, 3, generator=generator)
    estimates = states + 0.5 * torch.randn(3, 6, 3, generator=generator)
    lengths = (6, 4, 2)
    valid = torch.arange(6) < torch.tensor(lengths)[:, None]
    estimates[~valid], states[~valid] = 7.0, math.nan
    frames = metrics.measure(points(estimates[:, 0]), points(estimates[:, 1:]), states)
    found = metrics.summarise(frames, valid=valid, limit=0.7)
    alone = [
        metrics.summarise(trees.tree_map(lambda f, b=b, length=length: f[b : b + 1, :length], frames), limit=0.7)
        for b, length in enumerate(lengths)
    ]
    share = torch.tensor([length - 1.0 for length in lengths]) / (sum(lengths) - 3)
    for name in ("nll", "ess", "outside"):
        torch.testing.assert_close(found[name], sum(w * m[name] for w, m in zip(share, alone, strict=True)))
    for name in ("rmse", "position_rmse", "angle_rmse"):
        torch.testing.assert_close(found[name] ** 2, sum(w * m[name] ** 2 for w, m in zip(share, alone, strict=True)))
    for name in ("nll_paper", "rmse_paper", "lost"):
        torch.testing.assert_close(found[name], sum(m[name] for m in alone) / 3)


def test_metrics_keep_a_run_axis_and_may_be_joined_from_batches(generator):
    states, estimates = torch.randn(2, 5, 4, 3, generator=generator), torch.randn(2, 5, 4, 3, generator=generator)
    frames = metrics.measure(points(estimates[..., 0, :]), points(estimates[..., 1:, :]), states)
    whole = metrics.summarise(frames, limit=2.0)
    parts = [
        metrics.measure(points(estimates[0, rows, 0]), points(estimates[0, rows, 1:]), states[0, rows])
        for rows in (slice(0, 2), slice(2, 5))
    ]
    joined = metrics.summarise(metrics.Frames(*(torch.cat(pair) for pair in zip(*parts, strict=True))), limit=2.0)
    for name, value in whole.items():
        assert value.shape == (2,)
        torch.testing.assert_close(value[0], joined[name])
    curves = metrics.curves(frames)
    assert {curve.shape for curve in curves.values()} == {(2, 4)}
    torch.testing.assert_close(curves["rmse"][:, 1:].square().mean(-1).sqrt(), whole["rmse"])
    torch.testing.assert_close(curves["nll"][:, 1:].mean(-1), whole["nll"])


def test_metrics_of_many_particles_use_the_mean_state_and_their_weights():
    kernel = Product((Gaussian(torch.ones(1)), VonMises(torch.ones(1))))
    locs = torch.tensor([[[0.0, 3.0], [4.0, -3.0]]]).unsqueeze(1)
    posterior = Mixture(locs, torch.tensor([[[0.75, 0.25]]]).log(), kernel)
    frames = metrics.measure(Mixture(locs[:, 0], posterior.log_weights[:, 0], kernel), posterior, torch.zeros(1, 2, 2))
    assert float(frames.ess[0, 1]) == pytest.approx(1 / (0.75**2 + 0.25**2))
    assert float(frames.squared_position_error[0, 1]) == pytest.approx(1.0)
    mean_angle = math.atan2(0.75 * math.sin(3) + 0.25 * math.sin(-3), math.cos(3))
    assert float(frames.squared_angle_error[0, 1]) == pytest.approx(mean_angle**2, rel=1e-5)


def test_metrics_say_what_does_not_fit():
    estimates, states = torch.zeros(2, 3, 3), torch.zeros(2, 3, 3)
    with pytest.raises(ValueError, match=r"each frame after the initial one: states\[:, 1:\]"):
        metrics.measure(points(estimates[:, 0]), points(estimates), states)
    frames = metrics.measure(points(estimates[:, 0]), points(estimates[:, 1:]), states)
    with pytest.raises(TypeError, match="Convert it with .bool()"):
        metrics.summarise(frames, valid=torch.ones(2, 3))
    with pytest.raises(ValueError, match="Every input of one call shares"):
        metrics.summarise(frames, valid=torch.ones(2, 2, dtype=torch.bool))
    with pytest.raises(ValueError, match="frames of several sequences"):
        metrics.summarise(trees.tree_map(lambda f: f[0], frames))


def test_other_units_change_errors_and_densities_alone_by_their_factors():
    """Everything is twice as long along x and three times along y; a density is a sixth."""
    posterior = points([[1.0, 2.0, 0.3], [0.5, -1.0, -2.0]])
    factors = torch.tensor([2.0, 3.0, 1.0])
    target = torch.tensor([[0.0, 2.5, 0.1], [1.0, -1.0, 3.0]])
    found = metrics.rescaled(posterior, factors)
    expected = posterior.log_prob(target[:, None]) - math.log(6)
    torch.testing.assert_close(found.log_prob((target * factors)[:, None]), expected)
    one, other = (metrics.rescaled(points(rows), factors) for rows in ([1.0, 2.0, 0.3], [[0.5, -1.0, -2.0]]))
    frames = metrics.measure(one, other, target * factors)
    torch.testing.assert_close(frames.squared_position_error, torch.tensor([2.0**2 + 1.5**2, 1.0]))
    torch.testing.assert_close(frames.squared_angle_error[0], torch.tensor(0.04))
    plain = Mixture(torch.ones(4, 2), torch.zeros(4), Epanechnikov(torch.tensor([2.0, 1.0])))
    torch.testing.assert_close(metrics.rescaled(plain, torch.tensor([0.5, 4.0])).kernel.halfwidth, torch.tensor([1.0, 4.0]))
