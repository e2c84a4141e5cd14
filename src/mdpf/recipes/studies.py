"""What all studies share: where they work, how trainings become results, and doing what is left as far as the time suffices."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mdpf.data.atomic import exclusive
from mdpf.evaluation import results
from mdpf.evaluation.evaluate import Filter
from mdpf.evaluation.results import Result, provenance
from mdpf.models import take_run
from mdpf.recipes.filing import Filing, weights_file
from mdpf.recipes.methods import METHODS
from mdpf.recipes.parts import Outcome, Part, carry_out
from mdpf.recipes.training import Trained
from mdpf.training import fit, weights
from mdpf.training.deadline import Deadline

Watch = Callable[[str, fit.Epoch], None]


@dataclass(frozen=True)
class Place:
    """Where and how a study is worked on.

    Args:
        folder: Where results and weights are written.
        work: Where checkpoints and data are kept until the study is complete.
        device: Where to compute.
        watch: Is told about every epoch, with the name of its part.
        minutes: Stop in good order before so many minutes are over; by default there is no end.
        jobs: So many parts at once, as threads of this process; by default four on a CUDA device, one elsewhere.
        own: The folder in ``work`` for the checkpoints of a part that shares the data of the others.
    """

    folder: Path
    work: Path
    device: str = "cpu"
    watch: Watch | None = None
    minutes: float | None = None
    jobs: int | None = None
    own: str = ""

    @property
    def data(self) -> Path:
        return self.work / "data"

    @property
    def checkpoints(self) -> Path:
        return self.work / self.own

    @property
    def on_gpu(self) -> bool:
        return torch.device(self.device).type == "cuda"

    def guess(self, seconds: float) -> float:
        """What a part that cannot be interrupted may take on a GPU; elsewhere nobody lends time."""
        return seconds if self.on_gpu else 0.0

    def told(self, name: str) -> fit.Watch | None:
        """Who is told about the epochs of a part."""
        return None if self.watch is None else partial(self.watch, name)


def report(
    trained: Trained,
    where: Filing,
    place: Place,
    notes: Mapping[str, Any],
    judge: Callable[[Filter], list[dict[str, Any]]],
    *,
    description: Callable[[Filter], Mapping[str, Any]] | None = None,
    metric: str = "nll",
) -> list[Path]:
    """Judge a method after every stage that has results, and write these with the weights of the median run.

    Args:
        trained: The method.
        where: What results are filed under.
        place: Where they are written.
        notes: Every choice behind them.
        judge: From a filter with all its runs to what a result file holds about each of them.
        description: What is needed to build the filter of a single run again; by default no weights are written.
        metric: Whose median it is.
    """
    stages, paths = list(trained.filters), []
    for setting, stage in where.stages.items():
        began, filter = time.monotonic(), trained.filters[stage]
        runs = judge(filter)
        earlier = stages[: stages.index(stage) + 1]
        seconds = {name: value for name, value in trained.seconds.items() if name.split(",")[0] in earlier}
        seconds["evaluation"] = time.monotonic() - began
        result = Result(where.experiment, where.method, runs, dict(notes), provenance(seconds, device=place.device), setting)
        kept = []
        if description is not None:
            kept = [weights_file(place.folder, where.method, setting)]
            median = take_run(filter, result.median_run(metric)).cpu()
            weights.save(kept[0], median, description(median))
        # The result comes last: where it is, all is there.
        paths += [results.save(result, place.folder), *kept]
    return paths


def rows(seed: int, runs: int, **found: dict[str, Tensor]) -> list[dict[str, Any]]:
    """What a result file holds about every run: numbers as they are, series to four places."""

    def plain(value: Tensor) -> Any:  # noqa: ANN401 - whatever JSON has for it
        return value.item() if value.ndim == 0 else rounded(value)

    def row(run: int) -> dict[str, Any]:
        return {kind: {name: plain(value[run]) for name, value in part.items()} for kind, part in found.items()}

    return [{"seed": 1000 * seed + run, **row(run)} for run in range(runs)]


def rounded(values: Tensor) -> list[float]:
    """A series for a result file."""
    return [round(value, 4) for value in values.tolist()]


def trainings(
    configs: Sequence[Any], settings: Mapping[str, tuple[str, Mapping[str, Any]]], make: Callable[..., Part], *, default: bool
) -> list[Part]:
    """A part for every method, if the default is asked for, and for some of them in other settings.

    Args:
        configs: Of the methods.
        settings: A method and what is different, by the name of the setting.
        make: Makes the part of a configuration; may be told the ``name`` of its setting, and what it ``needs``.
        default: Whether to train methods as they are.
    """
    methods, found = {config.method: config for config in configs}, []
    for config in configs if default else ():
        # Whoever starts from a method that is not asked for trains it along.
        start = METHODS[config.method].starts_from
        found.append(make(config, needs=(start,) if start in methods else ()))
    for name, (method, changes) in settings.items():
        if method in methods:
            found.append(make(replace(methods[method], **changes), name=name))
    return found


def clear(method: str, checkpoints: Path) -> None:
    """Remove the checkpoints of a method that is done, so that less has to travel; what another one starts from stays."""
    followers = any(other.starts_from == method for other in METHODS.values())
    needed = {METHODS[method].reported["default"]} if followers else set()
    for path in (checkpoints / method).glob("*.safetensors"):
        if path.stem not in needed:
            path.unlink()


def work_off(todo: list[Part], place: Place) -> Outcome:
    """Do what is left of some parts, as far as the time suffices, and add this call to the list of calls among the results.

    The list tells the time of all calls together.
    """
    began, until = time.monotonic(), Deadline() if place.minutes is None else Deadline(60 * place.minutes)
    jobs = place.jobs or (4 if place.on_gpu else 1)
    outcome = carry_out(todo, jobs=jobs, until=until)
    spent = asdict(provenance(time.monotonic() - began, device=place.device))
    path, entry = place.folder / "calls.json", spent | {"parts": outcome.seconds, "jobs": jobs, "left": outcome.left}
    # Several processes may work at one study, each at other methods.
    with exclusive(path):
        calls = list(results.read_json(path)) if path.exists() else []
        results.write_json(path, [*calls, entry])
    return outcome
