"""Which gradient can be trusted, on your own model: bias, spread and time of every estimator against the best truth there is.

Whether an estimator of the gradient is good depends on the model: truncation is harmless where the past says little about a
parameter and ruinous where it says much. So measure it where you need it:

1. ``make_filter(resampler)`` builds your filter around a resampler; all of them share the ``parameters``.
2. ``loss(filter, num_particles, generator)`` runs it and returns one number, as training would.
3. The truth is a ``Reference``: ``exact`` where the answer is known (the Kalman score of a linear-Gaussian model),
   ``finite_differences`` with common noise for a handful of parameters, ``many_particles`` otherwise.
"""

import io
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from rich import box
from rich.console import Console
from rich.table import Table
from torch import Generator, Tensor, nn

from mdpf import resamplers
from mdpf.checks import check_count, check_positive
from mdpf.resamplers import Resampler

# Any filter, and a loss that knows which.
MakeFilter = Callable[[Resampler], Any]
Loss = Callable[[Any, int, Generator], Tensor]
Gradient = dict[str, Tensor]

ESTIMATORS: dict[str, Resampler] = {
    "Discrete": resamplers.Discrete(),
    "Soft": resamplers.Soft(),
    "StopGradient": resamplers.StopGradient(),
    "Concrete": resamplers.Concrete(),
    "OptimalTransport": resamplers.OptimalTransport(),
    "Diffusion": resamplers.Diffusion(),
    "Truncated": resamplers.Truncated(),
    "ImportanceWeighted": resamplers.ImportanceWeighted(),
    "ComponentPathwise": resamplers.ComponentPathwise(),
    "ImplicitlyReparameterized": resamplers.ImplicitlyReparameterized(),
}

# A bias counts where chance does not explain it and it is not a mere trifle of the gradient itself.
SIGNIFICANT, TRIFLE = 3.0, 0.1


class Reference(NamedTuple):
    """A gradient to compare with: what it is, its values, and their standard errors."""

    what: str
    gradient: Gradient
    error: Gradient


class Row(NamedTuple):
    """What one estimator does to one parameter.

    Args:
        estimator: The name of the resampler.
        parameter: The name of the parameter; a tensor counts as one.
        bias: Mean minus truth, along the direction of the true gradient; as it is for a single number.
        bias_error: The standard error of the bias, that of the truth included.
        spread: The standard deviation of one estimate, over all directions.
        signal_to_noise: The length of the true gradient over the spread.
        truth: The length of the true gradient; the true gradient itself for a single number.
        seconds: Wall time of one estimate, forward and backward; the median.
    """

    estimator: str
    parameter: str
    bias: float
    bias_error: float
    spread: float
    signal_to_noise: float
    truth: float
    seconds: float

    @property
    def is_biased(self) -> bool:
        """Whether the bias is more than chance, and more than a tenth of the gradient. Not a number counts as biased."""
        return not (abs(self.bias) <= SIGNIFICANT * self.bias_error or abs(self.bias) <= TRIFLE * abs(self.truth))

    @property
    def largest_bias(self) -> float:
        """The largest bias that cannot be ruled out, in parts of the gradient: a noisy estimator hides what it has."""
        bound = (abs(self.bias) + SIGNIFICANT * self.bias_error) / max(abs(self.truth), 1e-300)
        return bound if math.isfinite(bound) else math.inf

    @property
    def hides_a_bias(self) -> bool:
        """Whether a bias as large as the gradient could go unnoticed."""
        return SIGNIFICANT * self.bias_error > abs(self.truth)

    @property
    def points_the_wrong_way(self) -> bool:
        """Whether the mean gradient goes against the true one."""
        return self.is_biased and self.bias * math.copysign(1, self.truth) < -abs(self.truth)


class Diagnosis(NamedTuple):
    """All rows, and what they were compared with."""

    rows: tuple[Row, ...]
    reference: str
    num_particles: int
    num_replicates: int

    def table(self, width: int = 120) -> str:
        """The rows as text, a table for each parameter, with the hint below."""
        console = Console(file=io.StringIO(), width=width)
        console.print(f"Gradients of {self.num_replicates} runs with {self.num_particles} particles, against {self.reference}")
        for parameter in dict.fromkeys(row.parameter for row in self.rows):
            rows = [row for row in self.rows if row.parameter == parameter]
            title = f"{parameter}: truth {rows[0].truth:.3g}"
            table = Table(
                title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True
            )
            table.add_column("estimator", no_wrap=True)
            for name in ("bias", "spread", "signal/noise", "ms"):
                table.add_column(name, justify="right", no_wrap=True)
            for row in rows:
                bias = f"{_short(row.bias, '+')} ± {_short(row.bias_error)} " + ("(!)" if row.is_biased else "   ")
                table.add_row(row.estimator, bias, _short(row.spread), _short(row.signal_to_noise), _short(1000 * row.seconds))
            console.print(table)
        console.print(self.hint())
        return console.file.getvalue()  # type: ignore[attr-defined]

    def hint(self) -> str:
        """One sentence or two: what to use, and what not."""
        estimators: dict[str, list[Row]] = {}
        for row in self.rows:
            estimators.setdefault(row.estimator, []).append(row)
        clean = {name: rows for name, rows in estimators.items() if not any(row.is_biased for row in rows)}
        sound = {name: rows for name, rows in clean.items() if not any(row.hides_a_bias for row in rows)}
        if sound:
            best = max(sound, key=lambda name: min(row.signal_to_noise for row in sound[name]))
            text = f"Use {best}: no bias was found, and of those without one it has the highest signal-to-noise ratio."
        elif clean:
            best = min(estimators, key=lambda name: max(row.largest_bias for row in estimators[name]))
            text = (
                f"Use {best}, if any: it has the smallest bias that cannot be ruled out. None was found for {', '.join(clean)}, "
                "but their noise would hide one as large as the gradient; more replicates tell."
            )
        else:
            best = min(estimators, key=lambda name: max(_relative_error(row) for row in estimators[name]))
            text = f"Every estimator is biased here; {best} has the smallest error. More particles may help."
        wrong = [name for name, rows in estimators.items() if any(row.points_the_wrong_way for row in rows)]
        return text + (f" Pointing the wrong way: {', '.join(wrong)}." if wrong else "")


def _short(value: float, sign: str = "") -> str:
    """Two digits, and no exponent where whole numbers do."""
    return f"{value:{sign}.0f}" if 10 <= abs(value) < 1e5 else f"{value:{sign}.2g}"


def _relative_error(row: Row) -> float:
    error = math.hypot(row.bias, row.spread) / max(abs(row.truth), 1e-300)
    return error if math.isfinite(error) else math.inf


def diagnose(
    make_filter: MakeFilter,
    parameters: Mapping[str, Tensor],
    loss: Loss,
    *,
    truth: Reference | Callable[[], Mapping[str, Tensor]] | None = None,
    estimators: Mapping[str, Resampler] = ESTIMATORS,
    num_particles: int = 100,
    replicates: int = 64,
    seed: int = 0,
) -> Diagnosis:
    """Measure the gradient of every estimator, many times, and compare it with the truth.

    Args:
        make_filter: Builds the filter with a given resampler; it must use ``parameters`` themselves, not copies.
        parameters: The tensors to differentiate to, by name; leaves that require a gradient.
        loss: Runs a filter with so many particles and a generator, and returns one number. The data belong to it.
        truth: A ``Reference``, or a function that returns the exact gradient; ``many_particles`` by default.
        estimators: The resamplers to compare, by name.
        num_particles: How many particles the filters have.
        replicates: How many independent gradients of each.
        seed: The first seed; every estimator gets the same ones.
    """
    check_count("diagnose", num_particles, "num_particles")
    check_count("diagnose", replicates, "replicates", at_least=2)
    _check_parameters(parameters)
    if truth is None:
        truth = many_particles(make_filter, parameters, loss, num_particles=10 * num_particles, seed=seed + replicates)
    reference = truth if isinstance(truth, Reference) else exact(truth())
    rows: list[Row] = []
    for name, resampler in estimators.items():
        samples, seconds = _gradients(make_filter(resampler), parameters, loss, num_particles, range(seed, seed + replicates))
        rows += [_compare(name, parameter, samples[parameter], reference, seconds) for parameter in parameters]
    return Diagnosis(tuple(rows), reference.what, num_particles, replicates)


def exact(gradient: Mapping[str, Tensor], what: str = "the exact gradient") -> Reference:
    """A truth without error, such as the gradient of the Kalman filter's evidence."""
    values = {name: value.detach().to(torch.float64) for name, value in gradient.items()}
    return Reference(what, values, {name: torch.zeros_like(value) for name, value in values.items()})


def many_particles(
    make_filter: MakeFilter,
    parameters: Mapping[str, Tensor],
    loss: Loss,
    *,
    num_particles: int,
    resampler: Resampler | None = None,
    replicates: int = 32,
    seed: int = 0,
) -> Reference:
    """The mean gradient of an unbiased estimator with many particles: a truth that shares the model, smoothing included.

    ``ImportanceWeighted`` by default. The last resort: it cannot reveal what is wrong with that estimator itself.
    """
    rule = resamplers.ImportanceWeighted() if resampler is None else resampler
    samples, _ = _gradients(make_filter(rule), parameters, loss, num_particles, range(seed, seed + replicates))
    return _summary(f"{type(rule).__name__} with {num_particles} particles", samples)


def finite_differences(
    make_filter: MakeFilter,
    parameters: Mapping[str, Tensor],
    loss: Loss,
    *,
    num_particles: int,
    step: float = 0.05,
    resampler: Resampler | None = None,
    replicates: int = 64,
    seed: int = 0,
) -> Reference:
    """Central differences of the loss under common noise: a truth that needs no gradient rule at all.

    Two runs for every single number and replicate, so for a handful of parameters. A jump of the loss, where the choice of an
    ancestor changes, is part of the derivative of its mean: a smaller ``step`` has less bias and more noise.

    Args:
        make_filter: As for ``diagnose``.
        parameters: As for ``diagnose``.
        loss: As for ``diagnose``.
        num_particles: How many particles.
        step: How far each number is moved, to either side.
        resampler: Whose loss; ``Truncated`` by default, whose values are those of all rules that draw from the mixture.
        replicates: How many pairs of runs for each number.
        seed: The first seed.
    """
    check_positive("finite_differences", step, "step")
    _check_parameters(parameters)
    rule = resamplers.Truncated() if resampler is None else resampler
    pf = make_filter(rule)

    def value(seed: int, like: Tensor) -> float:
        return float(loss(pf, num_particles, torch.Generator(like.device).manual_seed(seed)))

    samples: Gradient = {}
    with torch.no_grad():
        for name, parameter in parameters.items():
            entries = parameter.data.view(-1)
            found = torch.zeros(replicates, entries.numel(), dtype=torch.float64)
            for index in range(entries.numel()):
                centre = entries[index].item()
                for replicate in range(replicates):
                    sides = []
                    for side in (centre + step, centre - step):
                        entries[index] = side
                        sides.append(value(seed + replicate, parameter))
                    entries[index] = centre
                    found[replicate, index] = (sides[0] - sides[1]) / (2 * step)
            samples[name] = found.view(replicates, *parameter.shape)
    return _summary(f"finite differences with common noise, {type(rule).__name__}", samples)


def _gradients(
    pf: nn.Module, parameters: Mapping[str, Tensor], loss: Loss, num_particles: int, seeds: range
) -> tuple[Gradient, float]:
    """One gradient for each seed, ``[replicate, ...]`` in double precision on the CPU, and the median time of one."""
    leaves = list(parameters.values())
    device = leaves[0].device
    found: list[list[Tensor]] = []
    times: list[float] = []
    for seed in seeds:
        generator = torch.Generator(device).manual_seed(seed)
        begin = _now(device)
        value = loss(pf, num_particles, generator)
        if value.ndim or not value.requires_grad:
            raise ValueError(
                f"diagnose needs a loss that returns one number that depends on the parameters, got shape {list(value.shape)} "
                f"with requires_grad={value.requires_grad}. Reduce it, and let make_filter use the parameters themselves."
            )
        gradient = torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True)
        times.append(_now(device) - begin)
        found.append([part.detach().to("cpu", torch.float64) for part in gradient])
    stacked = {name: torch.stack(parts) for name, parts in zip(parameters, zip(*found, strict=True), strict=True)}
    return stacked, sorted(times)[len(times) // 2]


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _summary(what: str, samples: Gradient) -> Reference:
    mean = {name: values.mean(0) for name, values in samples.items()}
    return Reference(what, mean, {name: values.std(0) / math.sqrt(len(values)) for name, values in samples.items()})


def _compare(estimator: str, parameter: str, samples: Tensor, reference: Reference, seconds: float) -> Row:
    truth, error = (part[parameter].flatten().to("cpu", torch.float64) for part in (reference.gradient, reference.error))
    samples = samples.reshape(len(samples), -1)
    length = truth.norm()
    direction = torch.ones_like(truth) if truth.numel() == 1 else truth / length.clamp_min(torch.finfo(truth.dtype).tiny)
    along = samples @ direction - truth @ direction
    spread = samples.var(0).sum().sqrt()
    return Row(
        estimator=estimator,
        parameter=parameter,
        bias=float(along.mean()),
        bias_error=float((along.var() / len(along) + (direction * error).square().sum()).sqrt()),
        spread=float(spread),
        signal_to_noise=float(length / spread) if spread > 0 else math.inf,
        truth=float(truth) if truth.numel() == 1 else float(length),
        seconds=seconds,
    )


def _check_parameters(parameters: Mapping[str, Tensor]) -> None:
    if not parameters:
        raise ValueError("diagnose needs at least one parameter, got none. Pass dict(module.named_parameters()), or some of it.")
    for name, parameter in parameters.items():
        if not (parameter.is_leaf and parameter.requires_grad):
            raise ValueError(
                f"diagnose needs {name} to be a leaf that requires a gradient, got a result or a constant. "
                "Pass the parameters themselves, such as dict(module.named_parameters())."
            )
