"""The kernel study of bearings-only tracking: what a kernel with compact support costs, and whether a smoother one pays.

Every method goes on from its training with Gaussian kernels, run by run. Filters that draw from their mixture are trained on the
likelihood once more, with the new kernel for positions; A-MDPF starts from the new MDPF. The others are given a bandwidth; their
networks, which never see a kernel, stay as they are. Initial particles follow the new kernel too, for all methods.

The variance of an importance-weighted gradient is infinite for the Epanechnikov kernel, and finite for the biweight kernel, which
is as compact. Where no kernel covers the truth the likelihood is zero; what is learned from has a small background density.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from mdpf.evaluation.evaluate import Filter
from mdpf.models.bandwidth import LearnedBandwidth
from mdpf.recipes import bearings, bearings_study, training
from mdpf.recipes.bearings import KERNELS, Config
from mdpf.recipes.filing import Filing
from mdpf.recipes.methods import METHODS
from mdpf.recipes.parts import Outcome, Part
from mdpf.recipes.studies import Place, work_off
from mdpf.recipes.training import Trained
from mdpf.training import checkpoint, fit
from mdpf.training.deadline import Deadline

COMPACT = ("epanechnikov", "biweight")


def run(
    place: Place,
    *,
    methods: tuple[str, ...] = bearings_study.ORDER,
    kernels: tuple[str, ...] = COMPACT,
    runs: int = 11,
    seed: int = 0,
    preset: str = "fast",
) -> Outcome:
    """Do what is left of the kernel study; see ``bearings_study.run``, with whose ``work`` it goes on.

    Trainings with Gaussian kernels that are not there yet are made first. ``kernels`` says which ones to study.
    """
    configs = [Config(method, runs, seed, preset=preset) for method in methods]
    return work_off(parts(configs, kernels, place), place)


def parts(configs: list[Config], kernels: tuple[str, ...], place: Place) -> list[Part]:
    """Everything there is to do: where methods start from, then the methods, kernel by kernel."""
    methods = {config.method for config in configs}
    found = []
    for config in configs:
        for method in (METHODS[config.method].starts_from, config.method):
            title = f"{method} (gaussian)"
            if method is not None and METHODS[method].starts_from is None and title not in {part.name for part in found}:
                found.append(_beginning(replace(config, method=method), title, place))
    return found + [_compact(replace(config, kernel=kernel), place, methods) for kernel in kernels for config in configs]


def train(
    config: Config,
    work: Path,
    *,
    data: Path,
    gaussian: Path,
    device: str = "cpu",
    watch: fit.Watch | None = None,
    until: Deadline | None = None,
) -> Trained:
    """Go on from the training with Gaussian kernels, whose checkpoints are in ``gaussian``; those of the new one in ``work``."""
    method, options = METHODS[config.method], {"data": data, "device": device, "watch": watch, "until": until}
    choices, stage = bearings.training_of(config), _stage(config.method)
    filter = training.build(choices, device=device)
    if method.starts_from is not None:
        earlier = train(replace(config, method=method.starts_from), work, gaussian=gaussian, **options)
        training.adopt(filter, earlier.filters[_stage(method.starts_from)])
    else:
        start = bearings.train(replace(config, kernel="gaussian"), gaussian, last=_start(config.method), **options)
        filter.load_state_dict(start.filters[_start(config.method)].state_dict())
        keep_spread(filter, config.kernel)
    found = fit.fit(
        filter,
        training.stages(choices)[stage],
        *bearings.learning_data(config, data, device),
        num_runs=config.runs,
        seed=config.seed,
        path=work / config.method / f"{stage}.safetensors",
        watch=watch,
        until=until,
    )
    return Trained({stage: filter}, {f"{stage}, preparing": found.preparing, stage: found.learning})


@torch.no_grad()
def keep_spread(filter: Filter, kernel: str) -> None:
    """Widen the kernels of positions so that they spread as far as the Gaussian ones did, as standard deviations go.

    Taken over as it is, a standard deviation would become the half-width of a kernel that is less than half as wide.
    """
    wider = KERNELS[kernel](torch.ones(1)).variance().rsqrt().item()
    for module in filter.modules():
        if isinstance(module, LearnedBandwidth):
            bandwidths, positions = module.bandwidths(), list(module.space.linear)
            bandwidths[..., positions] *= wider
            module.log_excess.copy_((bandwidths - module.minimum).log())


def _start(method: str) -> str:
    """The stage with Gaussian kernels that a method goes on from."""
    return "likelihood" if "likelihood" in METHODS[method].stages else "error"


def _stage(method: str) -> str:
    """What a method then learns."""
    return "likelihood" if "likelihood" in METHODS[method].stages else "bandwidth"


def _beginning(config: Config, title: str, place: Place) -> Part:
    stage = _start(config.method)
    path = place.work / config.method / f"{stage}.safetensors"

    def do(until: Deadline) -> None:
        bearings.train(config, place.work, last=stage, device=place.device, watch=place.told(title), until=until)

    # Whether it is of this very configuration turns out when it is read to go on from.
    return Part(title, do, lambda: path.exists() and checkpoint.load(path).notes["finished"])


def _compact(config: Config, place: Place, methods: set[str]) -> Part:
    notes = bearings_study.describe(config)
    where = Filing(bearings_study.EXPERIMENT, config.method, {config.kernel: _stage(config.method)})
    start = METHODS[config.method].starts_from
    needs = (
        f"{config.method} (gaussian)"
        if start is None
        else f"{start} ({config.kernel})"
        if start in methods
        else f"{start} (gaussian)"
    )

    def do(until: Deadline) -> None:
        learn = partial(train, gaussian=place.work)
        bearings_study.study(config, replace(place, own=config.kernel), where=where, learn=learn, until=until)

    return Part(where.title, do, lambda: where.done(place.folder, notes), (needs,))
