"""The files of the bearings study: what they are called, and which choices they note down."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mdpf.evaluation import results
from mdpf.recipes.bearings import PRESETS, SIZES, Config
from mdpf.recipes.methods import METHODS

EXPERIMENT = "bearings"

# Methods that are trained like the rest but in another setting: what is different, by the name of the setting.
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "bound-0.99": ("MDPF", {"bound": 0.99}),
    "paper": ("MDPF", {"preset": "paper"}),
}


# Choices that came later are noted down where somebody made them, so that earlier results stay results of the default.
LATER = {"mirrored": False, "clip": 100.0}


def describe(config: Config) -> dict[str, Any]:
    """Every choice behind a result."""
    chosen = {name: value for name, value in asdict(config).items() if name not in LATER or value != LATER[name]}
    return chosen | {"settings": asdict(PRESETS[config.preset]), "sizes": SIZES[config.preset]._asdict()}


@dataclass(frozen=True)
class Filing:
    """Where the numbers of one training go.

    Args:
        method: The method they are filed under.
        stages: After which stage there are numbers, by the setting they are filed under.
        experiment: The study.
    """

    method: str
    stages: Mapping[str, str]
    experiment: str = EXPERIMENT

    def files(self, folder: Path) -> list[Path]:
        """The result files."""
        return [folder / file_name(self.method, setting) for setting in self.stages]

    def done(self, folder: Path, notes: Mapping[str, Any]) -> bool:
        """Whether all results are there; those of another configuration are refused."""
        return None not in [results.load_same(file, notes) for file in self.files(folder)]


def filing(method: str, name: str = "default") -> Filing:
    """As the table of methods has it, under the name of a setting."""
    found = METHODS[method].reported
    if name == "default":
        return Filing(method, found)
    return Filing(method, {name if setting == "default" else f"{name}-{setting}": stage for setting, stage in found.items()})


def file_name(method: str, setting: str = "default") -> str:
    """The name of a result file."""
    return f"{method}.json" if setting == "default" else f"{method}@{setting}.json"


def weights_file(folder: Path, method: str, setting: str = "default") -> Path:
    """Where the weights of a median run are."""
    return folder / "weights" / Path(file_name(method, setting)).with_suffix(".safetensors").name
