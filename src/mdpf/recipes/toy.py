"""The synthetic problem: which gradient through resampling finds the parameters of a model whose exact answer is known?

Eight numbers of a scalar motion and a bimodal sensor are learned from perturbed values by stochastic gradient descent on the
negative log-likelihood of the last state. Three particle filters differ in nothing but the gradient of their resampling; the
mixture Kalman filter is exact. Every seed has its own data, shared by all methods; all seeds of a method are trained at once.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from mdpf import losses, trees
from mdpf.data.sequences import SequenceBatch, minibatches
from mdpf.evaluation.results import Result, provenance, save
from mdpf.filters import AdaptiveParticleFilter
from mdpf.kernels import Gaussian
from mdpf.models import FixedBandwidth, stack_runs
from mdpf.resamplers import ImplicitlyReparameterized, ImportanceWeighted, Resampler, Truncated
from mdpf.tasks import bimodal
from mdpf.training.flat import FlatParameters

RESAMPLERS: dict[str, Resampler] = {
    "IWSG": ImportanceWeighted(),
    "IRG": ImplicitlyReparameterized(),
    "TG": Truncated(),
}
METHODS = ("exact", *RESAMPLERS)


@dataclass(frozen=True)
class Config:
    """Every choice of the experiment.

    Args:
        num_particles: Particles of each filter.
        updates: Steps of gradient descent.
        rate: The learning rate, a tenth of it over the last third.
        batch: Sequences in a step.
        posterior_scale: The kernel of the posterior.
        resampling_scale: The kernel particles are drawn from.
        record_every: Keep values and gradients of every so-manieth step.
    """

    num_particles: int = 25
    updates: int = 6000
    rate: float = 0.01
    batch: int = 64
    posterior_scale: float = 0.5
    resampling_scale: float = 0.05
    record_every: int = 20


class BothHeads(nn.Module):
    """Use the scores of one measurement model for the posterior and for resampling."""

    def __init__(self, measurement: nn.Module):
        super().__init__()
        self.measurement = measurement

    def forward(self, particles: Tensor, feature: Tensor) -> Tensor:
        scores = self.measurement(particles, feature)
        return torch.stack([scores, scores], -1)


def final_loss(method: str, model: bimodal.BimodalModel, config: Config) -> Callable[[SequenceBatch], Tensor]:
    """The loss of a batch ``[R, B, T, ...]`` for each run, ``[R]``."""
    if method == "exact":

        def exact(batch: SequenceBatch) -> Tensor:
            posterior = model.exact_beliefs(batch).posteriors[-1]
            return -posterior.log_prob(batch.states[..., -1, :]).mean((-1, -2))

        return exact

    pf = AdaptiveParticleFilter(
        dynamics=model.dynamics,
        measurement=BothHeads(model.measurement),
        bandwidth=FixedBandwidth(Gaussian(torch.tensor([config.posterior_scale]))),
        resampling_bandwidth=FixedBandwidth(Gaussian(torch.tensor([config.resampling_scale]))),
        resampler=RESAMPLERS[method],
    )

    def filtered(batch: SequenceBatch) -> Tensor:
        belief = pf.init(bimodal.initial_particles(batch, config.num_particles))
        belief, _ = pf(belief, batch.observations[..., 1:, :], batch.actions, collect=lambda belief, info: None)
        return losses.negative_log_likelihood(belief.posterior, batch.states[..., -1, :]).mean(-1)

    return filtered


def train(
    method: str, data: list[SequenceBatch], config: Config, seed: int, watch: Callable[[int, Tensor], None]
) -> dict[str, Tensor]:
    """Train all runs of a method at once; returns what was recorded, ``[step, R]`` for each parameter and gradient."""
    num_runs = len(data)
    model = stack_runs([bimodal.BimodalModel() for _ in data])
    flat = FlatParameters(model, num_runs)
    loss_of = final_loss(method, model, config)
    recorded: dict[str, list[Tensor]] = {}
    skipped = torch.zeros(num_runs)
    update = 0
    torch.manual_seed(seed)
    while update < config.updates:
        shuffled = [list(minibatches(batch, config.batch)) for batch in data]
        for parts in zip(*shuffled, strict=True):
            batch = trees.stack(list(parts), 0)
            loss = loss_of(batch)
            loss.sum().backward()
            gradients = flat.collect_gradients()
            finite = torch.isfinite(gradients).all(-1, keepdim=True)
            if update % config.record_every == 0:
                for name, value in {
                    **model.named_values(),
                    **_named_gradients(flat, gradients),
                    "loss": loss.detach(),
                    "skipped": skipped,
                }.items():
                    recorded.setdefault(name, []).append(value.clone())
                watch(update, loss.detach())
            rate = config.rate if update < 2 * config.updates / 3 else config.rate / 10
            # A step that is not finite is left out and counted; the run goes on as it was.
            skipped = skipped + ~finite.squeeze(-1)
            flat.values.sub_(torch.where(finite, rate * gradients, 0.0))
            update += 1
            if update == config.updates:
                break
    return {name: torch.stack(values) for name, values in recorded.items()}


def _named_gradients(flat: FlatParameters, gradients: Tensor) -> dict[str, Tensor]:
    columns = {name: gradients[:, slot.start : slot.stop] for name, slot in flat.slots.items()}
    names = {
        "dynamics.transition": ("A",),
        "dynamics.control": ("B",),
        "measurement.emission": ("C1", "C2"),
        "measurement.offset": ("c1", "c2"),
        "measurement.logit": ("v",),
    }
    return {f"d{name}": columns[key][:, index] for key, group in names.items() for index, name in enumerate(group)}


def run(
    folder: Path,
    *,
    num_runs: int = 5,
    seed: int = 0,
    methods: tuple[str, ...] = METHODS,
    config: Config | None = None,
    watch: Callable[[str, int, Tensor], None] = lambda method, update, loss: None,
) -> list[Path]:
    """Train every method and write one result file for each."""
    config = config or Config()
    data = [bimodal.simulate(generator=torch.Generator().manual_seed(1000 * seed + run)) for run in range(num_runs)]
    paths = []
    for method in methods:
        start = time.monotonic()
        recorded = train(method, data, config, seed, lambda update, loss, method=method: watch(method, update, loss))
        runs = [
            {
                "seed": 1000 * seed + run,
                "metrics": {name: value[-1, run].item() for name, value in recorded.items() if not name.startswith("d")},
                "history": {name: [round(number, 5) for number in value[:, run].tolist()] for name, value in recorded.items()},
            }
            for run in range(num_runs)
        ]
        notes = {**asdict(config), "truth": asdict(bimodal.TRUTH), "start": asdict(bimodal.START)}
        paths.append(save(Result("toy", method, runs, notes, provenance(time.monotonic() - start)), folder))
    return paths
