"""The filter that knows the simulator of bearings-only tracking: what is left to gain for filters that learn.

Its particles carry what the car hides, its target and its speed, and drive on exactly as the simulator drives; they are weighed by
the true law of the radar. Like every other method it starts from particles around the true pose at frame 0 and knows nothing else
of the sequence; speed and target are drawn as at the start of a leg. (The simulator made one step before frame 0. What the heading
at that frame tells about the target is left unused.)

A car moves without noise while its leg lasts, so copies of a particle stay copies until a leg ends: particles are copied only where
it is needed, and there must be many. The kernel that makes a density of them takes no part in the recursion. It is one for all
frames, as for every other method, and the one with the best likelihood on other sequences than those of the evaluation.
"""

import math
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import torch
from torch import Tensor

from mdpf import metrics, noise, trees
from mdpf.checks import check_count
from mdpf.data.sequences import SequenceBatch, minibatches
from mdpf.evaluation.results import Result, provenance, save
from mdpf.filters import ParticleFilter
from mdpf.filters.generative import bootstrap
from mdpf.kernels import Gaussian, Kernel, Product, VonMises
from mdpf.mixture import Mixture
from mdpf.noise import Source
from mdpf.resamplers import Adaptive, Discrete
from mdpf.selection import systematic
from mdpf.spaces import wrap
from mdpf.tasks import bearings
from mdpf.tasks.bearings import Cars

POSE = (0, 1, 2)  # Of a particle's coordinates x, y, heading, x and y of the target, speed.
ROUNDS = 16  # A proposed target is refused one time in three on average, in the worst places every second time.
AT_ONCE = 2_000_000  # Particles of all sequences that are filtered together: enough to keep a large GPU busy.

# The kernels to choose from: positions as standard deviations, headings as inverse concentrations.
POSITION_WIDTHS = (0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.45, 0.7)
HEADING_WIDTHS = (0.001, 0.003, 0.01, 0.02, 0.04, 0.08, 0.16, 0.3)


def build(kernel: Kernel) -> ParticleFilter:
    """The filter; ``kernel`` covers the pose. Positions and speed of the target are marginalised away before it is used."""
    hidden = Gaussian(torch.ones(3))
    return bootstrap(drive, log_likelihood, Product((kernel, hidden)), resampler=Adaptive(Discrete(systematic)))


def pose_kernel(position: float, heading: float) -> Kernel:
    """Gaussian for positions, von Mises for the heading."""
    return Product((Gaussian(torch.full((2,), position)), VonMises(torch.full((1,), 1 / heading))))


def start(poses: Tensor, *, generator: Source = None) -> Tensor:
    """Give particles ``[..., 3]`` a target and a speed, as at the start of a leg: ``[..., 6]``."""
    generator = noise.source(generator)
    target, speed = _new_leg(poses[..., :2], generator)
    return torch.cat([poses, target, speed[..., None]], -1)


def drive(points: Tensor, action: Tensor | None = None, *, generator: Source = None) -> Tensor:
    """Drive particles on by one frame, as the simulator does, without ever looking at a value on the host.

    The one thing left out is that a car gives up its target after 1000 steps: a sequence of 150 frames has 448.
    """
    del action
    generator = noise.source(generator)
    flat = points.flatten(0, -2)
    for _ in range(bearings.STEPS_PER_FRAME):
        position, target = flat[:, :2], flat[:, 3:5]
        ended = (position - target).square().sum(-1) <= bearings.REACHED**2
        fresh, speed = _new_leg(position, generator)
        target = torch.where(ended[:, None], fresh, target)
        speed = torch.where(ended, speed, flat[:, 5])
        cars = bearings.advance(Cars(position, flat[:, 2], target, speed, torch.zeros_like(speed)))
        flat = torch.cat([cars.position, cars.heading[:, None], target, speed[:, None]], -1)
    return flat.view_as(points)


def log_likelihood(particles: Tensor, feature: Tensor) -> Tensor:
    """The log-density of a reported direction ``[*batch, 2]``, as sine and cosine, for particles ``[*batch, n, 6]``."""
    reported = torch.atan2(feature[..., 0], feature[..., 1]).unsqueeze(-1)
    gap = wrap(reported - bearings.bearing(particles))
    radar = VonMises(gap.new_full((1,), bearings.HIT_CONCENTRATION))
    hit = radar.log_prob(gap[..., None], torch.zeros_like(gap)[..., None]) + math.log(bearings.HIT)
    return torch.logaddexp(hit, torch.full_like(hit, math.log((1 - bearings.HIT) / (2 * math.pi))))


def beliefs(filter: ParticleFilter, data: SequenceBatch, particles: int, *, generator: Source = None) -> Iterator[Mixture]:
    """Filter sequences; gives what is believed of the pose at every frame, the first included."""
    poses = bearings.task().prior(data.states[:, 0], particles, generator=generator)
    belief = filter.init(start(poses, generator=generator), check_values=False)
    yield belief.posterior.marginal(POSE)
    for frame in range(1, data.length):
        belief, _ = filter.step(belief, data.observations[:, frame], generator=generator)
        yield belief.posterior.marginal(POSE)


@torch.no_grad()
def fit_kernel(data: SequenceBatch, particles: int, *, generator: Source = None) -> tuple[float, float]:
    """The widths of position and heading under which the truth of ``data`` is most likely, frame 0 left out."""
    widths = list(product(POSITION_WIDTHS, HEADING_WIDTHS))
    # Built before the first step, so that nothing is copied to the device between steps.
    kernels = [trees.tree_map(lambda tensor: tensor.to(data.states.device), pose_kernel(*pair)) for pair in widths]
    filter = build(kernels[0]).to(data.states.device)
    total = data.states.new_zeros(len(widths))
    for part in minibatches(data, max(1, AT_ONCE // particles), shuffle=False):
        for frame, belief in enumerate(beliefs(filter, part, particles, generator=generator)):
            if frame:
                truth = part.states[:, frame, None]
                total += torch.stack([belief._replace(kernel=kernel).log_prob(truth).sum() for kernel in kernels])
    return widths[int(total.argmax())]


@torch.no_grad()
def evaluate(filter: ParticleFilter, data: SequenceBatch, particles: int, *, generator: Source = None) -> dict[str, Tensor]:
    """The metrics of the study on sequences."""
    parts = []
    for part in minibatches(data, max(1, AT_ONCE // particles), shuffle=False):
        steps = beliefs(filter, part, particles, generator=generator)
        first = next(steps)
        found = []
        for frame, belief in enumerate(steps, start=1):
            states = torch.stack([part.states[:, 0], part.states[:, frame]], 1)
            found.append(metrics.measure(first, trees.tree_map(lambda tensor: tensor.unsqueeze(1), belief), states))
        ends = [metrics.Frames(*(value[:, :1] for value in found[0])), *(metrics.Frames(*(v[:, 1:] for v in f)) for f in found)]
        parts.append(metrics.Frames(*(torch.cat(values, 1) for values in zip(*ends, strict=True))))
    frames = metrics.Frames(*(torch.cat(values, 0) for values in zip(*parts, strict=True)))
    return metrics.summarise(frames, limit=bearings.task().limit_lost)


def study(
    folder: str | Path,
    *,
    device: str = "cpu",
    particles: int = 20_000,
    num_sequences: int = 5000,
    num_fitting: int = 200,
    seed: int = 0,
) -> Path:
    """Choose the kernel on sequences of the validation stream, evaluate, and write ``Oracle.json`` into ``folder``.

    Args:
        folder: Where the results of the study are.
        device: Where to compute.
        particles: How many. With 25, as the others have, it loses the car: it has no noise to find it again.
        num_sequences: Sequences of the evaluation split.
        num_fitting: Sequences of the same length that the kernel is chosen on.
        seed: Of the particles.
    """
    for name, value in (("particles", particles), ("num_sequences", num_sequences), ("num_fitting", num_fitting)):
        check_count("oracle.study", value, name)
    begin = time.monotonic()
    task = bearings.task()
    data = task.split("evaluation", num_sequences=num_sequences).to(device)
    fitting = task.split("validation", num_sequences=num_fitting, length=data.length)
    # The validation split has few labels; of these sequences all states are used.
    fitting = fitting._replace(labelled=None).to(device)
    generator = torch.Generator(device).manual_seed(seed)
    position, heading = fit_kernel(fitting, particles, generator=generator)
    filter = build(pose_kernel(position, heading)).to(device)
    found = evaluate(filter, data, particles, generator=generator)
    config = {
        "particles": particles,
        "num_sequences": num_sequences,
        "num_fitting": num_fitting,
        "seed": seed,
        "position_width": position,
        "heading_width": heading,
    }
    runs = [{"seed": seed, "metrics": {name: value.item() for name, value in found.items()}}]
    return save(Result("bearings", "Oracle", runs, config, provenance(time.monotonic() - begin, device=device)), folder)


def _new_leg(position: Tensor, generator: Source) -> tuple[Tensor, Tensor]:
    """A target and a speed for each position ``[..., 2]``: proposals in a fixed number of rounds, the first that is accepted taken.

    Where none is, which happens once in millions, the last one stays.
    """
    radar = torch.stack([torch.full_like(position[..., 0], place) for place in bearings.RADAR], -1)
    target, pending = position, torch.ones_like(position[..., 0], dtype=torch.bool)
    for _ in range(ROUNDS):
        proposal = _border_points(position, generator)
        target = torch.where(pending[..., None], proposal, target)
        pending = pending & (bearings.angle_at(position, proposal, radar) < bearings.CLEARANCE)
    fast = noise.uniform(tuple(pending.shape), position, generator) < 0.5
    slow, quick = (torch.full_like(position[..., 0], speed) for speed in bearings.SPEEDS)
    return target, torch.where(fast, quick, slow)


def _border_points(like: Tensor, generator: Source) -> Tensor:
    """Draw points in the bands along the four sides: first the side, then the place within its band."""
    side, along, across = noise.uniform((*like.shape[:-1], 3), like, generator).unbind(-1)
    along = bearings.HALF_SIDE * (2 * along - 1)
    across = bearings.HALF_SIDE - bearings.BAND * across
    quarter = (4 * side).floor()
    across = torch.where(quarter < 2, across, -across)
    vertical = quarter % 2 == 0
    return torch.stack([torch.where(vertical, across, along), torch.where(vertical, along, across)], -1)
