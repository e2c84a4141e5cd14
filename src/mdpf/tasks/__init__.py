"""Tracking problems with their data."""

from collections.abc import Callable

from mdpf.tasks import bearings
from mdpf.tasks.homes import task as homes
from mdpf.tasks.mazes import task as mazes
from mdpf.tasks.task import Split, Task


def _maze(number: int) -> Callable[[], Task]:
    def make() -> Task:
        return mazes.task(number)

    make.__doc__ = f"Localisation in maze {number} from images and bad odometry."
    return make


TASKS: dict[str, Callable[[], Task]] = {
    "bearings": bearings.task,
    **{f"maze-{number}": _maze(number) for number in mazes.geometry.NUMBERS},
    "homes": homes.task,
}
"""The tasks by the word that names them on the command line."""

__all__ = ["TASKS", "Split", "Task", "bearings", "homes", "mazes"]
