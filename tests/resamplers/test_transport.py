"""Entropy-regularised transport: its plan, its points and their derivative, against exact answers."""

import math

import pytest
import torch
from scipy.optimize import linprog
from torch.testing import assert_close

from mdpf.kernels import Gaussian, Product, VonMises
from mdpf.mixture import Mixture
from mdpf.noise import Noise, Recorder
from mdpf.resamplers import OptimalTransport
from mdpf.resamplers.sinkhorn import transport_plan
from mdpf.testing.resamplers import check_resampler


def pose_mixture(locs, log_weights):
    """A mixture over two lines and a circle; the kernel plays no part in transport."""
    one = torch.ones(1, dtype=locs.dtype)
    return Mixture(locs, log_weights, Product((Gaussian(one.expand(2)), VonMises(one))))


@pytest.fixture
def poses(generator):
    """Three clouds of twelve poses in two groups, with unequal weights."""
    locs = torch.randn(3, 12, 3, generator=generator, dtype=torch.float64)
    locs[:, ::2, 0] += 3
    return locs, (1.5 * torch.randn(3, 12, generator=generator, dtype=torch.float64)).log_softmax(-1)


def bimodal(generator, num_particles=100, batch=5):
    """Two modes 13 widths apart, the left one heavier."""
    locs = 0.3 * torch.randn(batch, num_particles, 1, generator=generator, dtype=torch.float64)
    side = torch.rand(batch, num_particles, generator=generator, dtype=torch.float64) < 0.5
    logits = torch.randn(batch, num_particles, generator=generator, dtype=torch.float64) + side
    locs = locs + torch.where(side, -2.0, 2.0).unsqueeze(-1)
    return Mixture(locs, logits.log_softmax(-1), Gaussian(torch.ones(1, dtype=torch.float64)))


def moments(points, weights):
    mean = (weights.unsqueeze(-1) * points).sum(-2)
    return mean, (weights.unsqueeze(-1) * (points - mean.unsqueeze(-2)).square()).sum(-2)


@pytest.mark.parametrize("regularization", [0.5, 0.1])
def test_plan_satisfies_the_optimality_conditions(poses, regularization):
    locs, log_weights = poses
    cost = (locs.unsqueeze(-2) - locs.unsqueeze(-3)).square().sum(-1) / 8
    plan, residual = transport_plan(cost, log_weights, regularization=regularization, num_iterations=200)
    assert residual.max() < 1e-12
    assert_close(plan.sum(-2), log_weights.exp())
    assert_close(plan.sum(-1), torch.full_like(plan[..., 0], 1 / 12))
    # The plan is optimal exactly if log plan + cost / regularization is a sum of a function of the row and one of the column.
    score = plan.log() + cost / regularization
    interaction = score - score.mean(-1, keepdim=True) - score.mean(-2, keepdim=True) + score.mean((-2, -1), keepdim=True)
    assert interaction.abs().max() < 1e-10


def test_plan_approaches_the_linear_programme(generator):
    points = torch.rand(6, 1, generator=generator, dtype=torch.float64)
    log_weights = torch.randn(6, generator=generator, dtype=torch.float64).log_softmax(-1)
    cost = (points - points.mT).square() / 2
    rows = [[float(i == k) for i in range(6) for _ in range(6)] for k in range(6)]
    columns = [[float(j == k) for _ in range(6) for j in range(6)] for k in range(6)]
    sums = [1 / 6] * 6 + log_weights.exp().tolist()
    exact = linprog(cost.flatten().numpy(), A_eq=rows + columns, b_eq=sums).fun
    for regularization in (0.1, 0.01, 0.002):
        plan, residual = transport_plan(cost, log_weights, regularization=regularization, num_iterations=1000)
        assert residual < 1e-6
        # The entropy of a plan with 36 entries, and so what it may gain by paying more, lies between 0 and log 36.
        assert exact - 1e-6 <= float((plan * cost).sum()) <= exact + regularization * math.log(36)


@pytest.mark.parametrize("regularization", [0.5, 0.1])
@pytest.mark.parametrize("num_particles", [12, 7, 20])
@pytest.mark.parametrize("relative", [True, False])
def test_gradient_equals_finite_differences(poses, regularization, num_particles, relative):
    iterations = None if relative else 2000
    resampler = OptimalTransport(regularization, num_iterations=iterations, relative=relative)
    recorder = Recorder(torch.Generator().manual_seed(0))
    resampler(pose_mixture(*poses), num_particles, generator=recorder)

    def loss(locs, log_weights):
        points = resampler(pose_mixture(locs, log_weights), num_particles, generator=recorder.noise).points
        return (points.sin() * torch.linspace(-1, 2, points.numel(), dtype=points.dtype).view_as(points)).sum()

    leaves = [value.clone().requires_grad_() for value in poses]
    gradient = torch.autograd.grad(loss(*leaves), leaves)
    generator = torch.Generator().manual_seed(1)
    for _ in range(5):
        direction = [torch.randn(value.shape, generator=generator, dtype=value.dtype) for value in poses]
        ahead, behind = (loss(*(v + step * d for v, d in zip(poses, direction, strict=True))) for step in (1e-5, -1e-5))
        slope = sum((g * d).sum() for g, d in zip(gradient, direction, strict=True))
        assert_close(slope, (ahead - behind) / 2e-5, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("num_particles", [25, 100])
def test_default_iterations_suffice(generator, num_particles):
    mixture = bimodal(generator, num_particles)
    for regularization, bound in ((0.5, 1e-10), (0.1, 1e-4), (0.01, 0.05)):
        residual = OptimalTransport(regularization).plan(mixture, num_particles).residual
        assert residual.shape == (5,)
        assert residual.max() < bound


@pytest.mark.parametrize("num_particles", [100, 45, 225])
def test_mean_is_kept_and_the_cloud_shrinks_with_the_regularization(generator, num_particles):
    mixture = bimodal(generator, batch=20)
    mean, variance = moments(mixture.locs, mixture.log_weights.exp())
    ratios = []
    for regularization in (0.5, 0.1, 0.01):
        draw = OptimalTransport(regularization)(mixture, num_particles, generator=generator)
        found, spread = moments(draw.points, draw.log_weights.exp())
        assert_close(found, mean, rtol=0, atol=1e-12)
        ratios.append(float((spread / variance).mean()))
    assert ratios == sorted(ratios)
    assert_close(torch.tensor(ratios), torch.tensor([0.45, 0.73, 0.97]), rtol=0, atol=0.08)


def wasserstein(left, left_weights, right, right_weights):
    """Exact in one dimension: the area between the distribution functions of two sets ``[*batch, n]`` of values."""
    values, order = torch.cat([left, right], -1).sort(-1)
    excess = torch.cat([left_weights, -right_weights], -1).gather(-1, order).cumsum(-1)
    return (excess[..., :-1].abs() * values.diff(dim=-1)).sum(-1)


def test_wasserstein_distance_falls_below_that_of_random_copies(generator):
    mixture = bimodal(generator)
    locs, weights, uniform = mixture.locs[..., 0], mixture.log_weights.exp(), torch.full((5, 100), 0.01, dtype=torch.float64)
    distances = []
    for regularization in (0.5, 0.1, 0.01):
        points = OptimalTransport(regularization)(mixture, 100).points[..., 0]
        distances.append(float(wasserstein(points, uniform, locs, weights).mean()))
    assert distances == sorted(distances, reverse=True)
    copies = torch.stack([locs.gather(-1, weights.multinomial(100, replacement=True, generator=generator)) for _ in range(50)])
    assert (
        distances[-1] < wasserstein(copies, uniform.expand(50, 5, 100), locs.expand(50, 5, 100), weights.expand(50, 5, 100)).mean()
    )


def test_points_are_equivariant_under_permutation(poses, generator):
    locs, log_weights = poses
    order = torch.randperm(12, generator=generator)
    points = OptimalTransport(0.1)(pose_mixture(locs, log_weights), 12).points
    shuffled = OptimalTransport(0.1)(pose_mixture(locs[:, order], log_weights[:, order]), 12).points
    assert_close(shuffled, points[:, order], rtol=0, atol=1e-8)


def test_fewer_points_depend_on_the_draw_and_not_on_the_order(poses, generator):
    locs, log_weights = poses
    order = torch.randperm(12, generator=generator)
    levels = torch.rand(3, 12, generator=generator, dtype=torch.float64)
    points = OptimalTransport(0.1)(pose_mixture(locs, log_weights), 7, generator=Noise((levels,))).points
    mixture = pose_mixture(locs[:, order], log_weights[:, order])
    assert_close(OptimalTransport(0.1)(mixture, 7, generator=Noise((levels[:, order],))).points, points, rtol=0, atol=1e-8)


def test_points_follow_shift_scale_and_turn(poses):
    locs, log_weights = poses
    points = OptimalTransport()(pose_mixture(locs, log_weights), 12).points
    moved = torch.tensor([1e3, -50.0, 2.0], dtype=torch.float64)
    shifted = pose_mixture(locs + moved, log_weights)
    assert_close(shifted.space.difference(OptimalTransport()(shifted, 12).points, points + moved), torch.zeros_like(points))
    plane = Mixture(locs[..., :2], log_weights, Gaussian(torch.ones(2, dtype=torch.float64)))
    large = plane._replace(locs=1e4 * plane.locs)
    assert_close(OptimalTransport()(large, 12).points, 1e4 * OptimalTransport()(plane, 12).points)


@pytest.mark.parametrize("regularization", [0.5, 0.1, 0.01])
def test_batch_gives_what_its_elements_give_alone(poses, regularization):
    locs, log_weights = poses
    locs = locs * torch.tensor([1.0, 30.0, 0.01], dtype=torch.float64)[:, None, None]
    # Too few iterations to converge: a schedule shared by the batch would show.
    resampler = OptimalTransport(regularization, num_iterations=10)
    whole, residual = (
        resampler(pose_mixture(locs, log_weights), 12).points,
        resampler.plan(pose_mixture(locs, log_weights), 12).residual,
    )
    for index in range(3):
        alone = pose_mixture(locs[index], log_weights[index])
        assert_close(resampler(alone, 12).points, whole[index], rtol=1e-9, atol=1e-9)
        assert_close(resampler.plan(alone, 12).residual, residual[index], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "log_weights", [[-torch.inf, 0.0, -torch.inf, -1.0], [-300.0, 0.0, -300.0, -200.0], [0.0] + 3 * [-torch.inf]]
)
def test_extreme_weights_leave_points_and_gradient_finite(dtype, log_weights):
    locs = torch.tensor([[0.0, 1, 0], [100, 2, 3], [-50, 5, 1], [1, -100, -3]], dtype=dtype, requires_grad=True)
    logits = torch.tensor(log_weights, dtype=dtype, requires_grad=True)
    for num_particles in (1, 4, 6):
        draw = OptimalTransport(0.1)(pose_mixture(locs, logits.log_softmax(-1)), num_particles)
        gradients = torch.autograd.grad(draw.points.sin().sum(), (locs, logits))
        assert all(bool(value.isfinite().all()) for value in (draw.points, *gradients))


def test_one_place_stays_where_it_is(dtype):
    locs = torch.full((5, 3), 0.7, dtype=dtype, requires_grad=True)
    points = OptimalTransport()(pose_mixture(locs, torch.zeros(5, dtype=dtype).log_softmax(-1)), 5).points
    assert_close(points, locs)
    (gradient,) = torch.autograd.grad(points.sum(), locs)
    assert bool(gradient.isfinite().all())


def test_single_precision_agrees_with_double(poses):
    found = []
    for dtype in (torch.float32, torch.float64):
        leaves = [value.to(dtype).requires_grad_() for value in poses]
        points = OptimalTransport(0.1)(pose_mixture(*leaves), 12).points
        found.append((points, *torch.autograd.grad(points.sin().sum(), leaves)))
    for single, double in zip(*found, strict=True):
        assert_close(single.double(), double, rtol=1e-3, atol=1e-3)


def test_gradient_grows_with_the_loss(poses):
    leaves = [value.clone().requires_grad_() for value in poses]
    loss = OptimalTransport(0.1)(pose_mixture(*leaves), 12).points.square().sum()
    plain = torch.autograd.grad(loss, leaves, retain_graph=True)
    large = torch.autograd.grad(1e6 * loss, leaves)
    for left, right in zip(plain, large, strict=True):
        assert_close(right, 1e6 * left, rtol=1e-10, atol=1e-6)


def test_detached_scale_changes_the_gradient_alone(poses):
    found = []
    for detach_scale in (False, True):
        locs = poses[0].clone().requires_grad_()
        points = OptimalTransport(detach_scale=detach_scale)(pose_mixture(locs, poses[1]), 12).points
        found.append((points, torch.autograd.grad(points.square().sum(), locs)[0]))
    assert_close(found[0][0], found[1][0])
    assert (found[0][1] - found[1][1]).abs().max() > 1e-3


def test_random_numbers_are_drawn_only_for_another_number_of_particles(poses):
    mixture = pose_mixture(*poses)
    for num_particles, draws in ((12, 0), (24, 0), (7, 1), (20, 1)):
        recorder = Recorder(torch.Generator().manual_seed(0))
        first = OptimalTransport()(mixture, num_particles, generator=recorder)
        assert len(recorder.noise.draws) == draws
        assert_close(OptimalTransport()(mixture, num_particles, generator=Noise(recorder.noise.draws)), first)


def test_unknown_choices_are_refused():
    for wrong in ({"regularization": 0.0}, {"num_iterations": 0}, {"scaling": 1.0}):
        with pytest.raises(ValueError, match="OptimalTransport needs"):
            OptimalTransport(**wrong)


@pytest.mark.statistical
@pytest.mark.parametrize("resampler", [OptimalTransport(), OptimalTransport(0.1), OptimalTransport(relative=False)], ids=str)
def test_transport_keeps_the_promises_of_resamplers(resampler):
    check_resampler(
        resampler, smoothed=False, unbiased=False, unbiased_gradient=(), no_gradient=("bandwidth",), num_replicates=200, max_se=0.1
    )
