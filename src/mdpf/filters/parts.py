"""The parts of a step that every filter shares, and the checks at their doors."""

import math

import torch
from torch import Tensor

from mdpf import trees
from mdpf.checks import check_batch, check_finite, check_same_kind, check_tensor, describe
from mdpf.filters.belief import Belief
from mdpf.kernels.protocol import Kernel
from mdpf.mixture import Mixture
from mdpf.models.protocol import Bandwidth, Dynamics, Encoder, Feature, Measurement
from mdpf.noise import Source
from mdpf.resamplers.protocol import Draw, Resampler


def initial_belief(
    call: str, bandwidth: Bandwidth, particles: Tensor, log_weights: Tensor | None, check_values: bool = True
) -> Belief:
    """The belief in given particles; a door, so it looks at values too, unless the caller has."""
    check_tensor(call, particles, ["particle", "state"], "Pass particles[..., None, :] for a single particle.")
    kernel = smooth(bandwidth, particles)
    check_tensor(
        call,
        particles,
        ["particle", kernel.state_dim],
        f"The bandwidth smooths {kernel.state_dim} coordinates; pass particles[..., None, :] for a single particle.",
    )
    for parameter in trees.leaves(kernel):
        check_same_kind(call, particles=particles, bandwidth=parameter)
    if log_weights is None:
        log_weights = particles.new_full(particles.shape[:-1], -math.log(particles.shape[-2]))
    posterior = Mixture(particles, log_weights, kernel)
    if check_values:
        check_finite(call, particles, "particles")
        posterior.check_values(call)
    else:
        posterior.check(call)
    return Belief(posterior, None)


def smooth(bandwidth: Bandwidth, particles: Tensor) -> Kernel:
    """The kernel of a belief; its parameters are given every batch axis, so that beliefs can be stacked, sliced and masked."""
    batch = particles.shape[:-2]

    def expand(parameter: Tensor) -> Tensor:
        *lead, dim = parameter.shape
        return parameter.reshape(*lead, *(1,) * (len(batch) - len(lead)), dim).expand(*batch, dim)

    return trees.tree_map(expand, bandwidth(particles))


def move(
    belief: Belief,
    resampler: Resampler,
    dynamics: Dynamics,
    action: Tensor | None,
    num_particles: int | None,
    generator: Source,
) -> Draw:
    """Resample, except right after ``init``, and move the particles one frame on."""
    if belief.resampling is None:
        draw = Draw(belief.posterior.locs, belief.posterior.log_weights)
    else:
        count = belief.resampling.num_components if num_particles is None else num_particles
        draw = resampler(belief.resampling, count, generator=generator)
    if action is not None:
        check_batch("step", action, "action", belief.posterior.batch_shape, "One action for each batch element, [*batch, a].")
    particles = dynamics(draw.points, action, generator=generator)
    if particles.shape != draw.points.shape:
        raise ValueError(
            f"step needs dynamics to keep the shape of the particles, got {describe(particles)} from {describe(draw.points)}. "
            "Dynamics move particles; they neither add nor drop any."
        )
    check_same_kind("step", particles=draw.points, dynamics=particles)
    return draw._replace(points=particles)


def score(
    measurement: Measurement, particles: Tensor, feature: Feature, observed: Tensor | None, num_heads: int | None = None
) -> Tensor:
    """Score the particles; zero where nothing was observed, with nothing of the missing feature in the gradient."""
    shape = (*particles.shape[:-1],) if num_heads is None else (*particles.shape[:-1], num_heads)
    if feature is None:
        return particles.new_zeros(shape)
    if observed is not None:
        check_batch("step", observed, "observed", particles.shape[:-2], "One truth value for each batch element.")
    scores = measurement(particles, blank(observed, feature))
    if tuple(scores.shape) != shape:
        raise ValueError(
            f"step needs scores of shape {list(shape)} from the measurement, got {describe(scores)}. "
            f"It scores each particle {'once' if num_heads is None else 'twice: for the posterior and for resampling'}."
        )
    if torch.promote_types(particles.dtype, scores.dtype) != particles.dtype:
        raise TypeError(
            f"step needs scores that keep particles at {particles.dtype}, got {describe(scores)}. "
            f"They would change the precision of the belief; convert the measurement or its input with .to({particles.dtype})."
        )
    if observed is None:
        return scores
    return torch.where(observed.reshape(observed.shape + (1,) * (scores.ndim - observed.ndim)), scores, 0.0)


def seen(observed: Tensor | None, valid: Tensor | None) -> Tensor | None:
    """Which frames have an observation that counts; ``None`` for all."""
    for name, mask in (("observed", observed), ("valid", valid)):
        if mask is not None and mask.dtype != torch.bool:
            raise TypeError(f"scan needs {name} to be a bool tensor, got {describe(mask)}. Convert it with .bool().")
    if observed is None or valid is None:
        return valid if observed is None else observed
    return observed & valid


def blank(mask: Tensor | None, value: Feature) -> Feature:
    """Put zeros where the mask is false, so that what stands there reaches neither values nor gradients."""
    return value if mask is None else trees.where(mask, value, trees.tree_map(torch.zeros_like, value))


def encode(encoder: Encoder | None, observations: Tensor, seen: Tensor | None) -> Feature:
    """Encode a whole sequence, with the frames that do not count blanked."""
    return observations if encoder is None else encoder(blank(seen, observations))
