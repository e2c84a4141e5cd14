"""The conformance check of resamplers: what any of them must do, and what this one claims."""

import math
from collections.abc import Callable, Collection
from typing import NamedTuple

import torch
from torch import Generator, Tensor
from torch.testing import assert_close

from mdpf import noise, trees
from mdpf.kernels import Gaussian, Product, VonMises
from mdpf.mixture import Mixture
from mdpf.resamplers.protocol import Draw, Resampler
from mdpf.testing.assertions import assert_mean, gradients

INPUTS = ("weights", "locs", "bandwidth")
FAR = 1e3
PHASE = 0.4


class _Parts(NamedTuple):
    """What a mixture over one line and one circle is made of; weights are free logits."""

    weights: Tensor
    locs: Tensor
    bandwidth: Tensor

    def mixture(self) -> Mixture:
        scale, concentration = self.bandwidth.split(1, -1)
        kernel = Product((Gaussian(scale), VonMises(concentration)))
        return Mixture(self.locs, self.weights.log_softmax(-1), kernel)

    def repeated(self, *batch: int) -> "_Parts":
        return trees.tree_map(lambda tensor: tensor.expand(*batch, *tensor.shape).contiguous(), self)


def check_resampler(
    resampler: Resampler,
    *,
    smoothed: bool = True,
    unbiased: bool = True,
    unbiased_gradient: Collection[str] = INPUTS,
    no_gradient: Collection[str] = (),
    num_replicates: int = 5000,
    max_se: float = 0.02,
    seed: int = 0,
) -> None:
    """Reject a resampler that breaks the promises of the protocol, or its own.

    The mixtures lie on one line and one circle, with overlapping components of unequal weight, whose expectations are known in
    closed form. Checked are: total mass and the means of a linear, a squared and a periodic function; the gradient to every input;
    that the generator alone decides the draw, also when recorded, replayed and sliced; that inputs stay as they are; one particle,
    one dominant weight, weights of zero, more and fewer particles than before; both precisions; any batch axes, also an empty one;
    equal values with and without gradient; gradients in proportion to the loss.

    Args:
        resampler: What to check.
        smoothed: Whether the points stand for the mixture, or (``False``) for its weighted locations without the kernel.
        unbiased: Whether weighted means over the points are right on average; only the mass is compared if not.
        unbiased_gradient: Those of ``"weights"``, ``"locs"`` and ``"bandwidth"`` whose gradient is right on average.
        no_gradient: Those whose gradient is cut: it must be exactly zero. Gradients named nowhere need only be finite.
        num_replicates: Independent draws behind every mean.
        max_se: The largest standard error of any mean; the gradients compared are up to 0.33.
        seed: Seed of all random numbers.

    Example:
        >>> from mdpf import resamplers
        >>> check_resampler(resamplers.Truncated(), unbiased_gradient=(), no_gradient=INPUTS, num_replicates=1000, max_se=0.05)
    """
    unknown = {*unbiased_gradient, *no_gradient} - {*INPUTS}
    if unknown or {*unbiased_gradient} & {*no_gradient}:
        raise ValueError(
            f"check_resampler needs disjoint unbiased_gradient and no_gradient out of {list(INPUTS)}, "
            f"got {sorted(unbiased_gradient)} and {sorted(no_gradient)}."
        )
    generator = torch.Generator().manual_seed(seed)
    _check_inputs_unmodified(resampler, generator)
    _check_shapes(resampler, generator)
    _check_means(resampler, smoothed, unbiased, num_replicates, max_se, generator)
    _check_gradients(resampler, smoothed, unbiased_gradient, no_gradient, num_replicates, max_se, generator)
    _check_randomness(resampler, seed)
    _check_slices(resampler, generator)
    _check_extremes(resampler, exact=unbiased, generator=generator)
    _check_grad_mode(resampler, seed)
    _check_loss_scale(resampler, seed)


def _parts(dtype: torch.dtype = torch.float64) -> _Parts:
    """Five overlapping components, one on each side of the seam of the circle, with an effective sample size of 2.6."""
    weights = torch.tensor([0.10, 0.55, 0.03, 0.25, 0.07], dtype=dtype).log()
    locs = torch.tensor([[-1.0, 3.0], [0.5, -2.8], [1.5, 0.2], [-0.4, 1.9], [1.0, -1.0]], dtype=dtype)
    return _Parts(weights, locs, torch.tensor([0.8, 2.0], dtype=dtype))


# --- What is compared -----------------------------------------------------------------------------------------------------------


def _moments(points: Tensor) -> Tensor:
    """One, a linear, a squared and a periodic function of every point, ``[..., 4]``."""
    x, angle = points.unbind(-1)
    return torch.stack([torch.ones_like(x), x, x.square(), (angle - PHASE).cos()], -1)


def _exact_moments(parts: _Parts, smoothed: bool) -> Tensor:
    weights, (x, angle), (scale, pull) = parts.weights.softmax(-1), parts.locs.unbind(-1), _smoothing(parts, smoothed)
    values = torch.stack([torch.ones_like(x), x, x.square() + scale.square(), pull * (angle - PHASE).cos()], -1)
    return torch.einsum("...n,...nk->...k", weights, values)


def _smoothing(parts: _Parts, smoothed: bool) -> tuple[Tensor, Tensor]:
    """The standard deviation along the line, and the length of the mean unit vector on the circle."""
    scale, concentration = (part.unsqueeze(-1) for part in parts.bandwidth.unbind(-1))
    if not smoothed:
        return torch.zeros_like(scale), torch.ones_like(scale)
    return scale, torch.special.i1e(concentration) / torch.special.i0e(concentration)


def _loss(points: Tensor) -> Tensor:
    """A function that is linear nowhere and couples the coordinates."""
    x, angle = points.unbind(-1)
    return x.sin() + (angle - PHASE).cos() + x * angle.sin()


def _exact_loss(parts: _Parts, smoothed: bool) -> Tensor:
    weights, (x, angle), (scale, pull) = parts.weights.softmax(-1), parts.locs.unbind(-1), _smoothing(parts, smoothed)
    values = x.sin() * (-scale.square() / 2).exp() + pull * (angle - PHASE).cos() + pull * x * angle.sin()
    return (weights * values).sum(-1)


def _estimate(draw: Draw, function: Callable[[Tensor], Tensor]) -> Tensor:
    """The weighted mean of a scalar function over a draw."""
    return (draw.log_weights.exp() * function(draw.points)).sum(-1)


# --- What is checked ------------------------------------------------------------------------------------------------------------


def _check_means(
    resampler: Resampler, smoothed: bool, unbiased: bool, num_replicates: int, max_se: float, generator: Generator
) -> None:
    parts = _parts()
    truth = _exact_moments(parts, smoothed)
    compared = len(truth) if unbiased else 1
    for num_particles in (5, 12):
        with torch.no_grad():
            draw = resampler(parts.repeated(num_replicates).mixture(), num_particles, generator=generator)
        found = torch.einsum("rn,rnk->rk", draw.log_weights.exp(), _moments(draw.points))
        what = f"mass, linear, squared and periodic mean of {num_particles} particles"
        assert_mean(found[..., :compared], truth[:compared], max_se=max_se, what=what)


def _check_gradients(
    resampler: Resampler,
    smoothed: bool,
    unbiased_gradient: Collection[str],
    no_gradient: Collection[str],
    num_replicates: int,
    max_se: float,
    generator: Generator,
) -> None:
    parts = _parts()
    truth = gradients(lambda **inputs: _exact_loss(_Parts(**inputs), smoothed), parts._asdict())

    def estimate(**inputs: Tensor) -> Tensor:
        return _estimate(resampler(_Parts(**inputs).mixture(), 5, generator=generator), _loss)

    found = gradients(estimate, parts.repeated(num_replicates)._asdict())
    for name in INPUTS:
        if not bool(found[name].isfinite().all()):
            raise AssertionError(f"gradient to {name}: not finite")
        if name in no_gradient and bool(found[name].any()):
            raise AssertionError(f"gradient to {name}: got up to {float(found[name].abs().max()):.3g}, expected exactly zero")
        if name in unbiased_gradient:
            assert_mean(found[name], truth[name], max_se=max_se, what=f"gradient to {name}")


def _check_randomness(resampler: Resampler, seed: int) -> None:
    mixture = _parts().repeated(3).mixture()
    before = torch.get_rng_state()
    first = resampler(mixture, 7, generator=torch.Generator().manual_seed(seed))
    again = resampler(mixture, 7, generator=torch.Generator().manual_seed(seed))
    recorder = noise.Recorder(torch.Generator().manual_seed(seed))
    recorded = resampler(mixture, 7, generator=recorder)
    replayed = resampler(mixture, 7, generator=recorder.noise)
    if not torch.equal(before, torch.get_rng_state()):
        raise AssertionError("the global random stream moved although a generator was given")
    for name, draw in (("again", again), ("recorded", recorded), ("replayed", replayed)):
        _assert_same(draw, first, f"the same generator state, {name}")


def _check_slices(resampler: Resampler, generator: Generator) -> None:
    """The recorded noise of a batch, sliced, is the noise of one of its elements."""
    batch = 3
    parts = _parts().repeated(batch)
    parts = parts._replace(locs=parts.locs + torch.arange(batch, dtype=torch.float64)[:, None, None] / 10)
    recorder = noise.Recorder(generator)
    whole = resampler(parts.mixture(), 7, generator=recorder)
    for index in range(batch):
        one = trees.tree_map(lambda tensor, index=index: tensor[index], parts)
        alone = resampler(one.mixture(), 7, generator=noise.Noise(tuple(draw[index] for draw in recorder.noise.draws)))
        _assert_same(alone, Draw(whole.points[index], whole.log_weights[index]), f"batch element {index} with its own noise")


def _check_inputs_unmodified(resampler: Resampler, generator: Generator) -> None:
    mixture = _parts().repeated(2).mixture()
    copies = trees.tree_map(torch.clone, mixture)
    resampler(mixture, 5, generator=generator)
    if not all(torch.equal(*pair) for pair in zip(trees.leaves(mixture), trees.leaves(copies), strict=True)):
        raise AssertionError("the mixture that was handed in has changed")


@torch.no_grad()
def _check_shapes(resampler: Resampler, generator: Generator) -> None:
    """Every batch shape and precision; more and fewer particles; kernel parameters of every element, or shared by all."""
    for dtype in (torch.float32, torch.float64):
        for batch in ((), (3,), (2, 3), (0,), (2, 0)):
            own = _parts(dtype).repeated(*batch)
            shared = own._replace(bandwidth=_parts(dtype).bandwidth)
            for parts, num_particles in ((own, 3), (own, 5), (own, 9), (shared, 5)):
                draw = resampler(parts.mixture(), num_particles, generator=generator)
                _assert_well_formed(draw, (*batch, num_particles), dtype)


def _assert_well_formed(draw: Draw, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    if tuple(draw.points.shape) != (*shape, 2) or tuple(draw.log_weights.shape) != shape:
        raise AssertionError(
            f"shapes: got points {list(draw.points.shape)} and log_weights {list(draw.log_weights.shape)}, "
            f"expected {[*shape, 2]} and {list(shape)}"
        )
    if draw.points.dtype != dtype or draw.log_weights.dtype != dtype:
        raise AssertionError(f"dtype: got {draw.points.dtype} and {draw.log_weights.dtype}, expected {dtype}")
    if not bool(draw.points.isfinite().all()) or bool((draw.log_weights.isnan() | (draw.log_weights == math.inf)).any()):
        raise AssertionError("values: points and weights are to be finite")


def _check_extremes(resampler: Resampler, *, exact: bool, generator: Generator) -> None:
    """One component, one dominant weight, weights of zero: finite throughout, and nothing of an impossible component."""
    for dtype in (torch.float32, torch.float64):
        parts = _parts(dtype)
        lonely = _Parts(parts.weights[:1], parts.locs[:1], parts.bandwidth)
        far = parts.locs.clone()
        far[[0, 2, 4], 0] = FAR
        heavy = torch.tensor([0.0, 0.0, 0.0, 200.0, 0.0], dtype=dtype)
        barred = torch.tensor([-math.inf, 0.0, -math.inf, 1.0, -math.inf], dtype=dtype)
        cases = {
            "one component": (lonely, math.inf),
            "one dominant weight": (_Parts(heavy, far, parts.bandwidth), FAR / 2),
            "weights of zero": (_Parts(barred, far, parts.bandwidth), FAR / 2),
        }
        for name, (case, reach) in cases.items():
            for num_particles in (1, 4, 5, 9):
                _check_extreme(resampler, name, case, num_particles, reach if exact else math.inf, generator)


def _check_extreme(resampler: Resampler, name: str, parts: _Parts, num_particles: int, reach: float, generator: Generator) -> None:
    inputs = {key: value.expand(50, *value.shape) for key, value in parts._asdict().items()}
    drawn: list[Draw] = []

    def estimate(**inputs: Tensor) -> Tensor:
        drawn.append(resampler(_Parts(**inputs).mixture(), num_particles, generator=generator))
        return _estimate(drawn[0], _loss)

    found = gradients(estimate, inputs)
    (draw,) = drawn
    _assert_well_formed(draw, (50, num_particles), parts.locs.dtype)
    if bool(((draw.points[..., 0].abs() > reach) & (draw.log_weights > -80)).any()):
        raise AssertionError(f"{name}: a component without weight was drawn")
    for key, gradient in found.items():
        if not bool(gradient.isfinite().all()):
            raise AssertionError(f"{name}: gradient to {key} not finite with {num_particles} particles")


def _check_grad_mode(resampler: Resampler, seed: int) -> None:
    """Values do not depend on whether anybody asks for a gradient."""
    parts = _Parts(*(tensor.clone().requires_grad_() for tensor in _parts().repeated(4)))
    for num_particles in (5, 9):
        with_grad = resampler(parts.mixture(), num_particles, generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            without = resampler(parts.mixture(), num_particles, generator=torch.Generator().manual_seed(seed))
        _assert_same(without, with_grad, "without gradient")


def _check_loss_scale(resampler: Resampler, seed: int) -> None:
    """A loss times one hundred has a gradient times one hundred: nothing is clipped on the way back."""

    def scaled(factor: float) -> dict[str, Tensor]:
        def loss(**inputs: Tensor) -> Tensor:
            draw = resampler(_Parts(**inputs).mixture(), 5, generator=torch.Generator().manual_seed(seed))
            return factor * _estimate(draw, _loss)

        return gradients(loss, _parts().repeated(50)._asdict())

    plain, large = scaled(1.0), scaled(100.0)
    for name in INPUTS:
        message = f"gradient to {name} of a loss times 100"
        assert_close(large[name], 100 * plain[name], rtol=1e-8, atol=1e-10, msg=lambda text, what=message: f"{what}: {text}")


def _assert_same(draw: Draw, expected: Draw, what: str) -> None:
    for name in Draw._fields:
        actual, wanted = getattr(draw, name), getattr(expected, name)
        assert_close(
            actual.detach(), wanted.detach(), rtol=1e-10, atol=1e-10, msg=lambda text, name=name: f"{what}, {name}: {text}"
        )
