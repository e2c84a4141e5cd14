"""The files of the bearings study: what they are called, and which choices they note down."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from mdpf.recipes.bearings import PRESETS, SIZES, Config
from mdpf.recipes.methods import METHODS

EXPERIMENT = "bearings"
# Methods that are trained like the rest but in another setting: what is different, by the name of the setting.
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "bound-0.99": ("MDPF", {"bound": 0.99}),
    "paper": ("MDPF", {"preset": "paper"}),
}


def describe(config: Config) -> dict[str, Any]:
    """Every choice behind a result."""
    return asdict(config) | {"settings": asdict(PRESETS[config.preset]), "sizes": SIZES[config.preset]._asdict()}


def reported(method: str, name: str = "default") -> dict[str, str]:
    """After which stage a method's numbers are reported, by the setting they are filed under."""
    found = METHODS[method].reported
    if name == "default":
        return found
    return {name if setting == "default" else f"{name}-{setting}": stage for setting, stage in found.items()}


def file_name(method: str, setting: str = "default") -> str:
    """The name of a result file."""
    return f"{method}.json" if setting == "default" else f"{method}@{setting}.json"


def weights_file(folder: Path, method: str, setting: str = "default") -> Path:
    """Where the weights of a median run are."""
    return folder / "weights" / Path(file_name(method, setting)).with_suffix(".safetensors").name
