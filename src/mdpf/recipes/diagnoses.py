"""Ready-made models whose gradients can be put to the test: two with exact answers, and any trained run."""

import copy
import math
from pathlib import Path

import torch
from torch import Generator, Tensor

from mdpf import losses, noise
from mdpf.evaluation.diagnose import Diagnosis, diagnose
from mdpf.exact import LinearGaussian, kalman_filter
from mdpf.filters import AdaptiveParticleFilter, ParticleFilter, RecurrentFilter
from mdpf.filters.generative import bootstrap
from mdpf.kernels import Gaussian
from mdpf.models import FixedBandwidth
from mdpf.recipes import bearings
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


def weights_in(run: Path) -> Path:
    """The weights file of a run: itself, or the only one in its folder or in the folder ``weights`` there."""
    if not run.is_dir():
        return run
    found = sorted([*run.glob("*.safetensors"), *(run / "weights").glob("*.safetensors")])
    if len(found) != 1:
        names = ", ".join(str(path.relative_to(run)) for path in found) or "none"
        raise ValueError(f"diagnose needs a run folder with one weights file, got {names} in {str(run)!r}. Name the file itself.")
    return found[0]


def trained_run(run: Path, *, num_particles: int = 25, replicates: int = 32, seed: int = 0) -> Diagnosis:
    """The training loss of a trained run, part by part, against the mean of many particles."""
    path = weights_in(run)
    filter = bearings.load_run(path)
    if isinstance(filter, RecurrentFilter):
        raise ValueError(
            f"diagnose needs a filter with particles, got the recurrent network in {str(path)!r}. It resamples nothing."
        )
    return _bearings(filter, num_particles, replicates, seed)


def untrained_bearings(*, num_particles: int = 25, replicates: int = 32, seed: int = 0) -> Diagnosis:
    """The same for networks that have learned nothing yet: what the first steps of a training go by."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        filter = METHODS["MDPF"].build(bearings.networks(bearings.Config("MDPF")))
    assert isinstance(filter, ParticleFilter)
    return _bearings(filter, num_particles, replicates, seed)


def _bearings(filter: ParticleFilter | AdaptiveParticleFilter, num_particles: int, replicates: int, seed: int) -> Diagnosis:
    task = bearings_task.task()
    batch = task.split("validation", num_sequences=NUM_SEQUENCES).frames(0, LENGTH)

    def make_filter(resampler: Resampler) -> ParticleFilter | AdaptiveParticleFilter:
        twin = copy.copy(filter)
        twin.resampler = resampler
        return twin

    def loss(pf: ParticleFilter, num_particles: int, generator: Generator) -> Tensor:
        belief = pf.init(task.prior(batch.states[:, 0], num_particles, generator=generator))
        _, trajectory = pf(belief, batch.observations[:, 1:], generator=generator)
        values = losses.negative_log_likelihood(trajectory.posterior, batch.states[:, 1:])
        return values[batch.targets[:, 1:]].mean()

    # One parameter of each part: its last bias, or its bandwidth.
    last = {name.split(".")[0]: name for name, _ in filter.named_parameters()}
    chosen = {name: filter.get_parameter(name) for name in last.values()}
    return diagnose(make_filter, chosen, loss, num_particles=num_particles, replicates=replicates, seed=seed)


MODELS = {"linear-gaussian": linear_gaussian, "bimodal": bimodal_sensor, "bearings": untrained_bearings}
