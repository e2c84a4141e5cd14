"""The targets of speed and memory beside what was measured, and what bounds each: operators, instructions, exponentials.

A bound is what the same machine needs at least for the same work, whoever programs it. On a processor it is made of measured times
of the smallest operator and of an exponential; on a GPU, of its programs, launched one after the other, or of the instructions that
its arithmetic units can issue.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mdpf.evaluation.measurements import Measurements, load, path_of
from mdpf.report.markdown import markdown, missing
from mdpf.report.speed_numbers import figure, made_by

PROCESSOR_TIME = "ms of processor"
DENSITY = {"kernel": "gaussian"}


class Chip(NamedTuple):
    """What a GPU can do: processors, and instructions and exponentials for each of them in a second, of NVIDIA's tables."""

    processors: int
    instructions: float
    exponentials: float


CHIPS = {"H200": Chip(132, 128 * 1.98e9, 16 * 1.98e9)}
# Of the programs in ``mdpf.ops.programs``, forward and backward, for each pair on (x, y, theta): counted in the source.
INSTRUCTIONS, EXPONENTIALS = 12 + 23, 2


class Bound(NamedTuple):
    """The least milliseconds, and what takes them."""

    least: float
    of: str


class Target(NamedTuple):
    """One line of the table.

    Args:
        what: In words.
        at_most: The target.
        unit: Of what is measured.
        part: In which file it is.
        name: Of the row,
        params: and its choices.
        shared: By how many runs the value is divided.
        bound: What bounds it, if that is known.
    """

    what: str
    at_most: float
    unit: str
    part: str
    name: str
    params: dict[str, Any]
    shared: int = 1
    bound: Callable[["Files"], Bound | None] = lambda files: None


class Files:
    """The measurements on one kind of device, read when asked for."""

    def __init__(self, folder: Path, device: str):
        self.folder, self.device = folder, device
        self._read: dict[str, Measurements | None] = {}

    def __getitem__(self, part: str) -> Measurements | None:
        if part not in self._read:
            path = path_of(self.folder, part, self.device)
            self._read[part] = load(path) if path.exists() else None
        return self._read[part]

    def value(self, part: str, name: str, unit: str, **params: object) -> float | None:
        measured = self[part]
        return None if measured is None else measured.value(name, unit, **params)


def _pairs(batch: int, count: int) -> Callable[[Files], Bound | None]:
    """The density of all pairs, forward and backward."""

    def bound(files: Files) -> Bound | None:
        pairs = batch * count**2
        if files.device == "cpu":
            rate = files.value("bounds", "exponentials", "G/s")
            return None if rate is None else Bound(1e3 * EXPONENTIALS * pairs / (1e9 * rate), "exponentials")
        density = files["density"]
        chip = next((chip for name, chip in CHIPS.items() if density is not None and name in density.provenance.device), None)
        if chip is None:
            return None
        instructions = pairs * INSTRUCTIONS / chip.instructions / chip.processors
        exponentials = pairs * EXPONENTIALS / chip.exponentials / chip.processors
        return Bound(1e3 * max(instructions, exponentials), "instructions" if instructions > exponentials else "exponentials")

    return bound


def _operators(name: str, at: str, **params: object) -> Callable[[Files], Bound | None]:
    """As many operators, or programs of a GPU, as there are, each as small as can be."""

    def bound(files: Files) -> Bound | None:
        count = files.value("bounds", f"{name}, operators", "operators", **params)
        each = files.value("bounds", "smallest operator", "us", execution=at)
        return None if count is None or each is None else Bound(count * each / 1e3, f"{count:,.0f} operators")

    return bound


def _larger(*bounds: Callable[[Files], Bound | None]) -> Callable[[Files], Bound | None]:
    """Whatever takes longest of what is known."""

    def bound(files: Files) -> Bound | None:
        known = [each for make in bounds if (each := make(files)) is not None]
        return max(known, default=None)

    return bound


def _density(what: str, batch: int, count: int, most_time: float | None, most_memory: float | None) -> list[Target]:
    params = {"batch": batch, "particles": count, **DENSITY}
    times = [] if most_time is None else [Target(what, most_time, "ms", "density", "density", params, bound=_pairs(batch, count))]
    return times + ([] if most_memory is None else [Target(f"{what}, memory", most_memory, "MB", "density", "density", params)])


def _errors(**most: float) -> list[Target]:
    """The error of the log-density and of the gradients; those of a processor are not demanded."""
    limits = {"log-density": most["density"]}
    limits |= dict.fromkeys(("gradient to locations", "to log-weights", "to scales", "to concentration"), most.get("gradients", 0))
    return [
        Target(f"error, {cloud} cloud: {of}", limit, "relative", "density", "density error", {"cloud": cloud, "of": of})
        for cloud in ("near", "far", "wide")
        for of, limit in limits.items()
        if limit
    ]


def _captured(runs: int, at_most: float, shared: int = 1) -> Target:
    what = f"training step, {runs} run{'s' * (runs > 1)}" + (", each" if shared > 1 else "")
    bound = _operators("training step", "recorded", runs=runs, execution="compiled")
    return Target(what, at_most, "ms", "training", "training step", {"runs": runs, "execution": "captured"}, shared, bound)


def _resampling(count: int, at_most: float, cloud: str) -> Target:
    params = {"particles": count, "cloud": cloud}
    # The number of operators is that of the smallest size; more particles need no fewer.
    bound = _larger(_operators("resampling", "eager", particles=25), _pairs(64, count))
    return Target(
        f"resampling step, N {count}, {cloud} cloud", at_most, PROCESSOR_TIME, "resampling", "resampling", params, bound=bound
    )


TARGETS: dict[str, list[Target]] = {
    "cuda": [
        *_density("density, B 16, N 10,000", 16, 10_000, 5, 50),
        *_density("density, B 1, N 100,000", 1, 100_000, 25, None),
        *_density("density, B 1, N 1,000,000", 1, 1_000_000, None, 500),
        *_errors(density=1e-5, gradients=1e-4),
        _captured(1, 6),
        _captured(11, 8),
        _captured(55, 0.2, shared=55),
    ],
    "cpu": [
        *(
            Target(
                f"training step, 1 run, {execution}",
                60,
                PROCESSOR_TIME,
                "training",
                "training step",
                {"runs": 1, "execution": execution, "threads": 1},
                bound=_operators("training step", "eager", runs=1) if execution == "eager" else lambda files: None,
            )
            for execution in ("eager", "compiled")
        ),
        *(
            _resampling(count, at_most, cloud)
            for cloud in ("narrow", "wide")
            for count, at_most in ((25, 3), (100, 7), (500, 120), (2000, 1500))
        ),
        *_errors(density=1e-3),
    ],
}


def targets(results: Path, device: str = "cpu") -> str:
    """Every target, what was measured, and what bounds it and by how much."""
    files = Files(results / "bench", device)
    if all(files[target.part] is None for target in TARGETS[device]):
        return missing(f"speed and memory on {_where(device)}", "mdpf bench")
    rows = [_row(target, files) for target in TARGETS[device]]
    read = [measured for part in sorted({target.part for target in TARGETS[device]}) if (measured := files[part]) is not None]
    return markdown(["what", "at most", "measured", "", "bound", "times the bound"], rows) + "\n\n" + made_by(read)


def _row(target: Target, files: Files) -> list[str]:
    value = files.value(target.part, target.name, target.unit, **target.params)
    unit = "" if target.unit == "relative" else f" {target.unit.split()[0]}"
    most = f"{figure(target.at_most)}{unit}"
    if value is None:
        return [target.what, most, "not measured", "", "", ""]
    value /= target.shared
    verdict = "met" if value <= target.at_most else "**missed**"
    bound = target.bound(files)
    if bound is None or math.isnan(value):
        return [target.what, most, f"{figure(value)}{unit}", verdict, "", ""]
    least = bound.least / target.shared
    return [target.what, most, f"{figure(value)}{unit}", verdict, f"{figure(least)} ms, {bound.of}", figure(value / least)]


def _where(device: str) -> str:
    return "a GPU" if device == "cuda" else "a processor"
