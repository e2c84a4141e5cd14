"""The paper's study of bearings-only tracking, in parts that can be done in several calls, on machines that are lent for a while.

Every method is trained, judged on 5000 sequences of 150 frames with 25 particles, and written to result files with the weights of
its median run; from these weights follow the rows with other numbers of particles. The oracle completes the table. A part is done
when its result file is there: whoever calls again does what is left.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from mdpf.data.atomic import exclusive
from mdpf.evaluation import results
from mdpf.evaluation.evaluate import Filter, evaluate
from mdpf.evaluation.results import Result, provenance
from mdpf.models import take_run
from mdpf.recipes import oracle
from mdpf.recipes.bearings import SIZES, Config, load_run, split, task, train
from mdpf.recipes.bearings_files import EXPERIMENT, SETTINGS, Filing, describe, file_name, filing, weights_file
from mdpf.recipes.methods import METHODS
from mdpf.recipes.parts import Outcome, Part, carry_out
from mdpf.recipes.training import Trained
from mdpf.resamplers import Concrete, OptimalTransport
from mdpf.training import fit, weights
from mdpf.training.deadline import Deadline, OutOfTime

# The longest first, so that none is left over in the end; A-MDPF waits for MDPF.
ORDER = ("MDPF", "LSTM", "OT-PF", "IRG-MDPF", "A-MDPF", "TG-MDPF", "DIS-PF", "SR-PF", "C-PF", "TG-PF")

# In an evaluation; a processor is fastest on what fits its caches.
PARTICLES_AT_A_TIME = {"cpu": 25_000, "cuda": 1_500_000}
# The same for resamplers that relate every particle to every other.
PAIRS_AT_A_TIME = {"cpu": 1_000_000, "cuda": 400_000_000}

Watch = Callable[[str, fit.Epoch], None]


@dataclass(frozen=True)
class Scope:
    """How much there is to a study besides training.

    Args:
        particles: With how many particles the median runs are judged again,
        num_sequences: on how many sequences.
        oracle_particles: How many the filter has that knows the simulator; none leaves it out.
        oracle_fitting: Sequences its kernel is chosen on.
        settings: Which other settings of methods are trained too.
        default: Whether the default setting is trained.
    """

    particles: tuple[int, ...] = (25, 50, 100, 250, 500, 1000, 2500)
    num_sequences: int = 500
    oracle_particles: int = 20_000
    oracle_fitting: int = 200
    settings: tuple[str, ...] = ("bound-0.99",)
    default: bool = True


def study(
    config: Config,
    folder: Path,
    *,
    work: Path,
    device: str = "cpu",
    data: Path | None = None,
    where: Filing | None = None,
    learn: Callable[..., Trained] = train,
    watch: fit.Watch | None = None,
    until: Deadline | None = None,
) -> list[Path]:
    """Train a method, judge every run, and write its result files and weights into ``folder``.

    Args:
        config: What to train.
        folder: Where results and weights are written.
        work: Where checkpoints are kept.
        device: Where to compute.
        data: Where the data are kept; in ``work`` by default.
        where: What results are filed under; as the table of methods has it by default.
        learn: How to train, called as ``bearings.train``.
        watch: Is told about every epoch.
        until: Where this time does not suffice, all is written and ``OutOfTime`` is raised.
    """
    notes, where = describe(config), where or filing(config.method)
    where.done(folder, notes)  # Another configuration is refused before any work is done.
    trained = learn(config, work, data=data, device=device, watch=watch, until=until)
    stages, paths = list(trained.filters), []
    for setting, stage in where.stages.items():
        began = time.monotonic()
        filter = trained.filters[stage]
        found = judge(filter, config, runs=config.runs, device=device)
        runs = [
            {"seed": 1000 * config.seed + run, "metrics": {name: value[run].item() for name, value in found.items()}}
            for run in range(config.runs)
        ]
        earlier = stages[: stages.index(stage) + 1]
        seconds = {name: value for name, value in trained.seconds.items() if name.split(",")[0] in earlier}
        seconds["evaluation"] = time.monotonic() - began
        result = Result(where.experiment, where.method, runs, notes, provenance(seconds, device=device), setting)
        path = weights_file(folder, where.method, setting)
        # With a compact kernel only the likelihood with a floor tells runs apart.
        median = result.median_run("nll" if config.kernel == "gaussian" else "nll_paper")
        # The result comes last: where it is, all is there.
        weights.save(path, take_run(filter, median).cpu(), {"task": "bearings", **asdict(config), "runs": 1})
        paths += [results.save(result, folder), path]
    return paths


def judge(
    filter: Filter,
    config: Config,
    *,
    runs: int | None = None,
    particles: int | None = None,
    num_sequences: int | None = None,
    device: str = "cpu",
) -> dict[str, Tensor]:
    """The metrics on the evaluation split, each ``[R]`` for a filter with a run axis.

    Args:
        filter: A trained filter.
        config: How it was trained.
        runs: How many runs it holds; ``None`` for a filter without a run axis.
        particles: How many to use; as in training by default.
        num_sequences: Judge by the first so many sequences only.
        device: Where to compute.
    """
    problem, particles = task(config), particles or config.particles
    data = split("evaluation", SIZES[config.preset].evaluation, device=device)
    kind, copies = torch.device(device).type, runs or 1
    at_once = PARTICLES_AT_A_TIME[kind] // (particles * copies)
    if isinstance(getattr(filter, "resampler", None), Concrete | OptimalTransport):
        at_once = min(at_once, PAIRS_AT_A_TIME[kind] // (particles**2 * copies))
    found = evaluate(
        filter,
        data if num_sequences is None else data.take(slice(0, num_sequences)),
        prior=problem.prior,
        num_particles=particles,
        runs=runs,
        limit_lost=problem.limit_lost,
        batch=max(1, at_once),
        generator=torch.Generator(device).manual_seed(config.seed),
    )
    return {name: values.cpu() for name, values in found.metrics.items()}


def judge_again(config: Config, folder: Path, particles: int, num_sequences: int, *, device: str = "cpu") -> Path:
    """Judge the median run of a method with another number of particles, from its weights in ``folder``."""
    began = time.monotonic()
    filter = load_run(weights_file(folder, config.method)).to(device)
    found = judge(filter, config, particles=particles, num_sequences=num_sequences, device=device)
    median = results.load(folder / file_name(config.method)).median_run()
    runs = [{"seed": 1000 * config.seed + median, "metrics": {name: value.item() for name, value in found.items()}}]
    notes = describe(config) | {"test_particles": particles, "test_sequences": num_sequences}
    spent = provenance(time.monotonic() - began, device=device)
    return results.save(Result(EXPERIMENT, config.method, runs, notes, spent, f"n-{particles}"), folder)


def parts(configs: list[Config], folder: Path, *, work: Path, device: str, watch: Watch | None, scope: Scope) -> list[Part]:
    """Everything there is to do, what matters most first."""
    methods, found, where = {config.method: config for config in configs}, [], (folder, work, device, watch)
    for config in configs if scope.default else ():
        # Whoever starts from a method that is not asked for trains it along.
        needs = tuple(name for name in (METHODS[config.method].starts_from,) if name in methods)
        found.append(_training(config, *where, needs=needs))
    for name in scope.settings:
        method, changes = SETTINGS[name]
        if method in methods:
            found.append(_training(replace(methods[method], **changes), *where, name=name))
    if scope.oracle_particles:
        found.append(_oracle(configs[0], folder, device, scope))
    for particles in scope.particles:
        # The recurrent network has no particles whose number could change.
        found += [_sweep(config, folder, device, particles, scope) for config in configs if config.method != "LSTM"]
    return found


def run(
    folder: Path,
    *,
    work: Path,
    methods: tuple[str, ...] = ORDER,
    runs: int = 11,
    seed: int = 0,
    preset: str = "fast",
    device: str = "cpu",
    minutes: float | None = None,
    jobs: int | None = None,
    watch: Watch | None = None,
    scope: Scope | None = None,
) -> Outcome:
    """Do what is left of the study, as far as the time suffices, and say what is done and what is left.

    Args:
        folder: Where results and weights are written.
        work: Where checkpoints and data are kept until the study is complete.
        methods: Which ones.
        runs: Independent runs of each, trained at once.
        seed: Of everything random.
        preset: How long to train.
        device: Where to compute.
        minutes: Stop in good order before so many minutes are over.
        jobs: So many parts at once, as threads of this process; by default four on a CUDA device, one elsewhere.
        watch: Is told about every epoch, with the name of its method.
        scope: How much there is to it besides training.
    """
    configs = [Config(method, runs, seed, preset=preset) for method in methods]
    todo = parts(configs, folder, work=work, device=device, watch=watch, scope=scope or Scope())
    return work_off(todo, folder, device=device, minutes=minutes, jobs=jobs)


def work_off(todo: list[Part], folder: Path, *, device: str, minutes: float | None, jobs: int | None) -> Outcome:
    """Do what is left of some parts, as far as the time suffices, and add this call to the note of calls among the results."""
    began, until = time.monotonic(), Deadline() if minutes is None else Deadline(60 * minutes)
    jobs = jobs or (4 if torch.device(device).type == "cuda" else 1)
    outcome = carry_out(todo, jobs=jobs, until=until)
    _note_call(folder / "calls.json", outcome, time.monotonic() - began, device, jobs)
    return outcome


def _training(
    config: Config,
    folder: Path,
    work: Path,
    device: str,
    watch: Watch | None,
    *,
    needs: tuple[str, ...] = (),
    name: str = "default",
) -> Part:
    plain, where = name == "default", filing(config.method, name)
    title = config.method if plain else f"{config.method} ({name})"

    def do(until: Deadline) -> None:
        told, own = None if watch is None else partial(watch, title), work if plain else work / name
        study(config, folder, work=own, data=work / "data", device=device, where=where, watch=told, until=until)

    return Part(title, do, lambda: where.done(folder, describe(config)), needs)


def _oracle(config: Config, folder: Path, device: str, scope: Scope) -> Part:
    options = {
        "particles": scope.oracle_particles,
        "num_sequences": SIZES[config.preset].evaluation,
        "num_fitting": scope.oracle_fitting,
        "seed": config.seed,
    }

    def do(until: Deadline) -> None:
        oracle.study(folder, device=device, **options)

    return Part("Oracle", do, lambda: (folder / "Oracle.json").exists(), seconds=_guess(device, 60))


def _sweep(config: Config, folder: Path, device: str, particles: int, scope: Scope) -> Part:
    notes = describe(config) | {"test_particles": particles, "test_sequences": scope.num_sequences}

    def do(until: Deadline) -> None:
        if not weights_file(folder, config.method).exists():
            raise OutOfTime(f"It needs {config.method}, which `mdpf reproduce bearings` trains.")
        judge_again(config, folder, particles, scope.num_sequences, device=device)

    def done() -> bool:
        return results.load_same(folder / file_name(config.method, f"n-{particles}"), notes) is not None

    slow = config.method in ("C-PF", "OT-PF") and particles >= 1000
    needs = (config.method,) if scope.default else ()
    return Part(f"{config.method} with {particles} particles", do, done, needs, _guess(device, 60 if slow else 10))


def _guess(device: str, seconds: float) -> float:
    """What a part that cannot be interrupted may take on a GPU; elsewhere nobody lends time."""
    return seconds if torch.device(device).type == "cuda" else 0.0


def _note_call(path: Path, outcome: Outcome, seconds: float, device: str, jobs: int) -> None:
    """Add this call to the list of calls that made the results, so that their time together can be told."""
    spent = provenance(seconds, device=device)
    entry: Mapping[str, object] = {**asdict(spent), "parts": outcome.seconds, "jobs": jobs, "left": outcome.left}
    # Several processes may work at one study, each at other methods.
    with exclusive(path):
        calls = list(results.read_json(path)) if path.exists() else []
        results.write_json(path, [*calls, entry])
