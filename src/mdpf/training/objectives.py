"""What training minimises, for every run on its own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mdpf import noise
from mdpf.checks import check_count
from mdpf.data.sequences import SequenceBatch
from mdpf.filters.parts import blank, encode, seen
from mdpf.filters.weights import reweight
from mdpf.kernels.protocol import Kernel
from mdpf.mixture import Mixture
from mdpf.models.bandwidth import kernel_of
from mdpf.noise import Source
from mdpf.spaces import StateSpace
from mdpf.training.stages import Found

Loss = Callable[[Mixture, Tensor], Tensor]


@dataclass(frozen=True)
class Tracking:
    """Filter whole sequences from particles around the true start; average a loss over the labelled frames after it.

    Args:
        loss: ``(posterior, states)`` to one number for each frame.
        prior: Draws the initial particles: ``(states, num_particles, *, generator)``.
        num_particles: How many particles.
        truncate: Cut the gradient every so many steps; ``None`` lets it run through the whole sequence.
    """

    loss: Loss
    prior: Callable[..., Tensor]
    num_particles: int
    truncate: int | None = 4

    def __post_init__(self) -> None:
        check_count("Tracking", self.num_particles, "num_particles")

    def __call__(self, filter: Any, batch: SequenceBatch, *, generator: Source = None) -> Tensor:  # noqa: ANN401 - any filter
        return self.find(filter, batch, generator=generator).loss

    def find(self, filter: Any, batch: SequenceBatch, *, generator: Source = None) -> Found:  # noqa: ANN401 - any filter
        """The loss of each run, and where every particle was scored as impossible."""
        generator = noise.source(generator)
        later = batch.frames(1, batch.length)
        # The prior is drawn around finite states; looking at it would wait for the device in every step.
        belief = filter.init(self.prior(batch.states[..., 0, :], self.num_particles, generator=generator), check_values=False)
        _, trajectory = filter(
            belief,
            later.observations,
            batch.actions,
            observed=later.observed,
            valid=later.valid,
            truncate=self.truncate,
            generator=generator,
        )
        targets = later.targets
        states = torch.where(targets.unsqueeze(-1), later.states, 0.0)
        return Found(mean_over(self.loss(trajectory.posterior, states), targets), trajectory.info.degenerate)


@dataclass(frozen=True)
class Scoring:
    """Weigh a cloud of particles around the truth by a single observation; the truth should be likely under the result.

    This trains the measurement model alone, before the dynamics are known. The cloud's centre is itself displaced, so that the
    truth is not in its middle.

    Args:
        space: Which coordinates are angles.
        centre: Displaces the centre of the cloud.
        cloud: Spreads the particles around it.
        num_particles: How many particles.
        bandwidths: The bandwidths of the mixture that is judged; not learned.
    """

    space: StateSpace
    centre: Callable[[Tensor], Kernel]
    cloud: Callable[[Tensor], Kernel]
    num_particles: int
    bandwidths: tuple[float, ...]

    def __call__(self, filter: Any, batch: SequenceBatch, *, generator: Source = None) -> Tensor:  # noqa: ANN401 - any filter
        generator = noise.source(generator)
        targets = batch.targets
        states = torch.where(targets.unsqueeze(-1), batch.states, 0.0)
        with torch.no_grad():
            middle = self.centre(states).sample(states, generator=generator)
            around = middle.unsqueeze(-2).expand(*states.shape[:-1], self.num_particles, -1)
            particles = self.cloud(states).sample(around, generator=generator)
        mask = seen(batch.observed, batch.valid)
        scores = filter.measurement(particles, blank(mask, encode(filter.encoder, batch.observations, mask)))
        heads = scores.unbind(-1) if scores.ndim > particles.ndim - 1 else (scores,)
        # Filled on the device: numbers of the host would have to be copied there in every step.
        kernel = kernel_of(self.space, torch.stack([states.new_full((), width) for width in self.bandwidths]))
        uniform = torch.zeros_like(heads[0]).log_softmax(-1)
        losses = [-Mixture(particles, reweight(uniform, head).log_weights, kernel).log_prob(states.unsqueeze(-2)) for head in heads]
        return mean_over(torch.stack(losses).mean(0).squeeze(-1), targets if mask is None else targets & mask)


@dataclass(frozen=True)
class Disturbed:
    """Change every batch at random before an objective sees it: what sensors add is drawn anew in every epoch.

    Args:
        objective: What is minimised.
        disturb: Changes a batch: ``(batch, *, generator)``.
    """

    objective: Callable[..., Tensor]
    disturb: Callable[..., SequenceBatch]

    def __call__(self, filter: Any, batch: SequenceBatch, *, generator: Source = None) -> Tensor:  # noqa: ANN401 - any filter
        generator = noise.source(generator)
        return self.objective(filter, self.disturb(batch, generator=generator), generator=generator)


def mean_over(losses: Tensor, mask: Tensor) -> Tensor:
    """The mean over batch and time of the frames that count, for each run: ``[R, B, T]`` to ``[R]``."""
    counted = torch.where(mask, losses, 0.0)
    return counted.sum((-1, -2)) / mask.sum((-1, -2)).clamp_min(1)
