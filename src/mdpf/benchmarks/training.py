"""One update of a training on bearings-only tracking: batches of 64, 25 particles, 17 frames, several runs at once."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import torch

from mdpf.benchmarks.measure import peak_memory, repeat, synchronize
from mdpf.benchmarks.sheet import Case, memory_row, time_rows
from mdpf.evaluation.measurements import Row
from mdpf.recipes import bearings
from mdpf.recipes.methods import METHODS
from mdpf.recipes.training import build, stages
from mdpf.recording import capture, own_stream
from mdpf.tasks.bearings import task
from mdpf.training import adam
from mdpf.training.flat import FlatParameters
from mdpf.training.stages import Stage
from mdpf.training.step import Execution, Update
from mdpf.training.threads import threads

RUNS = {"cuda": (1, 11, 55), "cpu": (1, 11)}
RUNS_OF_METHODS = {"cuda": 11, "cpu": 1}
SEQUENCES = 256


class Prepared(NamedTuple):
    """An update that can be called, and the generator it draws from."""

    update: Callable[[], None]
    generator: torch.Generator


def stage_of(config: bearings.Config) -> Stage:
    """The stage in which a method learns everything at once."""
    return stages(bearings.training_of(config))[next(name for name in METHODS[config.method].stages if name != "measurement")]


def prepare(config: bearings.Config, device: torch.device, execution: Execution, batch: int = 64) -> Prepared:
    """An update of a method on the training data, all of whose sequences count."""
    filter = build(bearings.training_of(config), device=device)
    flat, stage = FlatParameters(filter, config.runs), replace(stage_of(config), batch=batch)
    generator = torch.Generator(device).manual_seed(0)
    data = task().split("train", num_sequences=SEQUENCES).to(device)
    update = Update(filter, flat, stage, data, adam.start(flat.values), flat.columns(stage.rates), generator, execution)
    update.start(torch.ones(config.runs, dtype=torch.bool, device=device))
    indices = torch.randint(SEQUENCES, (config.runs, batch), generator=generator, device=device)
    counted = torch.ones(indices.shape[1], dtype=torch.bool, device=device)
    factor = torch.ones(config.runs, device=device)
    return Prepared(lambda: update(indices, counted, factor), generator)


def runs_cases(device: torch.device) -> Iterator[Case]:
    """MDPF with more and more runs, eager, compiled and captured."""
    for runs in RUNS[device.type]:
        config = bearings.Config("MDPF", runs)
        for count in (1, 2) if device.type == "cpu" and runs == 1 else (1,):
            yield Case(f"R {runs}, eager, {count} threads", _eager(config, device, count))
        if device.type == "cuda" or runs == 1:
            yield Case(f"R {runs}, compiled", _compiled(config, device))


def method_cases(device: torch.device) -> Iterator[Case]:
    """Every method, with as many runs as a study has."""
    for method in METHODS:
        config = bearings.Config(method, RUNS_OF_METHODS[device.type])
        yield Case(f"{method}, eager", _eager(config, device, 1))
        if device.type == "cuda":
            yield Case(f"{method}, compiled", _compiled(config, device))


def _params(config: bearings.Config, execution: str, num_threads: int = 1) -> dict[str, object]:
    return {"method": config.method, "runs": config.runs, "execution": execution, "threads": num_threads}


def _eager(config: bearings.Config, device: torch.device, num_threads: int) -> Callable[[], list[Row]]:
    def measure() -> list[Row]:
        params = _params(config, "eager", num_threads)
        with threads(num_threads), own_stream(device):
            update = prepare(config, device, "eager").update
            sample = repeat(update, device, most=20, warm_ups=1 if device.type == "cuda" else 2)
            memory = memory_row("training step", device, params, peak_memory(update, device))
        return [*time_rows("training step", device, params, sample), memory]

    return measure


def _compiled(config: bearings.Config, device: torch.device) -> Callable[[], list[Row]]:
    """Compile once; on a CUDA device the compiled update is then captured."""

    def measure() -> list[Row]:
        torch._dynamo.reset()
        params = _params(config, "compiled")
        with own_stream(device):
            began = time.perf_counter()
            prepared = prepare(config, device, "compiled")
            prepared.update()
            synchronize(device)
            compiled = time.perf_counter() - began
            rows = [Row("seconds to compile", device.type, params, compiled, "s", [], _cache_hits())]
            rows += time_rows("training step", device, params, repeat(prepared.update, device, most=20, seconds=1.0))
            if device.type == "cuda":
                params = _params(config, "captured")
                began = time.perf_counter()
                replay = capture(prepared.update, prepared.generator)
                synchronize(device)
                rows.append(Row("seconds to capture", device.type, params, time.perf_counter() - began, "s", []))
                rows += time_rows("training step", device, params, repeat(replay, device, most=200, seconds=1.0))
        return rows

    return measure


def _cache_hits() -> str:
    counters = torch._dynamo.utils.counters["inductor"]
    return f"{counters['fxgraph_cache_miss']} graphs compiled, {counters['fxgraph_cache_hit']} from the cache, in this process"


def cold_cases(device: torch.device) -> Iterator[Case]:
    """From nothing to the first update, in a new process: with an empty cache of the compiler, and with the one it leaves."""
    execution = "captured" if device.type == "cuda" else "compiled"

    def measure() -> list[Row]:
        rows = []
        with tempfile.TemporaryDirectory() as folder:
            for cache in ("empty", "warm"):
                for name, seconds in _in_new_process(execution, device, folder).items():
                    params = {"method": "MDPF", "runs": 1, "execution": execution, "cache": cache, "until": name}
                    rows.append(Row("cold start", device.type, params, seconds, "s", []))
        return rows

    yield Case(execution, measure)


def _in_new_process(execution: Execution, device: torch.device, cache: str) -> dict[str, float]:
    command = [sys.executable, "-m", "mdpf.benchmarks.training", execution, str(device)]
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, "TRITON_CACHE_DIR": f"{cache}/triton"}
    environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise RuntimeError(f"the new process failed: {answer.stderr.strip().splitlines()[-1:]}")
    return json.loads(answer.stdout.strip().splitlines()[-1])


def _first_update(execution: Execution, device: torch.device, began: float) -> dict[str, float]:
    """Seconds since ``began`` until everything is imported, and until the first update is done."""
    imported = time.time() - began
    with own_stream(device):
        prepare(bearings.Config("MDPF"), device, execution).update()
        synchronize(device)
    return {"imported": imported, "first update": time.time() - began}


def _process_start() -> float:
    """When this process started, by the clock of the epoch; when this module was asked where the system does not tell."""
    try:
        with open("/proc/self/stat") as stat, open("/proc/uptime") as uptime:
            ticks = int(stat.read().rsplit(")", 1)[1].split()[19])
            return time.time() - (float(uptime.read().split()[0]) - ticks / os.sysconf("SC_CLK_TCK"))
    except OSError:
        return time.time()


if __name__ == "__main__":
    print(json.dumps(_first_update(sys.argv[1], torch.device(sys.argv[2]), _process_start())))  # type: ignore[arg-type]
