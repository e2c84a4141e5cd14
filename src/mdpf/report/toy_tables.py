"""Tables of the synthetic problem: where its parameters end, how they got there, and which claims of the paper that supports."""

import math
from pathlib import Path
from statistics import mean, median

from mdpf.evaluation.results import Result
from mdpf.report.markdown import load_if_there, markdown, missing, origin, short
from mdpf.report.toy_numbers import (
    PARAMETERS,
    Numbers,
    distances,
    ends,
    gradient_noise,
    named,
    scattered,
    spread,
    updates_to_half_way,
)

TOY = ("exact", "IWSG", "TG", "IRG")
NAMES = {"exact": "mixture Kalman filter", "IWSG": "IWSG-PF", "TG": "TG-PF", "IRG": "IRG-PF"}
# Further apart than so many spreads is elsewhere; faster or noisier by less than this factor is as fast and as noisy.
APART, FACTOR = 2.0, 1.25


def toy(results: Path) -> str:
    """Where every parameter ends: mean and standard deviation over seeds."""
    found = _load(results)
    if isinstance(found, str):
        return found
    truth, start = (named(found["exact"].config[which]) for which in ("truth", "start"))
    rows = []
    for name in PARAMETERS:
        last = [ends(result, name) for result in found.values()]
        # What is scattered is told by its range of seeds, of which a mean means nothing.
        cells = [
            f"{min(values):.2g} to {max(values):.2g}" if scattered(result, name) else f"{mean(values):.3g} ± {spread(values):.2g}"
            for result, values in zip(found.values(), last, strict=True)
        ]
        rows.append([f"`{name}`", f"{truth[name]:.3g}", f"{start[name]:.3g}", *cells])
    note = (
        f"\n\n*Mean and standard deviation over {len(found['exact'].runs)} seeds; their range where they are scattered.* "
        + origin(list(found.values()))
    )
    return markdown(["parameter", "truth", "start", *[NAMES[name] for name in found]], rows) + note


def toy_noise(results: Path) -> str:
    """How every method got there: distances at the end, noise of the gradient, speed, steps that were not finite."""
    found = _load(results)
    if isinstance(found, str):
        return found
    truth = {name: [value] for name, value in named(found["exact"].config["truth"]).items()}
    rows = []
    for method, result in found.items():
        noise, needed = _ratios(found, method, "exact"), updates_to_half_way(result)
        fastest, slowest = (choose(needed, key=lambda name: needed[name]) for choose in (min, max))
        rows.append(
            [
                NAMES[method],
                "" if method == "exact" else _furthest(distances(result, _goals(found))),
                _furthest(distances(result, truth)),
                f"{short(min(noise))} to {short(max(noise))}" if math.isfinite(max(noise)) else "mostly not finite",
                f"{_updates(needed[fastest])} (`{fastest}`) to {_updates(needed[slowest])} (`{slowest}`)",
                f"{sum(run['metrics'].get('skipped', 0) for run in result.runs):.0f}",
            ]
        )
    header = ["method", "from the mixture Kalman filter", "from the truth", "noise of gradients", "updates to half way", "left out"]
    return markdown(header, rows)


def toy_claims(results: Path) -> str:
    """The claims of the paper about this problem, what was measured here, and whether it supports them."""
    found = _load(results)
    if isinstance(found, str):
        return found
    away = {method: distances(found[method], _goals(found)) for method in ("IWSG", "TG", "IRG")}
    offsets = {name: away["TG"][name] for name in ("c1", "c2")}
    lost = sum(distance > APART for distance in away["IRG"].values())
    noise = median(_ratios(found, "IRG", "IWSG"))
    half = {method: updates_to_half_way(found[method]) for method in ("IWSG", "TG")}
    slower = median(_ratio(half["TG"][name], half["IWSG"][name]) for name in half["TG"])
    shown = ", ".join(f"`{name}` {short(value)}" for name, value in offsets.items())
    rows = [
        ["IWSG ends where the mixture Kalman filter ends", f"furthest: {_furthest(away['IWSG'])}", _all(away["IWSG"], near=True)],
        ["TG finds neither `c1` nor `c2`", f"{shown} spreads away", _all(offsets, near=False)],
        ["IRG finds no parameter", f"{lost} of {len(PARAMETERS)} end elsewhere", _all(away["IRG"], near=False)],
        [
            "gradients of IRG are unstable",
            f"{short(noise)} times as noisy as those of IWSG" if math.isfinite(noise) else "most of them are not finite",
            "yes" if noise > FACTOR else "no",
        ],
        [
            "IWSG is faster than TG",
            f"TG needs {short(slower)} times as many updates to half way",
            "yes" if slower > FACTOR else "no",
        ],
    ]
    note = (
        f"*Elsewhere: more than {APART:.0f} spreads from where the mixture Kalman filter ends, or scattered over more than the way "
        "from start to truth. Ratios: the median over parameters.*"
    )
    return markdown(["the paper says", "measured with our values", "holds"], rows) + "\n\n" + note


def _load(results: Path) -> dict[str, Result] | str:
    loaded = {name: load_if_there(results / "toy" / f"{name}.json") for name in TOY}
    absent = [NAMES[name] for name, result in loaded.items() if result is None]
    if absent:
        return missing(f"the synthetic problem with {', '.join(absent)}", "mdpf reproduce toy")
    return {name: result for name, result in loaded.items() if result is not None}


def _goals(found: dict[str, Result]) -> dict[str, list[float]]:
    """Where the mixture Kalman filter ends."""
    return {name: ends(found["exact"], name) for name in PARAMETERS}


def _ratios(found: dict[str, Result], method: str, other: str) -> list[float]:
    """How much noisier the gradients of a method are, one number for each parameter."""
    noise, reference = gradient_noise(found[method]), gradient_noise(found[other])
    return [_ratio(noise[name], reference[name]) for name in noise]


def _ratio(value: float, reference: float) -> float:
    if math.isinf(value) and math.isinf(reference):
        return 1.0
    return value / reference if reference else math.inf


def _furthest(away: Numbers) -> str:
    lost = [name for name in away if math.isinf(away[name])]
    worst = max(away, key=lambda name: away[name])
    if lost:
        return "all scattered" if len(lost) == len(away) else f"{len(lost)} of {len(away)} scattered"
    return f"`{worst}`, {short(away[worst])} spreads"


def _all(away: Numbers, *, near: bool) -> str:
    """Whether all parameters, some of them or none are near."""
    agree = [(distance <= APART) == near for distance in away.values()]
    return "yes" if all(agree) else "in part" if any(agree) else "no"


def _updates(number: float) -> str:
    return f"{number:.0f}" if math.isfinite(number) else "never"
