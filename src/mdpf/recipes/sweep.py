"""Several methods, each from several seeds, on the same data: every pair is a part of its own that needs no other.

So parts can be done on any number of machines (``cluster``). Each has a folder of its own, ``METHOD/seed-N``, in which it goes on
when it was interrupted; when all seeds of a method are there, their runs are put together to one result.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mdpf.evaluation import results
from mdpf.evaluation.results import Result, file_name
from mdpf.recipes import bearings_beyond, bearings_study, logs, logs_study
from mdpf.recipes.filing import filing
from mdpf.recipes.methods import METHODS
from mdpf.recipes.parts import Part
from mdpf.recipes.studies import Place
from mdpf.training.deadline import Deadline

# What a sweep can be made over, besides files of sequences.
TASKS = ("bearings",)


@dataclass(frozen=True)
class Sweep:
    """What to train.

    Args:
        data: A file of sequences, or one of ``TASKS``.
        methods: Which methods.
        seeds: From which seeds.
        options: Other choices of every training: those of ``logs.Config``, or of ``bearings.Config``.
    """

    data: str
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    options: dict[str, Any]

    def __post_init__(self) -> None:
        for name, values in (("methods", self.methods), ("seeds", self.seeds)):
            if not values or len(set(values)) < len(values):
                raise ValueError(f"A sweep needs {name} that differ, got {', '.join(map(str, values)) or 'none'}.")


def parts(sweep: Sweep, folder: Path, *, device: str = "cpu") -> list[Part]:
    """A part for every method and seed; none refers to anything but values, so that they can travel."""
    # Elsewhere another folder may be the current one.
    folder = folder.resolve()
    make = _on_task if sweep.data in TASKS else _on_file
    return [make(sweep, method, seed, folder, device) for method in sweep.methods for seed in sweep.seeds]


def gather(sweep: Sweep, folder: Path) -> list[Result]:
    """Put the runs of every method together whose seeds are all there, and write them into ``folder``."""
    found = []
    for method in sweep.methods:
        for setting in METHODS[method].reported:
            files = [_place(folder, method, seed) / file_name(method, setting) for seed in sweep.seeds]
            if all(file.exists() for file in files):
                found.append(_together([results.load(file) for file in files], sweep.seeds))
                _save(found[-1], folder / file_name(method, setting))
    return found


def _save(result: Result, path: Path) -> None:
    """Write what was put together; that of fewer or other seeds makes way, any other result does not."""
    if path.exists() and "seeds" in results.load(path).config:
        results.write_json(path, asdict(result))
    else:
        results.save(result, path.parent)


def _together(alone: Sequence[Result], seeds: tuple[int, ...]) -> Result:
    first, runs = alone[0], [run for result in alone for run in result.runs]
    seconds = round(sum(result.provenance.seconds for result in alone), 1)
    common = {name: value for name, value in first.config.items() if all(other.config.get(name) == value for other in alone)}
    config = {**common, "runs": len(runs), "seeds": list(seeds)}
    return replace(first, runs=runs, config=config, provenance=replace(first.provenance, seconds=seconds, parts={}))


def _place(folder: Path, method: str, seed: int) -> Path:
    return folder / method / f"seed-{seed}"


def _part(method: str, seed: int, do: Callable[[Deadline], object], done: Callable[[], bool]) -> Part:
    return Part(f"{method}, seed {seed}", do, done)


def _on_file(sweep: Sweep, method: str, seed: int, folder: Path, device: str) -> Part:
    config, data = logs.Config(method, seed=seed, **sweep.options), Path(sweep.data).resolve()
    own = _place(folder, method, seed)

    def do(until: Deadline) -> None:
        logs_study.study(config, data, own, device=device, until=until, baselines=False)

    def done() -> bool:
        _, notes = logs_study.check(config, data, own)
        return filing(data.stem, method).done(own, notes)

    return _part(method, seed, do, done)


def _on_task(sweep: Sweep, method: str, seed: int, folder: Path, device: str) -> Part:
    config, where = bearings_beyond.named(method, seed=seed, **sweep.options)
    own = _place(folder, method, seed)
    # The data are shared by all parts.
    place = Place(own, folder, device, own=str(own.relative_to(folder) / "training"))

    def do(until: Deadline) -> None:
        bearings_study.study(config, place, where=where, until=until)

    return _part(method, seed, do, lambda: where.done(own, bearings_study.describe(config)))
