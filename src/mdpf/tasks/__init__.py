"""Tracking problems with their data."""

from collections.abc import Callable

from mdpf.tasks import bearings
from mdpf.tasks.task import Split, Task

TASKS: dict[str, Callable[[], Task]] = {"bearings": bearings.task}
"""The tasks by the word that names them on the command line."""

__all__ = ["TASKS", "Split", "Task", "bearings"]
