"""From a file of sequences to a tracker one can trust: train a method, judge it beside two baselines, and write everything down.

The baselines are what somebody would otherwise use: dead reckoning (the fitted motion alone, which looks at no observation) and a
recurrent network trained on the same sequences. All are judged on sequences that nothing was learned from.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from mdpf.data.sequences import SequenceBatch
from mdpf.evaluation import results
from mdpf.evaluation.evaluate import Filter, evaluate
from mdpf.evaluation.results import Result, provenance
from mdpf.filters import RecurrentFilter
from mdpf.models import stack_runs, take_run
from mdpf.recipes import logs
from mdpf.recipes.blueprint import Blueprint
from mdpf.recipes.judging import Levels
from mdpf.recipes.log_networks import LogNetworks
from mdpf.recipes.logs import Config, Prepared
from mdpf.recipes.methods import METHODS
from mdpf.recipes.vigilance import learn
from mdpf.resamplers import Adaptive, Discrete
from mdpf.tracking import Around, Box, Tracker, Vigilance
from mdpf.training import fit, processes, weights
from mdpf.training.deadline import Deadline

BASELINE = "LSTM"
DEAD_RECKONING = "dead-reckoning"
PARTICLES_AT_A_TIME = {"cpu": 25_000, "cuda": 1_000_000}
MANY = 1000  # Particles of dead reckoning.

Watch = Callable[[str, fit.Epoch], None]


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
    prepared = prepared.to(device)
    found, paths = _trained(config, prepared, folder, folder, notes, data.stem, device, watch, until)
    if not baselines:
        return Outcome(found, [], paths)
    beside = folder / "baselines"
    others: list[Result] = []
    if config.method != BASELINE:
        plain = replace(config, method=BASELINE)
        others, written = _trained(plain, prepared, beside, folder, notes | asdict(plain), data.stem, device, watch, until)
        paths += written
    if processes.rank():
        return Outcome([], [], [])
    reckoned = _dead_reckoning(config, prepared, notes, data.stem, device)
    paths.append(results.save(reckoned, beside))
    return Outcome(found, [*others, reckoned], paths)


def check(config: Config, data: Path, folder: Path) -> tuple[Prepared, dict[str, Any]]:
    """Read the data and describe the training; a folder with results of another one is refused before any work is done."""
    prepared = logs.prepare(data, seed=config.seed)
    notes = {"task": "file", "data": data.name} | logs.describe(config, prepared)
    for setting in METHODS[config.method].reported:
        results.load_same(folder / _file_name(config.method, setting), notes)
    return prepared, notes


def _trained(
    config: Config,
    prepared: Prepared,
    folder: Path,
    root: Path,
    notes: Mapping[str, Any],
    experiment: str,
    device: str,
    watch: Watch | None,
    until: Deadline | None,
) -> tuple[list[Result], list[Path]]:
    """Train one method, judge all its runs, and write its results and the weights of its median run."""
    settings, found, paths = METHODS[config.method].reported, [], []
    told = None if watch is None else partial(watch, config.method)
    trained = logs.train(config, prepared, root / "training", watch=told, until=until)
    if processes.rank():
        # The first process judges and writes.
        return [], []
    for setting, stage in settings.items():
        began = time.monotonic()
        filter = trained.filters[stage]
        runs = judge(filter, config, prepared, prepared.test, runs=config.runs)
        earlier = _upto(trained.filters, stage)
        seconds = {name: value for name, value in trained.seconds.items() if name.split(",")[0] in earlier}
        seconds["evaluation"] = time.monotonic() - began
        result = Result(experiment, config.method, runs, dict(notes), provenance(seconds, device=device), setting)
        alone = take_run(filter, result.median_run()).cpu()
        content = {**notes, "runs": 1, "vigilance": _vigilance(alone, config, prepared)}
        path = folder / "weights" / Path(_file_name(config.method, setting)).with_suffix(".safetensors").name
        # The result comes last: where it is, all is there.
        weights.save(path, alone, content)
        paths += [path, results.save(result, folder)]
        found.append(result)
    return found, paths


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


def _upto(stages: Mapping[str, Filter], last: str) -> list[str]:
    names = list(stages)
    return names[: names.index(last) + 1]


def _file_name(method: str, setting: str) -> str:
    return f"{method}.json" if setting == "default" else f"{method}@{setting}.json"
