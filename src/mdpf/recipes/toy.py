"""The synthetic problem: which gradient through resampling finds the parameters of a model whose exact answer is known?

Eight numbers of a scalar motion and a bimodal sensor are learned from perturbed values by stochastic gradient descent on the
negative log-likelihood of the last state. Three particle filters differ in nothing but the gradient of their resampling; the
mixture Kalman filter is exact. Every seed has its own data, shared by all methods; all seeds of a method are trained at once.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from mdpf import losses, noise, trees
from mdpf.data.sequences import SequenceBatch, minibatches
from mdpf.evaluation.results import Result, load_same, provenance, save
from mdpf.filters import AdaptiveParticleFilter
from mdpf.kernels import Gaussian
from mdpf.models import FixedBandwidth, stack_runs
from mdpf.noise import Source
from mdpf.recipes.parts import Outcome, Part, carry_out
from mdpf.resamplers import ImplicitlyReparameterized, ImportanceWeighted, Resampler, Truncated
from mdpf.tasks import bimodal
from mdpf.training import checkpoint
from mdpf.training.deadline import Deadline, OutOfTime
from mdpf.training.fingerprint import fingerprint
from mdpf.training.flat import FlatParameters

RESAMPLERS: dict[str, Resampler] = {
    "IWSG": ImportanceWeighted(),
    "IRG": ImplicitlyReparameterized(),
    "TG": Truncated(),
}
METHODS = ("exact", *RESAMPLERS)
WRITE_EVERY = 20.0  # Seconds between two checkpoints.

Watch = Callable[[int, Tensor], None]


class Loss(Protocol):
    """From a batch ``[R, B, T, ...]`` to the loss of each run, ``[R]``."""

    def __call__(self, batch: SequenceBatch, generator: Source = None) -> Tensor: ...


class Trained(NamedTuple):
    """What was recorded, ``[step, R]`` for each parameter and gradient, and the seconds it took, of all calls together."""

    recorded: dict[str, Tensor]
    seconds: float


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


def final_loss(method: str, model: bimodal.BimodalModel, config: Config) -> Loss:
    """The loss of a batch ``[R, B, T, ...]`` for each run, ``[R]``."""
    if method == "exact":

        def exact(batch: SequenceBatch, generator: Source = None) -> Tensor:
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

    def filtered(batch: SequenceBatch, generator: Source = None) -> Tensor:
        generator = noise.source(generator)
        belief = pf.init(bimodal.initial_particles(batch, config.num_particles, generator=generator))
        seen = batch.observations[..., 1:, :]
        belief, _ = pf(belief, seen, batch.actions, collect=lambda belief, info: None, generator=generator)
        return losses.negative_log_likelihood(belief.posterior, batch.states[..., -1, :]).mean(-1)

    return filtered


class _Training:
    """All runs of a method, and all that is needed to go on with them: a file, and random numbers that seed and epoch decide."""

    def __init__(self, method: str, data: list[SequenceBatch], config: Config, seed: int, path: Path | None):
        self.data, self.config, self.seed, self.path = data, config, seed, path
        self.model = stack_runs([bimodal.BimodalModel() for _ in data])
        self.flat = FlatParameters(self.model, len(data))
        self.loss_of = final_loss(method, self.model, config)
        self.recorded: dict[str, list[Tensor]] = {}
        self.skipped = torch.zeros(len(data))
        self.epoch = self.update = 0
        self.seconds = 0.0
        self.recipe = fingerprint({"method": method, "data": data, "config": config, "seed": seed})
        if path is not None and path.exists():
            self._restore(path)

    def train_epoch(self, watch: Watch) -> None:
        """Pass once over the data of every run, or what is left of all updates."""
        began, config = time.monotonic(), self.config
        # The same order of sequences and the same noise for every method.
        generator = torch.Generator().manual_seed(_epoch_seed(self.seed, self.epoch))
        shuffled = [minibatches(batch, config.batch, generator=generator) for batch in self.data]
        for parts in islice(zip(*shuffled, strict=True), config.updates - self.update):
            loss = self.loss_of(trees.stack(list(parts), 0), generator)
            loss.sum().backward()
            gradients = self.flat.collect_gradients()
            if self.update % config.record_every == 0:
                self._record(loss.detach(), gradients)
                watch(self.update, loss.detach())
            rate = config.rate if self.update < 2 * config.updates / 3 else config.rate / 10
            # A step that is not finite is left out and counted; the run goes on as it was.
            finite = torch.isfinite(gradients).all(-1, keepdim=True)
            self.skipped = self.skipped + ~finite.squeeze(-1)
            self.flat.values.sub_(torch.where(finite, rate * gradients, 0.0))
            self.update += 1
        self.epoch += 1
        self.seconds += time.monotonic() - began

    def _record(self, loss: Tensor, gradients: Tensor) -> None:
        numbers = {**self.model.named_values(), **_named_gradients(self.flat, gradients), "loss": loss, "skipped": self.skipped}
        for name, value in numbers.items():
            self.recorded.setdefault(name, []).append(value.clone())

    def write(self) -> None:
        """Write everything down, if there is a place for it."""
        if self.path is None:
            return
        recorded = {f"recorded.{name}": torch.stack(values) for name, values in self.recorded.items()}
        tensors = {"values": self.flat.values, "skipped": self.skipped, **recorded}
        notes = {"recipe": self.recipe, "epoch": self.epoch, "update": self.update, "seconds": self.seconds}
        checkpoint.save(self.path, tensors, notes)

    def _restore(self, path: Path) -> None:
        tensors, notes = checkpoint.load(path)
        if notes["recipe"] != self.recipe:
            raise FileExistsError(
                f"Going on needs a checkpoint of the same training, got {str(path)!r} of another one. "
                "Choose another folder, or remove that file to start anew."
            )
        self.epoch, self.update, self.seconds = notes["epoch"], notes["update"], notes["seconds"]
        self.flat.values.copy_(tensors.pop("values"))
        self.skipped = tensors.pop("skipped")
        self.recorded = {name.removeprefix("recorded."): list(values) for name, values in tensors.items()}


def _epoch_seed(seed: int, epoch: int) -> int:
    return int.from_bytes(hashlib.sha256(f"toy/{seed}/{epoch}".encode()).digest()[:4], "little")


def train(
    method: str,
    data: list[SequenceBatch],
    config: Config,
    seed: int,
    watch: Watch,
    *,
    path: Path | None = None,
    until: Deadline | None = None,
) -> Trained:
    """Train all runs of a method at once.

    Args:
        method: One of ``METHODS``.
        data: The sequences of each run.
        config: Every choice of the experiment.
        seed: Of the order of the sequences and of the noise of the filters, the same for all methods.
        watch: Is told about updates and their losses ``[R]``.
        path: A file to go on from if it is there; the numbers are those of a training that nobody disturbed.
        until: When time is over by it, all is written to ``path`` and ``OutOfTime`` is raised.
    """
    until = until or Deadline()
    training = _Training(method, data, config, seed, path)
    longest, written = 0.0, time.monotonic()
    while training.update < config.updates:
        if until.left() < longest:
            training.write()
            raise OutOfTime(f"It is to go on after update {training.update} of {config.updates}.")
        before = training.seconds
        training.train_epoch(watch)
        longest = max(longest, training.seconds - before)
        if time.monotonic() - written > WRITE_EVERY:
            training.write()
            written = time.monotonic()
    training.write()
    return Trained({name: torch.stack(values) for name, values in training.recorded.items()}, training.seconds)


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
    work: Path | None = None,
    num_runs: int = 5,
    seed: int = 0,
    methods: tuple[str, ...] = METHODS,
    config: Config | None = None,
    minutes: float | None = None,
    watch: Callable[[str, int, Tensor], None] = lambda method, update, loss: None,
) -> Outcome:
    """Train every method that has no result yet and write one result file for each.

    Args:
        folder: Where results are written.
        work: Where checkpoints are kept; without it nothing is.
        num_runs: Independent runs of each, trained at once.
        seed: Of everything random.
        methods: Which ones.
        config: Every choice of the experiment.
        minutes: Stop in good order before so many minutes are over; the same call goes on.
        watch: Is told about updates and their losses, with the method.
    """
    config, until = config or Config(), Deadline() if minutes is None else Deadline(60 * minutes)
    data = [bimodal.simulate(generator=torch.Generator().manual_seed(1000 * seed + run)) for run in range(num_runs)]
    notes = {**asdict(config), "runs": num_runs, "seed": seed, "truth": asdict(bimodal.TRUTH), "start": asdict(bimodal.START)}

    def part(method: str) -> Part:
        def do(until: Deadline) -> None:
            path = None if work is None else work / f"{method}.safetensors"
            told = partial(watch, method)
            trained = train(method, data, config, seed, told, path=path, until=until)
            runs = [_numbers_of(trained.recorded, 1000 * seed, run) for run in range(num_runs)]
            save(Result("toy", method, runs, notes, provenance(trained.seconds)), folder)

        return Part(method, do, lambda: load_same(folder / f"{method}.json", notes) is not None)

    return carry_out([part(method) for method in methods], until=until)


def _numbers_of(recorded: dict[str, Tensor], seed: int, run: int) -> dict[str, Any]:
    """One run of a result: what every parameter ended as, and how it came there."""
    return {
        "seed": seed + run,
        "metrics": {name: value[-1, run].item() for name, value in recorded.items() if not name.startswith("d")},
        "history": {name: [round(number, 5) for number in value[:, run].tolist()] for name, value in recorded.items()},
    }
