"""Data sets made once, named by their recipe, and not trusted blindly.

A recipe is everything a data set depends on: the task, the version of the code that makes it, the sizes, the seed. Its hash names
the file; beside the file lies a note with the recipe and a checksum. Whatever does not agree with them is made again.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

from mdpf.checks import MdpfWarning
from mdpf.data import files
from mdpf.data.atomic import atomic
from mdpf.data.sequences import SequenceBatch
from mdpf.spaces import StateSpace

Recipe = Mapping[str, str | int | float]


def default_folder() -> Path:
    """Where data sets are kept: ``MDPF_CACHE``, or ``mdpf`` in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("MDPF_CACHE") or Path(base) / "mdpf")


def load_or_make(folder: str | Path, recipe: Recipe, space: StateSpace, make: Callable[[], SequenceBatch]) -> SequenceBatch:
    """Return the data set of a recipe: from its file if that is as it was written, else by making and keeping it.

    Args:
        folder: Where the files lie. If it cannot be written, the data set is returned all the same, with a warning.
        recipe: What the data set depends on. Count up its ``version`` whenever the code that makes it changes its outcome.
        space: The coordinates of the states.
        make: Makes the data set.
    """
    path = _path(Path(folder), recipe)
    found = _load(path, recipe)
    if found is not None:
        return found
    batch = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, batch, space)
        note = {"recipe": dict(recipe), "sha256": _checksum(path)}
        # The note comes last: a data file without one counts as unfinished.
        with atomic(_note(path)) as stream:
            stream.write(json.dumps(note, indent=1).encode())
    except OSError as error:
        warnings.warn(f"The data set is not kept and will be made again. {error}", MdpfWarning, stacklevel=2)
    return batch


def _path(folder: Path, recipe: Recipe) -> Path:
    """A name for people (the words of the recipe), and the hash that tells recipes apart."""
    words = "-".join(value for value in recipe.values() if isinstance(value, str))
    digest = hashlib.sha256(json.dumps(dict(recipe), sort_keys=True).encode()).hexdigest()
    return folder / f"{words}-{digest[:12]}.npz"


def _note(path: Path) -> Path:
    return path.with_suffix(".json")


def _checksum(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _load(path: Path, recipe: Recipe) -> SequenceBatch | None:
    try:
        note = json.loads(_note(path).read_text())
        if note != {"recipe": dict(recipe), "sha256": _checksum(path)}:
            raise ValueError("it is not what was written")
        return files.read(path)[0]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, OSError) as error:
        warnings.warn(f"The data set {str(path)!r} is made again: {error}", MdpfWarning, stacklevel=3)
        return None
