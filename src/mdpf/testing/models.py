"""The conformance checks of what a filter is made of: dynamics, measurements and bandwidths."""

import math
from collections.abc import Callable
from itertools import chain
from typing import Any

import torch
from torch import Generator, Tensor, nn

from mdpf import noise, trees
from mdpf.kernels.protocol import Kernel
from mdpf.mixture import Mixture
from mdpf.models.protocol import Bandwidth, Dynamics, Measurement
from mdpf.spaces import StateSpace

# Batch axes, and a feature or an action for each element.
Make = Callable[[tuple[int, ...], Generator], Any]

BATCHES = ((), (3,), (2, 3))
NUM_PARTICLES = 5


def check_dynamics(
    dynamics: Dynamics, space: StateSpace, *, make_action: Make | None = None, is_random: bool = True, seed: int = 0
) -> None:
    """Reject dynamics that do not move every particle on its own, by its own noise.

    Checked are: shapes and precision; that particles keep their order and batch elements to themselves; that whole turns of angles
    make no difference; that the generator alone decides; that inputs stay as they are; finite gradients, to every parameter.

    Args:
        dynamics: What to check, in the precision of its parameters.
        space: The coordinates of a state.
        make_action: ``(batch, generator)`` to an action ``[*batch, a]``; by default there is none.
        is_random: Whether particles at one place are expected to part.
        seed: Seed of all random numbers.

    Example:
        >>> from mdpf.models import ResidualDynamics
        >>> space = StateSpace.of("x", theta="angle")
        >>> check_dynamics(ResidualDynamics(space, bound=(1.0, 1.0, 1.0), hidden_dim=8), space)
    """
    generator, dtype = torch.Generator().manual_seed(seed), _dtype_of(dynamics)
    for batch in BATCHES:
        points = _states(space, batch, dtype, generator)
        action = None if make_action is None else make_action(batch, generator)
        recorder, before = noise.Recorder(generator), torch.get_rng_state()
        kept = [tensor.clone() for tensor in (points, *trees.leaves(action))]
        moved = dynamics(points, action, generator=recorder)
        _require(torch.equal(before, torch.get_rng_state()), "the global stream stays untouched when a generator is given")
        _require_unmodified(kept, points, *trees.leaves(action))
        _require(moved.shape == points.shape, f"points of shape {list(points.shape)}, got {list(moved.shape)}")
        _require(moved.dtype == dtype, f"points of type {dtype}, got {moved.dtype}")
        _require(bool(moved.isfinite().all()), "finite points")
        _require(torch.equal(dynamics(points, action, generator=recorder.noise), moved), "the same noise, the same points")

        shapes = [tuple(draw.shape) for draw in recorder.noise.draws]
        _require(all(shape[: len(batch)] == batch for shape in shapes), f"noise of each batch element's own, got shapes {shapes}")

        order, axis = torch.randperm(NUM_PARTICLES, generator=generator), len(batch)
        shuffled = noise.Noise(tuple(_shuffle(draw, axis, order) for draw in recorder.noise.draws))
        other = dynamics(points[..., order, :], action, generator=shuffled)
        _require_close(space.difference(other, moved[..., order, :]), "particles in another order move as they did")
        turned = dynamics(points + _full_turn(space, points), action, generator=recorder.noise)
        _require_close(space.difference(turned, moved), "a full turn of every angle changes nothing")
        for index in _places(batch):
            alone_action = trees.tree_map(lambda tensor, index=index: tensor[index], action)
            draws = noise.Noise(tuple(draw[index] for draw in recorder.noise.draws))
            alone = dynamics(points[index], alone_action, generator=draws)
            _require_close(space.difference(alone, moved[index]), f"batch element {index} moves as it does alone")

    points = _states(space, (40,), dtype, generator).requires_grad_()
    action = None if make_action is None else make_action((40,), generator)
    moved = dynamics(points, action, generator=generator)
    _require_gradients(dynamics, moved.sin().sum() + moved.square().sum(), points)
    if is_random:
        place = points[:1, :1].detach().expand(1, NUM_PARTICLES, -1)
        action = None if action is None else trees.tree_map(lambda tensor: tensor[:1], action)
        moved = dynamics(place, action, generator=generator)[0].detach()
        _require(len(moved.unique(dim=0)) == NUM_PARTICLES, "particles at one place part")


def check_measurement(
    measurement: Measurement, space: StateSpace, *, make_feature: Make, num_heads: int | None = None, seed: int = 0
) -> None:
    """Reject a measurement that does not score every particle on its own.

    Checked are: shapes and precision; scores that are numbers below infinity; that particles keep their order and batch elements to
    themselves; that whole turns of angles make no difference; that nothing is random; that inputs stay as they are; finite
    gradients, to every parameter.

    Args:
        measurement: What to check, in the precision of its parameters.
        space: The coordinates of a state.
        make_feature: ``(batch, generator)`` to a feature with these batch axes.
        num_heads: How many scores a particle has; ``None`` for one without an axis of its own.
        seed: Seed of all random numbers.

    Example:
        >>> from mdpf.models import ScoreNetwork
        >>> space = StateSpace.of("x", theta="angle")
        >>> network = ScoreNetwork(space, feature_dim=2, particle_sizes=(8,), hidden_dim=8)
        >>> check_measurement(network, space, make_feature=lambda batch, generator: torch.randn(*batch, 2, generator=generator))
    """
    generator, dtype = torch.Generator().manual_seed(seed), _dtype_of(measurement)
    for batch in BATCHES:
        particles, feature = _states(space, batch, dtype, generator), make_feature(batch, generator)
        kept, before = [tensor.clone() for tensor in (particles, *trees.leaves(feature))], torch.get_rng_state()
        scores = measurement(particles, feature)
        shape = (*batch, NUM_PARTICLES) if num_heads is None else (*batch, NUM_PARTICLES, num_heads)
        _require(tuple(scores.shape) == shape, f"scores of shape {list(shape)}, got {list(scores.shape)}")
        _require(scores.dtype == dtype, f"scores of type {dtype}, got {scores.dtype}")
        _require(not bool((scores.isnan() | (scores == math.inf)).any()), "scores that are numbers, or minus infinity")
        _require(torch.equal(measurement(particles, feature), scores), "the same particles, the same scores")
        _require(torch.equal(before, torch.get_rng_state()), "nothing random in a score")
        _require_unmodified(kept, particles, *trees.leaves(feature))

        order, axis = torch.randperm(NUM_PARTICLES, generator=generator), len(batch)
        shuffled = measurement(particles[..., order, :], feature)
        _require_close(shuffled - _shuffle(scores, axis, order), "particles in another order have the scores they had")
        turned = measurement(particles + _full_turn(space, particles), feature)
        _require_close(turned - scores, "a full turn of every angle changes nothing")
        for index in _places(batch):
            alone = measurement(particles[index], trees.tree_map(lambda tensor, index=index: tensor[index], feature))
            _require_close(alone - scores[index], f"batch element {index} has the scores it has alone")

    particles = _states(space, (40,), dtype, generator).requires_grad_()
    scores = measurement(particles, make_feature((40,), generator))
    _require_gradients(measurement, scores.exp().square().sum() + scores.sin().sum(), particles)


def check_bandwidth(bandwidth: Bandwidth, space: StateSpace, *, seed: int = 0) -> None:
    """Reject a bandwidth whose kernel does not fit the particles.

    Checked are: that the kernel covers the coordinates, knows the angles, and has finite positive parameters ``[d]`` or
    ``[*batch, d]``; that the order of particles makes no difference and batch elements keep to themselves; finite gradients, to
    every parameter.

    Args:
        bandwidth: What to check, in the precision of its parameters.
        space: The coordinates of a state.
        seed: Seed of all random numbers.

    Example:
        >>> from mdpf.models import LearnedBandwidth
        >>> space = StateSpace.of("x", theta="angle")
        >>> check_bandwidth(LearnedBandwidth(space, start=(0.5, 0.1), minimum=(0.1, 0.01)), space)
    """
    generator, dtype = torch.Generator().manual_seed(seed), _dtype_of(bandwidth)
    for batch in BATCHES:
        particles = _states(space, batch, dtype, generator)
        kernel = bandwidth(particles)
        _require_kernel(kernel, space, batch, dtype)
        order = torch.randperm(NUM_PARTICLES, generator=generator)
        _require_equal_kernels(bandwidth(particles[..., order, :]), kernel, "particles in another order have the same kernel")
        for index in _places(batch):
            own = trees.tree_map(lambda part, index=index: part[index] if part.ndim > 1 else part, kernel)
            _require_equal_kernels(bandwidth(particles[index]), own, f"batch element {index} has the kernel it has alone")
    particles = _states(space, (40,), dtype, generator).requires_grad_()
    log_weights = particles.new_full((40, NUM_PARTICLES), -math.log(NUM_PARTICLES))
    mixture = Mixture(particles, log_weights, bandwidth(particles))
    scale = mixture.kernel.variance().detach().sqrt()
    near = particles.detach() + 0.3 * (scale if scale.ndim == 1 else scale.unsqueeze(-2))
    _require_gradients(bandwidth, mixture.log_prob(near).sum(), particles)


def _require_kernel(kernel: Kernel, space: StateSpace, batch: tuple[int, ...], dtype: torch.dtype) -> None:
    angles = kernel.space.angular
    _require(kernel.state_dim == space.dim, f"a kernel over {space.dim} coordinates, got {kernel.state_dim}")
    _require(angles == space.angular, f"a kernel with the angles {list(space.angular)}, got {list(angles)}")
    for parameter in trees.leaves(kernel):
        _require(tuple(parameter.shape[:-1]) in ((), batch), f"parameters [d] or [*batch, d], got {list(parameter.shape)}")
        _require(parameter.dtype == dtype, f"kernel parameters of type {dtype}, got {parameter.dtype}")
        _require(bool((parameter.isfinite() & (parameter > 0)).all()), "finite and positive kernel parameters")


def _require_equal_kernels(found: Kernel, expected: Kernel, law: str) -> None:
    for ours, theirs in zip(trees.leaves(found), trees.leaves(expected), strict=True):
        _require_close((ours - theirs) / theirs, law)


def _dtype_of(model: object) -> torch.dtype:
    """The precision of a module's first floating-point number; double for a function."""
    if isinstance(model, nn.Module):
        for tensor in chain(model.parameters(), model.buffers()):
            if tensor.is_floating_point():
                return tensor.dtype
    return torch.float64


def _states(space: StateSpace, batch: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    drawn = torch.randn(*batch, NUM_PARTICLES, space.dim, generator=generator, dtype=torch.float64)
    return space.wrap(2 * drawn).to(dtype)


def _shuffle(draw: Tensor, axis: int, order: Tensor) -> Tensor:
    """Put the particle axis into another order; noise that all particles share has none."""
    return draw.index_select(axis, order) if draw.ndim > axis and draw.shape[axis] == len(order) else draw


def _places(batch: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [tuple(place) for place in torch.ones(batch).nonzero().tolist()] if batch else []


def _full_turn(space: StateSpace, like: Tensor) -> Tensor:
    return like.new_tensor([2 * math.pi if coordinate.angle else 0.0 for coordinate in space.coordinates])


def _require_gradients(model: object, loss: Tensor, states: Tensor) -> None:
    named = dict(model.named_parameters()) if isinstance(model, nn.Module) else {}
    learned = {name: parameter for name, parameter in named.items() if parameter.requires_grad}
    if not loss.requires_grad:
        _require(False, "a gradient")
    found = torch.autograd.grad(loss, [states, *learned.values()], allow_unused=True, materialize_grads=True)
    for name, gradient in zip(("states", *learned), found, strict=True):
        _require(bool(gradient.isfinite().all()), f"a finite gradient to {name}")
        _require(name == "states" or bool(gradient.any()), f"a gradient to {name}")


def _require_unmodified(kept: list[Tensor], *inputs: Tensor) -> None:
    _require(all(torch.equal(now, then) for now, then in zip(inputs, kept, strict=True)), "inputs stay as they were handed in")


def _require_close(difference: Tensor, law: str) -> None:
    tolerance = 1000 * torch.finfo(difference.dtype).eps
    # Minus infinity against itself is no difference.
    worst = float(difference.detach().nan_to_num(0.0).abs().max())
    _require(worst <= tolerance, f"{law}, got a difference of {worst:.3g}")


def _require(holds: bool, law: str) -> None:
    if not holds:
        raise AssertionError(f"violated: {law}")
