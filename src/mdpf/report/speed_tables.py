"""Tables of speed and memory, one for each part of ``mdpf bench``."""

from collections.abc import Callable, Sequence
from pathlib import Path

from mdpf.evaluation.measurements import Measurements, Row, load, path_of
from mdpf.report.markdown import markdown, missing
from mdpf.report.speed_numbers import figure, made_by

DEVICES = {"cpu": "a processor", "cuda": "a GPU"}
# On a processor, which others may use too, its own time; the clock beside it where both are told.
TIME = {"cpu": "ms of processor", "cuda": "ms"}

Make = Callable[[Measurements, str], tuple[list[str], list[list[str]]]]


def _part(part: str, what: str, make: Make) -> Callable[..., str]:
    """A table of one part on the device that the page names."""

    def table(results: Path, device: str = "cpu") -> str:
        path = path_of(results / "bench", part, device)
        if not path.exists():
            return missing(f"{what} on {DEVICES[device]}", f"mdpf bench {part}")
        measured = load(path)
        header, rows = make(measured, device)
        return markdown(header, rows) + "\n\n" + made_by([measured])

    return table


def _cell(measured: Measurements, name: str, unit: str, **params: object) -> str:
    """A value, or why there is none."""
    found = measured.all(name, unit, **params)
    if not found:
        return ""
    return figure(found[0].value) if found[0].value == found[0].value else found[0].note


def _distinct(rows: Sequence[Row], *names: str) -> list[tuple]:
    return list(dict.fromkeys(tuple(row.params[name] for name in names) for row in rows))


def _density(measured: Measurements, device: str) -> tuple[list[str], list[list[str]]]:
    rows = []
    for batch, count, kernel in _distinct(measured.all("density", TIME[device]), "batch", "particles", "kernel"):
        params = {"batch": batch, "particles": count, "kernel": kernel}
        time = measured.value("density", TIME[device], **params)
        rate = "" if time is None else figure(batch * count**2 / (time / 1e3) / 1e9)
        memory = _cell(measured, "density", "MB", **params)
        rows.append([f"B {batch}, N {count:,}, {kernel}", _cell(measured, "density", TIME[device], **params), rate, memory])
    return ["density, forward and backward", TIME[device], "billion pairs/s", "MB"], rows


def _training(measured: Measurements, device: str) -> tuple[list[str], list[list[str]]]:
    rows = []
    for runs, execution, threads in _distinct(measured.all("training step", "ms"), "runs", "execution", "threads"):
        params = {"runs": runs, "execution": execution, "threads": threads}
        time = measured.value("training step", TIME[device], **params)
        label = f"{runs} run{'s' * (runs > 1)}, {execution}" + (f", {threads} threads" if device == "cpu" and threads > 1 else "")
        cells = [_cell(measured, "training step", "ms", **params)]
        cells += [_cell(measured, "training step", TIME["cpu"], **params)] if device == "cpu" else []
        rows.append([label, *cells, "" if time is None else figure(time / runs), _cell(measured, "training step", "MB", **params)])
    times = ["ms", "ms of processor"] if device == "cpu" else ["ms"]
    return ["training step", *times, "for each run", "MB"], rows


def _methods(measured: Measurements, device: str) -> tuple[list[str], list[list[str]]]:
    executions = [execution for (execution,) in _distinct(measured.all("training step", "ms"), "execution")]
    rows = []
    for method, runs in _distinct(measured.all("training step", "ms"), "method", "runs"):
        params = {"method": method, "runs": runs}
        times = [_cell(measured, "training step", TIME[device], **params, execution=each) for each in executions]
        rows.append([f"{method}, {runs} run{'s' * (runs > 1)}", *times, _cell(measured, "training step", "MB", **params)])
    return ["training step", *[f"{each}, ms" for each in executions], "MB"], rows


def _latency(measured: Measurements, device: str) -> tuple[list[str], list[list[str]]]:
    rows = []
    for count, execution in _distinct(measured.all("latency", "ms"), "particles", "execution"):
        params = {"particles": count, "execution": execution}
        late = _cell(measured, "latency, 99th percentile", "ms", **params)
        cells = [_cell(measured, "latency", "ms", **params), late]
        cells += [_cell(measured, "latency", TIME["cpu"], **params)] if device == "cpu" else []
        rows.append([f"N {count:,}, {execution}", *cells, _cell(measured, "seconds to prepare", "s", **params)])
    times = ["median, ms", "99th percentile, ms", *(["ms of processor"] if device == "cpu" else [])]
    return ["one step of one sequence", *times, "prepared in, s"], rows


def _resampling(measured: Measurements, device: str) -> tuple[list[str], list[list[str]]]:
    rows = []
    for count, cloud in _distinct(measured.all("resampling", "ms"), "particles", "cloud"):
        params = {"particles": count, "cloud": cloud}
        rows.append(
            [f"N {count:,}, {cloud} cloud", *(_cell(measured, "resampling", unit, **params) for unit in (TIME[device], "MB"))]
        )
    return ["resampling step", TIME[device], "MB"], rows


def _growth(measured: Measurements, device: str) -> tuple[list[str], list[list[str]]]:
    rows = []
    for step in ("inference step", "training step"):
        for (count,) in _distinct(measured.all(step, TIME[device], execution="eager"), "particles"):
            params = {"particles": count}
            cells = [measured.value(step, unit, **params, execution="eager") for unit in (TIME[device], "MB")]
            each = ["" if cell is None else figure(1e3 * cell / count) for cell in cells]
            rows.append([f"{step}, N {count:,}", *("" if cell is None else figure(cell) for cell in cells), *each])
    return ["MDPF, batch of 24", TIME[device], "MB", "us for each particle", "kB for each particle"], rows


def _cold(measured: Measurements, device: str) -> tuple[list[str], list[list[str]]]:
    rows = [
        [f"{row.params['cache']} cache, until {row.params['until']}", figure(row.value) if row.value == row.value else row.note]
        for row in measured.rows
    ]
    return ["from nothing", "s"], rows


density = _part("density", "the pairwise density", _density)
training = _part("training", "training steps", _training)
methods = _part("methods", "the training step of every method", _methods)
latency = _part("latency", "the latency of a step", _latency)
resampling = _part("resampling", "a resampling step", _resampling)
growth = _part("growth", "how time and memory grow", _growth)
cold_start = _part("cold-start", "the first update", _cold)
