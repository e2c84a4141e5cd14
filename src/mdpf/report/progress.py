"""Progress on the terminal: what is being trained, how good it is, how long it will take."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from torch import Tensor

from mdpf.training.fit import Epoch


@contextmanager
def epochs(console: Console, *, every: int = 10) -> Iterator[Callable[[Epoch], None]]:
    """Show a bar for every stage that reports its epochs; gives the function to report them to.

    Where nobody watches (a log file), a line for one epoch in ``every`` takes the place of the bars.
    """
    if not console.is_terminal:
        yield partial(_print_epoch, console, every)
        return
    columns = (
        TextColumn("{task.description:22}"),
        BarColumn(bar_width=30),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("loss {task.fields[train]:.3f}  validation {task.fields[validation]:.3f}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bars:
        known: dict[str, TaskID] = {}

        def watch(epoch: Epoch) -> None:
            numbers: dict[str, Any] = {"train": median(epoch.train), "validation": median(epoch.validation)}
            # A stage may come twice, for two methods; its bar then starts anew.
            if epoch.stage not in known or epoch.number == 1:
                known[epoch.stage] = bars.add_task(epoch.stage, total=epoch.epochs, **numbers)
            bars.update(known[epoch.stage], completed=epoch.number, **numbers)

        yield watch


@contextmanager
def trainings(console: Console, *, every: int = 10) -> Iterator[Callable[[str, Epoch], None]]:
    """As ``epochs`` for several methods at once; gives the function to report name and epoch to."""
    with epochs(console, every=every) as watch:
        yield lambda name, epoch: watch(epoch._replace(stage=f"{name} {epoch.stage}"))


def _print_epoch(console: Console, every: int, epoch: Epoch) -> None:
    if epoch.number % every and epoch.number not in (1, epoch.epochs):
        return
    console.print(
        f"{epoch.stage} {epoch.number}/{epoch.epochs}: loss {median(epoch.train):.3f}, "
        f"validation {median(epoch.validation):.3f}, skipped {sum(epoch.skipped):.0f}, {epoch.seconds:.2f} s",
        highlight=False,
        soft_wrap=True,
    )


@contextmanager
def updates(console: Console, names: Sequence[str], total: int) -> Iterator[Callable[[str, int, Tensor], None]]:
    """Show a bar for each of several trainings; gives the function to report updates and losses ``[R]`` to."""
    columns = (
        TextColumn("{task.description:8}"),
        BarColumn(bar_width=30),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bars:
        tasks = {name: bars.add_task(name, total=total, loss=float("nan"), start=False, visible=False) for name in names}

        def watch(name: str, update: int, loss: Tensor) -> None:
            bars.start_task(tasks[name])
            bars.update(tasks[name], completed=update, loss=float(loss.median()), visible=True)

        yield watch
