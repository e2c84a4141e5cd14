"""What every kernel promises, as one check; for this library's kernels and for yours.

>>> from mdpf.kernels import Gaussian
>>> check_kernel(Gaussian(torch.tensor([0.5, 2.0], dtype=torch.float64)), generator=torch.Generator().manual_seed(0))
"""

import copy
import math
from typing import NamedTuple, TypeVar, cast

import torch
from torch import Generator, Tensor
from torch.utils import _pytree as pytree

from mdpf import noise
from mdpf.kernels import Kernel, KernelWithCdf, has_cdf
from mdpf.testing.assertions import assert_mean

AnyKernel = TypeVar("AnyKernel", bound=Kernel)

NUM_CELLS = 200_000
NUM_DRAWS = 20_000
ALPHA = 1e-6
TWO_PI = 2 * math.pi


class Grid(NamedTuple):
    """A fine grid over one coordinate: cells, their middles, and the mass below their upper ends."""

    middles: Tensor
    widths: Tensor
    ends: Tensor
    density: Tensor

    @property
    def mass_below(self) -> Tensor:
        return (self.density * self.widths).cumsum(0)


def check_kernel(kernel: Kernel, *, generator: Generator) -> None:
    """Check densities, draws, distribution functions, gradients, batch axes and randomness of one kernel.

    Args:
        kernel: A kernel with float64 parameters of shape ``[d]``. Its parameters must stay legal when multiplied by 1 to 2.
        generator: Where the draws of the statistical comparisons come from. All of them together reject a correct kernel with a
            probability of about 1e-6 times their number.

    Raises:
        AssertionError: With the promise that is broken.
    """
    kinds = {leaf.dtype for leaf in pytree.tree_leaves(kernel)}
    if kinds != {torch.float64}:
        raise ValueError(
            f"check_kernel needs a kernel whose parameters are torch.float64, got {', '.join(sorted(map(str, kinds)))}. "
            "It compares to nine digits and differentiates numerically; make them with dtype=torch.float64."
        )
    check_density(kernel, generator=generator)
    check_randomness(kernel, generator=generator)
    check_draws(kernel, generator=generator)
    if has_cdf(kernel):
        check_cdf(cast(KernelWithCdf, kernel), generator=generator)
    check_gradients(kernel, generator=generator)
    check_batch_axes(kernel, generator=generator)


def check_density(kernel: Kernel, *, generator: Generator) -> None:
    """Check that every coordinate's density integrates to one, has the variance stated, is symmetric and knows its angles."""
    variance = kernel.variance()
    _require(variance.shape == (kernel.state_dim,), f"variance has shape {list(variance.shape)}, not [{kernel.state_dim}]")
    for dim in range(kernel.state_dim):
        grid = _grid(kernel, dim)
        mass = grid.density * grid.widths
        _require_close(mass.sum(), torch.ones(()), f"the integral of the density of coordinate {dim}", atol=1e-6)
        _require_close(
            (mass * grid.middles.square()).sum() / variance[dim], torch.ones(()), f"variance {dim} over its integral", atol=1e-5
        )
    x, loc = _pairs(kernel, generator)
    log_prob = kernel.log_prob(x, loc)
    _require(log_prob.shape == x.shape[:-1], f"log_prob has shape {list(log_prob.shape)} for states {list(x.shape)}")
    _require_close(kernel.log_prob(loc, x), log_prob, "log_prob with x and loc exchanged")
    _require_close(kernel.log_prob(x + 3, loc + 3), log_prob, "log_prob with both moved by three")
    parts = sum(kernel.select((dim,)).log_prob(x[..., [dim]], loc[..., [dim]]) for dim in range(kernel.state_dim))
    order = tuple(reversed(range(kernel.state_dim)))
    turned = kernel.select(order)
    _require_close(
        turned.log_prob(x[..., list(order)], loc[..., list(order)]), log_prob, "log_prob in another order of coordinates"
    )
    if has_cdf(kernel):
        _require_close(cast(Tensor, parts), log_prob, "log_prob against the sum over its coordinates")
    _require_close(kernel.log_prob(x + _full_turn(kernel, x), loc), log_prob, "log_prob after a full turn of every angle")


def check_draws(kernel: Kernel, *, generator: Generator) -> None:
    """Check mean, variance and, by Kolmogorov and Smirnov's statistic, the whole law of the draws; angles come back wrapped."""
    loc = torch.full((NUM_DRAWS, kernel.state_dim), 3.0, dtype=torch.float64)
    draws = kernel.sample(loc, generator=generator).detach()
    _require(draws.shape == loc.shape, f"draws have shape {list(draws.shape)} for locations {list(loc.shape)}")
    angles = draws[..., list(kernel.space.angular)]
    _require(bool(((angles >= -math.pi) & (angles < math.pi)).all()), "drawn angles outside [-pi, pi)")
    _require(bool(kernel.log_prob(draws, loc).isfinite().all()), "draws outside the support")
    deviation = kernel.space.difference(draws, loc)
    scale = kernel.variance().sqrt()
    assert_mean(deviation / scale, torch.zeros(()), max_se=0.02, alpha=ALPHA, what="mean of the draws, in standard deviations")
    assert_mean(
        (deviation / scale).square(), torch.ones(()), max_se=0.05, alpha=ALPHA, what="variance of the draws, over that stated"
    )
    # Massart's bound on the largest distance of an empirical from the true distribution function, valid for every number of draws.
    bound = math.sqrt(math.log(2 / ALPHA) / (2 * NUM_DRAWS))
    for dim in range(kernel.state_dim):
        grid = _grid(kernel, dim)
        ordered = deviation[:, dim].sort().values.contiguous()
        level = grid.mass_below[torch.searchsorted(grid.ends, ordered).clamp_max(NUM_CELLS - 1)]
        distance = (level - (torch.arange(NUM_DRAWS) + 0.5) / NUM_DRAWS).abs().max().item()
        _require(distance <= bound, f"draws of coordinate {dim} miss the law of the density: distance {distance:.3g} > {bound:.3g}")


def check_cdf(kernel: KernelWithCdf, *, generator: Generator) -> None:
    """Check the distribution functions against the integrated densities, also their derivatives and, for angles, the full turns."""
    for dim in range(kernel.state_dim):
        grid = _grid(kernel, dim)
        one = cast(KernelWithCdf, kernel.select((dim,)))
        ends, mass_below = grid.ends[::20, None], grid.mass_below[::20, None]
        _require_close(one.cdf(ends, torch.zeros_like(ends[0])), mass_below, f"cdf of coordinate {dim}", atol=2e-6)
    x, loc = _pairs(kernel, generator)
    _require_close(kernel.cdf(loc, loc), torch.full_like(loc, 0.5), "cdf at the location")
    turned = kernel.cdf(x + _full_turn(kernel, x), loc)
    _require_close(turned, kernel.cdf(x, loc) + _full_turn(kernel, x) / TWO_PI, "cdf after a full turn of every angle")
    point = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(kernel.cdf(point, loc).sum(), point)
    _require_close(slope, kernel.log_factors(x, loc).exp(), "derivative of the cdf")
    (score,) = torch.autograd.grad(kernel.log_factors(point, loc).sum(), point)
    _require_close(kernel.scores(x, loc), score, "scores")


def check_gradients(kernel: Kernel, *, generator: Generator) -> None:
    """Check derivatives against finite differences, and a draw's against those of the distribution function."""
    leaves, structure = pytree.tree_flatten(kernel)
    x, loc = _pairs(kernel, generator, num=4)
    inputs = [tensor.detach().clone().requires_grad_() for tensor in (x, loc, *leaves)]

    def rebuild(parameters: tuple[Tensor, ...]) -> Kernel:
        return pytree.tree_unflatten(list(parameters), structure)

    torch.autograd.gradcheck(lambda x, loc, *parameters: rebuild(parameters).log_prob(x, loc), inputs)
    _, loc, *parameters = inputs
    fresh = rebuild(tuple(parameters))
    draw = fresh.sample(loc, generator=generator)
    (flow,) = torch.autograd.grad(draw.sum(), loc, retain_graph=True)
    _require_close(flow, torch.ones_like(flow), "derivative of a draw to its location")
    if not has_cdf(kernel):
        return
    fresh = cast(KernelWithCdf, fresh)
    torch.autograd.gradcheck(lambda x, loc, *parameters: cast(KernelWithCdf, rebuild(parameters)).cdf(x, loc), inputs)
    fixed = (loc + kernel.space.difference(draw, loc)).detach()
    # At a fixed level F(z; p) the draw moves by -dF/dp / f(z).
    lift = -(fresh.cdf(fixed, loc.detach()) / fresh.log_factors(fixed, loc).detach().exp()).sum()
    expected = torch.autograd.grad(lift, parameters)
    found = torch.autograd.grad(draw.sum(), parameters, materialize_grads=True)
    for index, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        _require_close(ours, theirs, f"derivative of a draw to parameter {index}", atol=1e-7)


def check_batch_axes(kernel: Kernel, *, generator: Generator) -> None:
    """Check that parameters ``[*batch, d]`` meet the leading axes of the states, as if every batch element were alone."""
    for batch in ((3,), (2, 3)):
        factor = 1 + torch.arange(math.prod(batch), dtype=torch.float64).reshape(*batch, 1) / math.prod(batch)
        batched = _map(lambda leaf, factor=factor: leaf * factor, kernel)
        loc = torch.randn(*batch, 4, kernel.state_dim, dtype=torch.float64, generator=generator)
        recorder = noise.Recorder(generator)
        x = batched.sample(loc, generator=recorder)
        log_prob, pairs = batched.log_prob(x, loc), batched.log_prob(x[..., None, :, :], loc[..., :, None, :])
        for place in torch.cartesian_prod(*(torch.arange(length) for length in batch)).reshape(-1, len(batch)).tolist():
            index = tuple(place)
            alone = _map(lambda leaf, index=index: leaf[index], batched)
            replay = noise.Noise(tuple(draw[index] for draw in recorder.noise.draws))
            _require_close(x[index], alone.sample(loc[index], generator=replay), f"draw of batch element {index} alone")
            _require_close(log_prob[index], alone.log_prob(x[index], loc[index]), f"log_prob of batch element {index} alone")
            apart = alone.log_prob(x[index][None], loc[index][:, None])
            _require_close(pairs[index], apart, f"log_prob of all pairs of batch element {index} alone")
            _require_close(batched.variance()[index], alone.variance(), f"variance of batch element {index} alone")


def check_randomness(kernel: Kernel, *, generator: Generator) -> None:
    """Check that the same state gives the same draw, that the global stream stays put, and that inputs are not modified."""
    loc = torch.randn(5, kernel.state_dim, dtype=torch.float64, generator=generator)
    inputs = [loc, *pytree.tree_leaves(kernel)]
    before = copy.deepcopy([tensor.detach() for tensor in inputs])
    state, everywhere = generator.get_state(), torch.get_rng_state()
    first = kernel.sample(loc, generator=generator)
    again = kernel.sample(loc, generator=generator.set_state(state))
    _require(torch.equal(first, again), "the same state of the generator gives another draw")
    _require(not torch.equal(first, kernel.sample(loc, generator=generator)), "the generator does not move")
    _require(torch.equal(everywhere, torch.get_rng_state()), "a draw from a generator moves the global stream")
    unchanged = all(torch.equal(now.detach(), then) for now, then in zip(inputs, before, strict=True))
    _require(unchanged, "a draw modifies its inputs")


def _grid(kernel: Kernel, dim: int) -> Grid:
    """Cells that are fine at the location, in standard deviations, and reach far out."""
    one = kernel.select((dim,))
    scale = one.variance().detach().sqrt()
    edges = torch.linspace(-20, 20, 2 * NUM_CELLS + 1, dtype=torch.float64)
    points = scale * edges.sinh()
    if one.space.angular:
        points = 2 * (points / 2).atan()
    middles, ends = points[1::2], points[2::2]
    density = one.log_prob(middles[:, None], torch.zeros(1, dtype=torch.float64)).detach().exp()
    return Grid(middles, ends - points[:-2:2], ends.contiguous(), density)


def _pairs(kernel: Kernel, generator: Generator, num: int = 50) -> tuple[Tensor, Tensor]:
    """States within a standard deviation of their locations, inside the support of every kernel there is."""
    shape = (num, kernel.state_dim)
    loc = torch.randn(shape, dtype=torch.float64, generator=generator)
    side = 2 * torch.rand(shape, dtype=torch.float64, generator=generator) - 1
    return loc + side * kernel.variance().detach().sqrt(), loc


def _full_turn(kernel: Kernel, like: Tensor) -> Tensor:
    turn = [TWO_PI if coordinate.angle else 0.0 for coordinate in kernel.space.coordinates]
    return torch.tensor(turn, dtype=like.dtype, device=like.device)


def _map(function, kernel: AnyKernel) -> AnyKernel:  # noqa: ANN001
    return pytree.tree_map(function, kernel)


def _require(holds: bool, broken: str) -> None:
    if not holds:
        raise AssertionError(broken)


def _require_close(found: Tensor, expected: Tensor, what: str, atol: float = 1e-9) -> None:
    torch.testing.assert_close(
        found, expected.to(found.dtype).expand_as(found), rtol=1e-9, atol=atol, msg=lambda text: f"{what}: {text}"
    )
