"""From a file of sequences to a tracker one can trust: train a method, judge it beside two baselines, and write everything down.

The baselines are what somebody would otherwise use: dead reckoning (the fitted motion alone, which looks at no observation) and a
recurrent network trained on the same sequences. All are judged on sequences that nothing was learned from.
"""

import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from mdpf.data.sequences import SequenceBatch
from mdpf.evaluation import results
from mdpf.evaluation.evaluate import Filter, evaluate
from mdpf.evaluation.results import Result, provenance
from mdpf.filters import RecurrentFilter
from mdpf.models import stack_runs
from mdpf.recipes import logs
from mdpf.recipes.blueprint import Blueprint
from mdpf.recipes.filing import filing
from mdpf.recipes.judging import Levels
from mdpf.recipes.log_networks import LogNetworks
from mdpf.recipes.logs import Config, Prepared
from mdpf.recipes.studies import Place, Watch, report
from mdpf.recipes.vigilance import learn
from mdpf.resamplers import Adaptive, Discrete
from mdpf.tracking import Around, Box, Tracker, Vigilance
from mdpf.training import processes
from mdpf.training.deadline import Deadline

BASELINE = "LSTM"
DEAD_RECKONING = "dead-reckoning"
PARTICLES_AT_A_TIME = {"cpu": 25_000, "cuda": 1_000_000}
MANY = 1000  # Particles of dead reckoning.


class Outcome(NamedTuple):
    """What a study wrote: the results of the method by setting, those of the baselines, and all files."""

    results: list[Result]
    baselines: list[Result]
    paths: list[Path]


def study(
    config: Config,
    data: Path,
    folder: Path,
    *,
    device: str = "cpu",
    watch: Watch | None = None,
    until: Deadline | None = None,
    baselines: bool = True,
) -> Outcome:
    """Train a method on a file of sequences, judge it beside the baselines, and write results and weights into ``folder``.

    A call that was interrupted goes on; one that was not gives the same again. Without ``baselines`` the method stays alone.
    """
    prepared, notes = check(config, data, folder)
    prepared, place = prepared.to(device), Place(folder, folder / "training", device, watch)
    paths = _trained(config, prepared, place, notes, data.stem, until)
    found = _results(paths)
    if not baselines:
        return Outcome(found, [], paths)
    place = replace(place, folder=folder / "baselines")
    others = []
    if config.method != BASELINE:
        plain = replace(config, method=BASELINE)
        others = _trained(plain, prepared, place, notes | asdict(plain), data.stem, until)
    if processes.rank():
        return Outcome([], [], [])
    reckoned = _dead_reckoning(config, prepared, notes, data.stem, device)
    return Outcome(found, [*_results(others), reckoned], [*paths, *others, results.save(reckoned, place.folder)])


def check(config: Config, data: Path, folder: Path) -> tuple[Prepared, dict[str, Any]]:
    """Read the data and describe the training; a folder with results of another one is refused before any work is done."""
    prepared = logs.prepare(data, seed=config.seed)
    notes = {"task": "file", "data": data.name} | logs.describe(config, prepared)
    filing(data.stem, config.method).done(folder, notes)
    return prepared, notes


def _trained(
    config: Config, prepared: Prepared, place: Place, notes: Mapping[str, Any], experiment: str, until: Deadline | None
) -> list[Path]:
    """Train one method, judge all its runs, and write its results and the weights of its median run."""
    trained = logs.train(config, prepared, place.work, watch=place.told(config.method), until=until)
    if processes.rank():
        # The first process judges and writes.
        return []

    def judged(filter: Filter) -> list[dict[str, Any]]:
        return judge(filter, config, prepared, prepared.test, runs=config.runs)

    def description(median: Filter) -> dict[str, Any]:
        return {**notes, "runs": 1, "vigilance": _vigilance(median, config, prepared)}

    return report(trained, filing(experiment, config.method), place, notes, judged, description=description)


def _results(paths: list[Path]) -> list[Result]:
    return [results.load(path) for path in paths if path.suffix == ".json"]


def judge(
    filter: Filter,
    config: Config,
    prepared: Prepared,
    data: SequenceBatch,
    *,
    runs: int,
) -> list[dict[str, Any]]:
    """The metrics, curves and calibration of every run on sequences that were held out."""
    blueprint, device = prepared.blueprint, data.states.device
    look = Levels(blueprint.state_space)
    found = evaluate(
        filter,
        data,
        prior=logs.prior(blueprint, config.start),
        num_particles=config.particles,
        runs=runs,
        limit_lost=blueprint.limit_lost,
        batch=max(1, PARTICLES_AT_A_TIME[device.type] // (config.particles * runs)),
        look=look,
        generator=torch.Generator(device).manual_seed(config.seed),
    )
    return [
        {
            "seed": 1000 * config.seed + run,
            "metrics": {name: value[run].item() for name, value in found.metrics.items()} | look.summary(run),
            "curves": {name: value[run].cpu().tolist() for name, value in found.curves.items()},
        }
        for run in range(runs)
    ]


def _dead_reckoning(config: Config, prepared: Prepared, notes: Mapping[str, Any], experiment: str, device: str) -> Result:
    """The fitted motion with its noise and nothing else: what is believed without looking."""
    began = time.monotonic()
    # Weights stay equal, so that nothing is ever drawn anew and no particle is lost.
    blind = stack_runs([LogNetworks(prepared.blueprint, config.hidden_dim).filter(Adaptive(Discrete()))]).to(device)
    unseen = prepared.test._replace(observed=torch.zeros_like(prepared.test.targets))
    # It costs next to nothing, so it gets as many particles as it takes to fill a cloud that only ever grows.
    config = replace(config, method=DEAD_RECKONING, runs=1, particles=max(config.particles, MANY))
    runs = judge(blind, config, prepared, unseen, runs=1)
    spent = provenance(time.monotonic() - began, device=device)
    return Result(experiment, DEAD_RECKONING, runs, {**notes, **asdict(config)}, spent)


def _vigilance(filter: Filter, config: Config, prepared: Prepared) -> dict[str, float] | None:
    """When the tracker counts as lost, from how it does on the sequences that chose the best epoch."""
    if isinstance(filter, RecurrentFilter):
        return None
    tracker = tracker_of(filter, config, prepared.blueprint)
    found = learn(tracker, prepared.validation.to("cpu"), limit=prepared.blueprint.limit_lost, seed=config.seed)
    return None if found is None else asdict(found)


def tracker_of(
    filter: Filter, config: Config, blueprint: Blueprint, vigilance: Vigilance | None = None, recover: float = 0.0
) -> Tracker:
    """A tracker around a filter that was trained on recorded sequences."""
    space = blueprint.state_space
    return Tracker(
        filter,
        space,
        blueprint.observation,
        Around(space, blueprint.start),
        image=blueprint.image,
        action_dim=blueprint.action_dim,
        box=Box(space, blueprint.low, blueprint.high),
        num_particles=config.particles,
        vigilance=vigilance,
        recover=recover,
    )
