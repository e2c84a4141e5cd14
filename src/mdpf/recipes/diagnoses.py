"""Ready-made models whose gradients can be put to the test: two with exact answers, and any trained run."""

import copy
import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Generator, Tensor

from mdpf import losses, noise
from mdpf.data import SequenceBatch, cutting
from mdpf.evaluation.diagnose import Diagnosis, diagnose
from mdpf.exact import LinearGaussian, kalman_filter
from mdpf.filters import AdaptiveParticleFilter, ParticleFilter, RecurrentFilter
from mdpf.filters.generative import bootstrap
from mdpf.kernels import Gaussian
from mdpf.models import FixedBandwidth
from mdpf.recipes import bearings, runs, using
from mdpf.recipes.methods import METHODS
from mdpf.recipes.toy import BothHeads
from mdpf.resamplers import Resampler
from mdpf.tasks import bearings as bearings_task
from mdpf.tasks import bimodal

NUM_SEQUENCES = 16
LENGTH = 9  # Frames of a sequence on which a trained run is put to the test: two spans between labels.


def linear_gaussian(*, num_particles: int = 60, replicates: int = 64, seed: int = 0) -> Diagnosis:
    """The score of a damped walk's decay, 20 steps of it, against the Kalman filter's."""
    decay = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    motion, sensor = 0.5, 0.5
    stream, state, seen = torch.Generator().manual_seed(seed), torch.zeros((), dtype=torch.float64), []
    for _ in range(20):
        # Drawn with a longer memory than the model has, so that the score is far from zero.
        state = 0.9 * state + motion * noise.normal((), state, stream)
        seen.append(state + sensor * noise.normal((), state, stream))
    observations = torch.stack(seen).unsqueeze(-1)

    def move(points: Tensor, action: Tensor | None = None, *, generator: noise.Source = None) -> Tensor:
        return decay * points + motion * noise.normal(points.shape, points, generator)

    def weigh(particles: Tensor, feature: Tensor) -> Tensor:
        return -0.5 * ((particles[..., 0] - feature) / sensor).square() - math.log(sensor * math.sqrt(2 * math.pi))

    def make_filter(resampler: Resampler) -> ParticleFilter:
        return bootstrap(move, weigh, Gaussian(torch.tensor([0.1], dtype=torch.float64)), resampler=resampler)

    def loss(pf: ParticleFilter, num_particles: int, generator: Generator) -> Tensor:
        particles = noise.normal((num_particles, 1), observations, generator)
        _, trajectory = pf(pf.init(particles), observations, generator=generator)
        return trajectory.info.log_evidence.sum()

    def score() -> dict[str, Tensor]:
        def square(value: Tensor | float) -> Tensor:
            return torch.as_tensor(value, dtype=torch.float64).reshape(1, 1)

        start = torch.zeros(1, dtype=torch.float64)
        model = LinearGaussian(square(decay), square(motion**2), square(1.0), square(sensor**2), start, square(1.0))
        (gradient,) = torch.autograd.grad(kalman_filter(model, observations).log_evidence.sum(), decay)
        return {"decay": gradient}

    return diagnose(make_filter, {"decay": decay}, loss, truth=score, num_particles=num_particles, replicates=replicates, seed=seed)


def bimodal_sensor(*, num_particles: int = 25, replicates: int = 64, seed: int = 0) -> Diagnosis:
    """The loss of the synthetic problem at its start, against the mixture Kalman filter's gradient."""
    model = bimodal.BimodalModel()
    batch = bimodal.simulate(NUM_SEQUENCES * 4, generator=torch.Generator().manual_seed(seed))
    parameters = dict(model.named_parameters())

    def make_filter(resampler: Resampler) -> AdaptiveParticleFilter:
        return AdaptiveParticleFilter(
            dynamics=model.dynamics,
            measurement=BothHeads(model.measurement),
            bandwidth=FixedBandwidth(Gaussian(torch.tensor([0.5]))),
            resampling_bandwidth=FixedBandwidth(Gaussian(torch.tensor([0.05]))),
            resampler=resampler,
        )

    def loss(pf: AdaptiveParticleFilter, num_particles: int, generator: Generator) -> Tensor:
        belief = pf.init(bimodal.initial_particles(batch, num_particles, generator=generator))
        belief, _ = pf(belief, batch.observations[:, 1:], batch.actions, generator=generator)
        return losses.negative_log_likelihood(belief.posterior, batch.states[:, -1]).mean()

    def truth() -> dict[str, Tensor]:
        value = -model.exact_beliefs(batch).posteriors[-1].log_prob(batch.states[:, -1]).mean()
        return dict(zip(parameters, torch.autograd.grad(value, list(parameters.values())), strict=True))

    return diagnose(make_filter, parameters, loss, truth=truth, num_particles=num_particles, replicates=replicates, seed=seed)


def trained_run(run: Path, *, data: Path | None = None, num_particles: int = 25, replicates: int = 32, seed: int = 0) -> Diagnosis:
    """The likelihood of a trained run, part by part, against the mean of many particles.

    Args:
        run: The folder of a training, or a file of weights in it.
        data: A file of sequences like those it was trained on; a run of bearings-only tracking has its own if there is none.
        num_particles: How many particles the filters have.
        replicates: How many gradients of each estimator.
        seed: Of everything random.
    """
    opened = runs.open_run(run)
    if isinstance(opened.filter, RecurrentFilter):
        raise ValueError(
            f"diagnose needs a filter with particles, got the recurrent network in {str(run)!r}. It resamples nothing."
        )
    assert isinstance(opened.filter, ParticleFilter | AdaptiveParticleFilter)
    if data is not None:
        batch = _pieces(using.read(opened, data))
    elif opened.config["task"] == "bearings":
        batch = _cars()
    else:
        raise ValueError(
            f"diagnose needs sequences for the run in {str(run)!r}, got none. Add --data and the file that it was trained on, or "
            "one like it."
        )
    return _learning(opened.filter, batch, opened.prior, num_particles, replicates, seed)


def untrained_bearings(*, num_particles: int = 25, replicates: int = 32, seed: int = 0) -> Diagnosis:
    """The same for networks that have learned nothing yet: what the first steps of a training go by."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        filter = METHODS["MDPF"].build(bearings.networks(bearings.Config("MDPF")))
    assert isinstance(filter, ParticleFilter)
    return _learning(filter, _cars(), bearings_task.task().prior, num_particles, replicates, seed)


def _cars() -> SequenceBatch:
    return bearings_task.task().split("validation", num_sequences=NUM_SEQUENCES).frames(0, LENGTH)


def _pieces(data: SequenceBatch) -> SequenceBatch:
    """Some pieces from all over the data, each of at least two spans between labels."""
    count = data.targets.numel() if data.valid is None else int(data.valid.sum())
    span = math.ceil(count / max(int(data.targets.sum()), 1))
    found = cutting.windows(data, max(LENGTH, 2 * span + 1))
    some = torch.linspace(0, found.num_sequences - 1, min(NUM_SEQUENCES, found.num_sequences))
    return found.take(some.round().long())


def _learning(
    filter: ParticleFilter | AdaptiveParticleFilter,
    batch: SequenceBatch,
    prior: Callable[..., Tensor],
    num_particles: int,
    replicates: int,
    seed: int,
) -> Diagnosis:
    def make_filter(resampler: Resampler) -> ParticleFilter | AdaptiveParticleFilter:
        twin = copy.copy(filter)
        twin.resampler = resampler
        return twin

    later = batch.frames(1, batch.length)

    def loss(pf: ParticleFilter, num_particles: int, generator: Generator) -> Tensor:
        belief = pf.init(prior(batch.states[:, 0], num_particles, generator=generator))
        masks = {"observed": later.observed, "valid": later.valid}
        _, trajectory = pf(belief, later.observations, batch.actions, **masks, generator=generator)
        return losses.negative_log_likelihood(trajectory.posterior, later.states)[later.targets].mean()

    # One parameter of each part: its last bias, or its bandwidth.
    last = {name.split(".")[0]: name for name, _ in filter.named_parameters()}
    chosen = {name: filter.get_parameter(name) for name in last.values()}
    return diagnose(make_filter, chosen, loss, num_particles=num_particles, replicates=replicates, seed=seed)


MODELS = {"linear-gaussian": linear_gaussian, "bimodal": bimodal_sensor, "bearings": untrained_bearings}
