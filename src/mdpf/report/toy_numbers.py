"""What the tables of the synthetic problem compare: where parameters end, how noisy their gradients are, how fast they come."""

import math
from collections.abc import Sequence
from statistics import mean, median, stdev
from typing import Any

from mdpf.evaluation.results import Result

Numbers = dict[str, float]

PARAMETERS = ("A", "B", "C1", "C2", "c1", "c2", "w1", "w2")
GRADIENTS = ("dA", "dB", "dC1", "dC2", "dc1", "dc2", "dv")


def named(values: dict[str, Any]) -> Numbers:
    """The eight numbers under the names of the paper."""
    second = 1 / (1 + math.exp(-values["logit"]))
    found = {"A": values["transition"], "B": values["control"], "w1": 1 - second, "w2": second}
    for index in (0, 1):
        found |= {f"C{index + 1}": values["emission"][index], f"c{index + 1}": values["offset"][index]}
    return found


def ends(result: Result, name: str) -> list[float]:
    """A parameter at the end of training, for every seed: the mean of the last tenth, for one value has the noise of a batch."""
    histories = [run["history"][name] for run in result.runs]
    return [mean(history[-max(1, len(history) // 10) :]) for history in histories]


def spread(values: Sequence[float]) -> float:
    """The standard deviation of what is finite."""
    finite = [value for value in values if math.isfinite(value)]
    return stdev(finite) if len(finite) > 1 else 0.0


def scattered(result: Result, name: str) -> bool:
    """Whether the seeds end further from each other than the whole way was from start to truth: then they found nothing."""
    start, truth = (named(result.config[which])[name] for which in ("start", "truth"))
    here = ends(result, name)
    return not all(math.isfinite(value) for value in here) or spread(here) > abs(truth - start)


def distances(result: Result, goals: dict[str, list[float]]) -> Numbers:
    """How far the mean of each parameter is from that of its goal, in spreads: the root of the summed variances over seeds.

    It is infinite where the seeds are scattered, whose own spread would make everything near.
    """
    found = {}
    for name, goal in goals.items():
        here = ends(result, name)
        unit = math.hypot(spread(here), spread(goal))
        found[name] = math.inf if scattered(result, name) or not unit else abs(mean(here) - mean(goal)) / unit
    return found


def gradient_noise(result: Result) -> Numbers:
    """The standard deviation of every gradient over the last third of training, the median over seeds.

    It is infinite where most of the gradients are not finite.
    """

    def noise(values: list[float]) -> float:
        last_third = values[2 * len(values) // 3 :]
        finite = sum(math.isfinite(value) for value in last_third)
        return spread(last_third) if 2 * finite > len(last_third) else math.inf

    return {name: median(noise(run["history"][name]) for run in result.runs) for name in GRADIENTS}


def updates_to_half_way(result: Result) -> Numbers:
    """Updates until a parameter has come half way to the truth, the median over seeds; infinite where it never does."""
    truth, every = named(result.config["truth"]), result.config["record_every"]
    needed = {}
    for name in PARAMETERS[:-1]:  # The two weights are one number.
        times = []
        for run in result.runs:
            distance = [abs(value - truth[name]) for value in run["history"][name]]
            times.append(next((every * step for step, value in enumerate(distance) if value <= distance[0] / 2), math.inf))
        needed[name] = median(times)
    return needed
