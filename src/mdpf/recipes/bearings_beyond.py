"""Past the paper: MDPF with larger choices, trained on the same data, and what each of them contributes.

``MDPF+`` differs from MDPF in a handful of choices, each of which can be taken back: the ablations are this configuration with one
choice as in the paper. ``A-MDPF+`` goes on from it as A-MDPF does from MDPF.
"""

from dataclasses import replace
from typing import Any

from mdpf.recipes import bearings_study
from mdpf.recipes.bearings import BACKGROUND, BACKGROUNDS, WIDTHS, Config
from mdpf.recipes.filing import Filing, filing
from mdpf.recipes.methods import METHODS
from mdpf.recipes.parts import Outcome, Part
from mdpf.recipes.studies import Place, work_off
from mdpf.training.deadline import Deadline

EXPERIMENT = "bearings-beyond"

# What is different from the study of the paper.
CHOICES: dict[str, Any] = {
    "particles": 100,
    "preset": "long",
    "truncate": None,
    "hidden_dim": 64,
    "located": True,
    "resampler": "stratified",
    "mirrored": True,
    "clip": 10.0,
}

# One choice at a time, taken back or exchanged: what is different from ``MDPF+``.
ABLATIONS: dict[str, dict[str, Any]] = {
    "narrow": {"hidden_dim": 8},
    "unlocated": {"located": False},
    "short-gradients": {"truncate": 4},
    "25-particles": {"particles": 25},
    "multinomial": {"resampler": "own"},
    "pathwise": {"resampler": "stratified-pathwise"},
    "one-sided": {"mirrored": False},
    "no-background": {"background": 0.0},
}

PLUS = {"MDPF+": "MDPF", "A-MDPF+": "A-MDPF"}


def named(method: str, runs: int = 1, seed: int = 0, **changes: Any) -> tuple[Config, Filing]:  # noqa: ANN401
    """What a name means: a method of the paper, or one of ``PLUS``; with changes, and under which name its results go."""
    if method in PLUS:
        return Config(PLUS[method], runs, seed, **(CHOICES | changes)), filed(method)
    preset = changes.get("preset", Config.preset)
    usual: dict[str, Any] = {"hidden_dim": WIDTHS.get(preset, Config.hidden_dim), "background": BACKGROUNDS.get(preset, BACKGROUND)}
    return Config(method, runs, seed, **(usual | changes)), filing(bearings_study.EXPERIMENT, method)


def run(
    place: Place,
    *,
    runs: int = 11,
    ablation_runs: int = 3,
    seed: int = 0,
    preset: str | None = None,
    ablations: tuple[str, ...] = tuple(ABLATIONS),
) -> Outcome:
    """Do what is left: both methods, then the ablations; see ``bearings_study.run``."""
    changes = {} if preset is None else {"preset": preset}
    plain = [named(method, runs, seed, **changes)[0] for method in PLUS]
    todo = [part(config, place, filed(f"{config.method}+")) for config in plain]
    for name in ablations:
        config = replace(plain[0], runs=min(runs, ablation_runs), **ABLATIONS[name])
        todo.append(part(config, place, filed("MDPF+", name), name))
    return work_off(todo, place)


def part(config: Config, place: Place, where: Filing, name: str = "default") -> Part:
    """One training."""

    def do(until: Deadline) -> None:
        bearings_study.study(config, replace(place, own=name), where=where, until=until)

    start, notes = METHODS[config.method].starts_from, bearings_study.describe(config)
    return Part(where.title, do, lambda: where.done(place.folder, notes), () if start is None else (f"{start}+",))


def filed(method: str, name: str = "default") -> Filing:
    """What results are filed under."""
    return replace(filing(EXPERIMENT, PLUS[method], name), method=method)
