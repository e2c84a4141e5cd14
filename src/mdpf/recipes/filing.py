"""Where the numbers and weights of trainings go, and how weights become a filter again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar

from mdpf.evaluation import results
from mdpf.evaluation.evaluate import Filter
from mdpf.evaluation.results import file_name
from mdpf.recipes.methods import METHODS, Networks
from mdpf.training import weights

Config = TypeVar("Config")


@dataclass(frozen=True)
class Filing:
    """Where the numbers of one training go.

    Args:
        experiment: The study.
        method: The method they are filed under.
        stages: After which stage there are numbers, by the setting they are filed under.
    """

    experiment: str
    method: str
    stages: Mapping[str, str]

    @property
    def title(self) -> str:
        """What to call the training: its method, and its first setting."""
        setting = next(iter(self.stages))
        return self.method if setting == "default" else f"{self.method} ({setting})"

    def done(self, folder: Path, notes: Mapping[str, Any]) -> bool:
        """Whether all results are there; those of another configuration are refused."""
        files = [folder / file_name(self.method, setting) for setting in self.stages]
        return None not in [results.load_same(file, notes) for file in files]


def filing(experiment: str, method: str, name: str = "default") -> Filing:
    """As the table of methods has it, under the name of a setting."""
    reported = METHODS[method].reported
    if name == "default":
        return Filing(experiment, method, reported)
    named = {name if setting == "default" else f"{name}-{setting}": stage for setting, stage in reported.items()}
    return Filing(experiment, method, named)


def weights_file(folder: Path, method: str, setting: str = "default") -> Path:
    """Where the weights of a median run are."""
    return folder / "weights" / Path(file_name(method, setting)).with_suffix(".safetensors").name


def load_run(
    path: Path, kind: Callable[..., Config], networks: Callable[[Config], Networks], *, task: str, study: str
) -> tuple[Filter, Config]:
    """The filter of a weights file that a study wrote, and how it was trained.

    Args:
        path: The file.
        kind: The dataclass of the study's configurations.
        networks: What its filters are made of.
        task: The name the file has for what was trained on.
        study: The name of the study.
    """
    saved = weights.load(path)
    method = saved.config.get("method")
    if saved.config.get("task") != task or method not in METHODS:
        raise ValueError(
            f"Loading a run needs weights of the {study} study, got {str(path)!r} of {saved.config}. "
            f"Name a file that `mdpf reproduce {study}` wrote, in the folder weights."
        )
    known = {name: saved.config[name] for name in signature(kind).parameters if name in saved.config}
    config = kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in known.items()})
    filter = METHODS[method].build(networks(config))
    weights.fill(filter, saved)
    return filter.eval(), config
