"""Tables of the synthetic problem: where its parameters end, and how they got there."""

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median, stdev

from mdpf.evaluation.results import Result
from mdpf.report.markdown import load_if_there, markdown, missing, origin, short

Numbers = dict[str, float]

TOY = ("exact", "IWSG", "TG", "IRG")
TOY_NAMES = {"exact": "mixture Kalman filter", "IWSG": "IWSG-PF", "TG": "TG-PF", "IRG": "IRG-PF"}
PARAMETERS = ("A", "B", "C1", "C2", "c1", "c2", "w1", "w2")
GRADIENTS = ("dA", "dB", "dC1", "dC2", "dc1", "dc2", "dv")


def toy(results: Path) -> str:
    """Where every parameter of the synthetic problem ends: mean and standard deviation over seeds."""
    found = _toy(results)
    if isinstance(found, str):
        return found
    truth, start = (_named(found["exact"].config[which]) for which in ("truth", "start"))
    rows = []
    for name in PARAMETERS:
        ends = [_ends(result, name) for result in found.values()]
        rows.append(
            [f"`{name}`", f"{truth[name]:.3g}", f"{start[name]:.3g}", *[f"{mean(end):.3g} ± {_sd(end):.2g}" for end in ends]]
        )
    runs = len(found["exact"].runs)
    note = f"\n\n*Mean and standard deviation over {runs} seeds.* " + origin(list(found.values()))
    return markdown(["parameter", "truth", "start", *[TOY_NAMES[name] for name in found]], rows) + note


def toy_noise(results: Path) -> str:
    """How every method of the synthetic problem got there: distances at the end, noise of the gradient, speed."""
    found = _toy(results)
    if isinstance(found, str):
        return found
    truth = _named(found["exact"].config["truth"])
    rows = []
    for method, result in found.items():
        quiet = [_gradient_noise(result, name) / _gradient_noise(found["exact"], name) for name in GRADIENTS]
        rows.append(
            [
                TOY_NAMES[method],
                "" if method == "exact" else _furthest(result, {name: _ends(found["exact"], name) for name in PARAMETERS}),
                _furthest(result, {name: [truth[name]] for name in PARAMETERS}),
                f"{short(min(quiet))} to {short(max(quiet))}",
                _halving(result, truth),
            ]
        )
    header = [
        "method",
        "furthest from the mixture Kalman filter",
        "furthest from the truth",
        "noise of gradients",
        "updates to half way",
    ]
    return markdown(header, rows)


def _toy(results: Path) -> dict[str, Result] | str:
    loaded = {name: load_if_there(results / "toy" / f"{name}.json") for name in TOY}
    absent = [TOY_NAMES[name] for name, result in loaded.items() if result is None]
    if absent:
        return missing(f"the synthetic problem with {', '.join(absent)}", "mdpf reproduce toy")
    return {name: result for name, result in loaded.items() if result is not None}


def _named(values: dict) -> Numbers:
    """The eight numbers under the names of the paper."""
    second = 1 / (1 + math.exp(-values["logit"]))
    named = {"A": values["transition"], "B": values["control"], "w1": 1 - second, "w2": second}
    for index in (0, 1):
        named |= {f"C{index + 1}": values["emission"][index], f"c{index + 1}": values["offset"][index]}
    return named


def _last_third(values: list[float]) -> list[float]:
    return values[2 * len(values) // 3 :]


def _ends(result: Result, name: str) -> list[float]:
    """A parameter at the end of training, for every seed: the mean of the last tenth, for one value has the noise of a batch."""
    histories = [run["history"][name] for run in result.runs]
    return [mean(history[-max(1, len(history) // 10) :]) for history in histories]


def _sd(values: Sequence[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0


def _furthest(result: Result, goals: dict[str, list[float]]) -> str:
    """The parameter whose mean is furthest from that of its goal, in spreads: the root of the summed variances over seeds."""
    distances = {}
    for name, goal in goals.items():
        ends = _ends(result, name)
        spread = math.hypot(_sd(ends), _sd(goal))
        distances[name] = abs(mean(ends) - mean(goal)) / spread if spread else math.inf
    worst = max(distances, key=lambda name: distances[name])
    return f"`{worst}`, {short(distances[worst])} spreads"


def _gradient_noise(result: Result, name: str) -> float:
    """The standard deviation of a gradient over the last third of training, the median over seeds."""
    return median(_sd(_last_third(run["history"][name])) for run in result.runs)


def _halving(result: Result, truth: Numbers) -> str:
    """Updates until a parameter has come half way to the truth: the median over seeds, the fastest and the slowest parameter."""
    every = result.config["record_every"]
    needed = {}
    for name in PARAMETERS[:-1]:  # The two weights are one number.
        times = []
        for run in result.runs:
            distance = [abs(value - truth[name]) for value in run["history"][name]]
            times.append(next((every * step for step, value in enumerate(distance) if value <= distance[0] / 2), math.inf))
        needed[name] = median(times)
    fastest, slowest = (choose(needed, key=lambda name: needed[name]) for choose in (min, max))
    return f"{_updates(needed[fastest])} (`{fastest}`) to {_updates(needed[slowest])} (`{slowest}`)"


def _updates(number: float) -> str:
    return f"{number:.0f}" if math.isfinite(number) else "never"
