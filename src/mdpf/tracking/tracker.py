"""A trained filter as one calls it on a robot: raw observations in, beliefs out, whatever happens in between.

A tracker owns no memory either: ``belief = tracker.init(...)``, then ``belief = tracker.step(belief, observation, action)`` as
often as observations arrive.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from mdpf import modes, noise, trees
from mdpf.checks import check_count, check_finite, check_tensor, describe
from mdpf.filters.adaptive import AdaptiveParticleFilter
from mdpf.filters.belief import Belief
from mdpf.filters.particle import ParticleFilter
from mdpf.filters.recurrent import RecurrentFilter
from mdpf.mixture import Mixture, gather
from mdpf.noise import Source
from mdpf.spaces import StateSpace
from mdpf.tracking.starts import Around, Box

WIDEST = 1e15  # Of a spread: its square is still a number in single precision.

Values = Tensor | np.ndarray | Sequence[float] | float
Corners = tuple[Values, Values]


@dataclass(frozen=True)
class Vigilance:
    """When a tracker counts as lost: the running mean of its log-evidence falls below what tracks that were right never reached.

    Args:
        typical: The log-evidence of a step while all is well; the running mean starts here.
        threshold: Below this the tracker is lost.
        memory: How much of the running mean stays at each observation.
    """

    typical: float
    threshold: float
    memory: float = 0.9

    def after(self, running: Tensor, log_evidence: Tensor, observed: Tensor) -> Tensor:
        """The running mean after another observation, ``[*batch]``; unchanged where there was none."""
        # A step at which every particle was impossible says as much as the worst possible one.
        seen = log_evidence.clamp_min(self.typical - 50.0)
        return torch.where(observed, self.memory * running + (1 - self.memory) * seen, running)


class Tracked(NamedTuple):
    """What a tracker believes, and how sure it is of being on the track.

    Args:
        belief: That of the filter.
        log_evidence: The log-probability of the last observation given those before it, ``[*batch]``; zero without one.
        ess: The effective sample size of the weights, ``[*batch]``.
        degenerate: Whether every particle was scored as impossible; the weights were carried on, ``[*batch]``.
        running: The running mean of the log-evidence, ``[*batch]``.
        lost: Whether that has fallen below the learned threshold, ``[*batch]``; ``None`` if none was learned.
    """

    belief: Any
    log_evidence: Tensor
    ess: Tensor
    degenerate: Tensor
    running: Tensor
    lost: Tensor | None

    @property
    def posterior(self) -> Mixture:
        """The density over the state: ``log_prob``, ``sample``, ``marginal`` and the rest."""
        return self.belief.posterior

    @property
    def particles(self) -> Tensor:
        """Where the particles are, ``[*batch, n, d]``."""
        return self.posterior.locs

    def mean(self) -> Tensor:
        """The mean state, ``[*batch, d]``; between two hypotheses it may be far from both."""
        return self.posterior.mean()

    def covariance(self) -> Tensor:
        """The covariance of the state, ``[*batch, d, d]``."""
        return self.posterior.covariance()

    def modes(self, **options: Any) -> modes.Modes:  # noqa: ANN401 - those of find_modes
        """The live hypotheses, heaviest first; the options are those of ``mdpf.modes.find_modes``."""
        return modes.find_modes(self.posterior, **options)


class Tracker:
    """A trained filter with everything needed to start and feed it.

    Args:
        filter: The filter, without a run axis.
        space: The coordinates of its states.
        observation: The shape of one observation.
        around: The cloud it was trained to start from.
        image: Whether observations are images in bytes, channels last.
        action_dim: Numbers per action; zero if it knows of none.
        box: The region its data come from, if that is known.
        num_particles: How many particles by default: as many as in training.
        vigilance: When it counts as lost, if that was learned.
        recover: Where it is lost, the share of particles that is replaced by fresh ones from the box; none by default.
    """

    def __init__(
        self,
        filter: ParticleFilter | AdaptiveParticleFilter | RecurrentFilter,
        space: StateSpace,
        observation: tuple[int, ...],
        around: Around,
        *,
        image: bool = False,
        action_dim: int = 0,
        box: Box | None = None,
        num_particles: int = 100,
        vigilance: Vigilance | None = None,
        recover: float = 0.0,
    ):
        if not 0 <= recover < 1:
            raise ValueError(f"Tracker needs recover to be a share from 0 up to 1, got {recover!r}.")
        if recover and (vigilance is None or box is None or isinstance(filter, RecurrentFilter)):
            missing = "particles" if isinstance(filter, RecurrentFilter) else "a learned threshold and a region to start from"
            raise ValueError(f"Tracker(recover={recover}) needs {missing}, got a tracker without. Start it anew with init instead.")
        self.filter = filter.eval()
        self.space = space
        self.observation = observation
        self.around = around
        self.image = image
        self.action_dim = action_dim
        self.box = box
        self.num_particles = num_particles
        self.vigilance = vigilance
        self.recover = recover
        first = next(filter.parameters())
        self.dtype, self.device = first.dtype, first.device

    def to(self, device: torch.device | str) -> "Tracker":
        """Move to a device, in place."""
        self.filter.to(device)
        self.device = next(self.filter.parameters()).device
        return self

    @torch.no_grad()
    def init(
        self,
        guess: Values | None = None,
        *,
        spread: Values | None = None,
        box: Corners | bool | None = None,
        samples: Values | None = None,
        num_particles: int | None = None,
        generator: Source = None,
    ) -> Tracked:
        """Start around a guess, anywhere in a box, or from samples; one of the three.

        Args:
            guess: A state ``[*batch, d]``.
            spread: How far off the guess may be, a standard deviation for each coordinate; as in training by default.
            box: Two corners ``[d]`` to spread particles between, or ``True`` for the region of the training data.
            samples: Particles ``[*batch, n, d]``, taken as they are.
            num_particles: How many; as many as in training by default.
            generator: The source of random numbers.
        """
        given = [
            name
            for name, value in (("guess", guess), ("box", box), ("samples", samples))
            if value is not None and value is not False
        ]
        if len(given) != 1:
            raise ValueError(f"Tracker.init needs one of guess, box and samples, got {' and '.join(given) or 'none'}.")
        if spread is not None and guess is None:
            raise ValueError(f"Tracker.init needs a guess to go with spread, got {given[0]}. Leave spread out.")
        count = self.num_particles if num_particles is None else num_particles
        check_count("Tracker.init", count, "num_particles")
        if samples is not None:
            particles = self._state("samples", samples, ["particle", self.space.dim])
        elif guess is not None:
            start = self.around if spread is None else self._around(spread)
            particles = start(self._state("guess", guess, [self.space.dim]), count, generator=generator)
        else:
            like = torch.zeros(self.space.dim, dtype=self.dtype, device=self.device)
            particles = self._box(box)(like, count, generator=generator)
        if 0 in particles.shape:
            raise ValueError(f"Tracker.init needs at least one particle for at least one robot, got {describe(particles)}.")
        belief = self.filter.init(self.space.wrap(particles))
        batch = belief.posterior.batch_shape
        zero = torch.zeros(batch, dtype=self.dtype, device=self.device)
        never = torch.zeros(batch, dtype=torch.bool, device=self.device)
        running = zero if self.vigilance is None else torch.full_like(zero, self.vigilance.typical)
        ess = torch.full_like(zero, belief.posterior.num_components)
        return Tracked(belief, zero, ess, never, running, None if self.vigilance is None else never)

    @torch.no_grad()
    def step(
        self,
        belief: Tracked,
        observation: Values | None = None,
        action: Values | None = None,
        *,
        observed: Tensor | None = None,
        generator: Source = None,
    ) -> Tracked:
        """Go one frame on.

        Args:
            belief: What was believed before.
            observation: What was seen, ``[*batch, ...]``, as in the data: not encoded, not scaled. ``None`` where nothing was; an
                observation with a number that is not finite counts as missing.
            action: What was done since, ``[*batch, a]``, where the tracker was trained with actions.
            observed: Which batch elements have an observation, ``[*batch]``; by default those whose numbers are finite.
            generator: The source of random numbers.
        """
        if not isinstance(belief, Tracked):
            raise TypeError(f"Tracker.step needs a belief that Tracker.init made, got {describe(belief)}.")
        generator = noise.source(generator)
        batch = belief.posterior.batch_shape
        raw, finite = self._observation(observation, batch)
        observed = finite if observed is None else finite & observed
        moved = self._action(action, batch)
        feature = raw if self.filter.encoder is None else self.filter.encoder(raw.unsqueeze(len(batch))).squeeze(len(batch))
        new, info = self.filter.step(belief.belief, feature, moved, observed=observed, generator=generator)
        # Whatever a network makes of numbers it never saw, no belief is ever replaced by one that is not a number.
        sound = new.posterior.locs.isfinite().flatten(len(batch)).all(-1)
        new = trees.where(sound, new, _completed(belief.belief))
        found = Tracked(
            new,
            torch.where(observed, info.log_evidence, 0.0),
            torch.where(sound, info.ess, belief.ess),
            (info.degenerate & observed) | ~sound,
            belief.running,
            belief.lost,
        )
        return found if self.vigilance is None else self._judge(found, observed, generator)

    def _judge(self, found: Tracked, observed: Tensor, generator: Source) -> Tracked:
        """Whether the track is lost, and what to do about it."""
        assert self.vigilance is not None
        running = self.vigilance.after(found.running, found.log_evidence, observed)
        lost = running < self.vigilance.threshold
        found = found._replace(running=running, lost=lost)
        if not self.recover or self.box is None:
            return found
        belief = refresh(found.belief, lost, self.recover, self.box, generator)
        # It is told at this step and then watched anew, for the fresh particles need some observations to gather weight.
        return found._replace(belief=belief, running=torch.where(lost, self.vigilance.typical, running))

    def _state(self, name: str, value: Values, axes: list[str | int]) -> Tensor:
        state = _tensor(f"Tracker.init({name}=...)", value, self.dtype, self.device)
        check_tensor("Tracker.init", state, axes, f"The coordinates are {list(self.space.names)}.")
        check_finite("Tracker.init", state, name)
        return state

    def _around(self, spread: Values) -> Around:
        given = _tensor("Tracker.init(spread=...)", spread, self.dtype, torch.device("cpu"))
        if given.shape not in ((), (1,), (self.space.dim,)):
            raise ValueError(
                f"Tracker.init needs a spread for each of {list(self.space.names)}, or one for all, got {describe(given)}."
            )
        widths = given.expand(self.space.dim).tolist()
        if not all(0 < width < WIDEST for width in widths):
            raise ValueError(f"Tracker.init needs spreads between 0 and {WIDEST:g}, got {widths}.")
        pairs = zip(widths, self.space.coordinates, strict=True)
        return Around(self.space, tuple(width**2 if coordinate.angle else width for width, coordinate in pairs))

    def _box(self, box: Corners | bool | None) -> Box:
        if isinstance(box, bool) or box is None:
            if self.box is None:
                raise ValueError(
                    "Tracker.init(box=True) needs a tracker that knows the region of its data, got one that does not. "
                    "Give two corners."
                )
            return self.box
        if not isinstance(box, tuple | list) or len(box) != 2:
            raise TypeError(f"Tracker.init needs box to be two corners, got {describe(box)}.")
        cpu = torch.device("cpu")
        low, high = (_tensor("Tracker.init(box=...)", corner, torch.float64, cpu).flatten().tolist() for corner in box)
        return Box(self.space, tuple(low), tuple(high))

    def _observation(self, observation: Values | None, batch: torch.Size) -> tuple[Tensor, Tensor]:
        """The observation as the encoder wants it, zero where there is none, and where there is one."""
        shape, dtype = (*batch, *self.observation), torch.uint8 if self.image else self.dtype
        if observation is None:
            missing = torch.zeros(batch, dtype=torch.bool, device=self.device)
            return torch.zeros(shape, dtype=dtype, device=self.device), missing
        if self.image and not _is_bytes(observation):
            raise TypeError(f"Tracker.step needs an image in bytes (uint8), got {describe(observation)}. It was trained on such.")
        value = _tensor("Tracker.step(observation=...)", observation, dtype, self.device)
        if tuple(value.shape) != shape:
            raise ValueError(
                f"Tracker.step needs an observation of shape {list(shape)}, got {list(value.shape)}. "
                f"The belief has batch axes {list(batch)}, one observation has shape {list(self.observation)}."
            )
        if self.image:
            return value, torch.ones(batch, dtype=torch.bool, device=self.device)
        finite = value.isfinite().flatten(len(batch)).all(-1)
        return torch.where(finite.reshape(*batch, *(1,) * len(self.observation)), value, 0.0), finite

    def _action(self, action: Values | None, batch: torch.Size) -> Tensor | None:
        if not self.action_dim:
            if action is not None:
                raise ValueError("Tracker.step needs no action, got one. The tracker was trained on data without actions.")
            return None
        if action is None:
            raise ValueError(
                f"Tracker.step needs an action of {self.action_dim} numbers, got none. If nothing was done, pass what the "
                "data have there, such as zeros."
            )
        value = _tensor("Tracker.step(action=...)", action, self.dtype, self.device)
        check_tensor("Tracker.step", value, [self.action_dim], "One action for each batch element.")
        if tuple(value.shape) != (*batch, self.action_dim):
            raise ValueError(
                f"Tracker.step needs an action of shape {[*batch, self.action_dim]}, got {list(value.shape)}. "
                f"The belief has batch axes {list(batch)}, one action has {self.action_dim} numbers."
            )
        check_finite("Tracker.step", value, "action", "Where it is not known, pass the last one, or zeros.")
        return value


def refresh(belief: Belief, where: Tensor, share: float, box: Box, generator: Source = None) -> Belief:
    """Replace the lightest particles by fresh ones from a box, which together weigh ``share``.

    Args:
        belief: Of a particle filter, after at least one step.
        where: Which batch elements, ``[*batch]``; the others stay as they are.
        share: Of the particles, and of the weight.
        box: Where the fresh ones come from.
        generator: The source of random numbers.
    """
    posterior = belief.posterior
    count = posterior.num_components
    fresh = max(1, round(share * count))
    if fresh >= count:
        raise ValueError(f"refresh needs particles that stay, got a share of {share} of {count}. Use more particles.")
    points = box(posterior.locs[..., 0, :], fresh, generator=generator)
    # Both mixtures of an adaptive filter share their particles, so the places that are given up must agree.
    kept = posterior.log_weights.argsort(-1)[..., fresh:]
    new = _refreshed(posterior, points, kept, share)
    resampling = belief.resampling
    if resampling is not None:
        resampling = new if resampling is posterior else _refreshed(resampling, points, kept, share)
    return trees.where(where, Belief(new, resampling), belief)


def _refreshed(mixture: Mixture, points: Tensor, kept: Tensor, share: float) -> Mixture:
    old = mixture.log_weights.gather(-1, kept)
    old = torch.where(old.isneginf().all(-1, keepdim=True), 0.0, old).log_softmax(-1) + math.log1p(-share)
    new = old.new_full((*old.shape[:-1], points.shape[-2]), math.log(share / points.shape[-2]))
    return Mixture(torch.cat([gather(mixture.locs, kept), points], -2), torch.cat([old, new], -1), mixture.kernel)


def _completed(belief: Any) -> Any:  # noqa: ANN401 - of any filter
    """A belief of the form that beliefs have after a step: one from ``init`` has nothing yet to draw from."""
    if isinstance(belief, Belief) and belief.resampling is None:
        return Belief(belief.posterior, belief.posterior)
    return belief


def _is_bytes(value: Values) -> bool:
    return getattr(value, "dtype", None) in (torch.uint8, np.dtype(np.uint8))


def _tensor(call: str, value: Values, dtype: torch.dtype, device: torch.device) -> Tensor:
    try:
        tensor = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{call} needs numbers, got {describe(value)}. Pass a tensor, an array or a list of numbers.") from error
    if tensor.is_complex():
        raise TypeError(f"{call} needs real numbers, got {describe(tensor)}.")
    return tensor.to(device=device, dtype=dtype)
