"""Progress on the terminal: what is being trained, how good it is, how long it will take."""

from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from mdpf.training.fit import Epoch


@contextmanager
def epochs(console: Console) -> Iterator:
    """Show a bar for every stage that reports its epochs; gives the function to report them to."""
    columns = (
        TextColumn("{task.description:14}"),
        BarColumn(bar_width=30),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("loss {task.fields[train]:.3f}  validation {task.fields[validation]:.3f}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bars:
        known: dict[str, int] = {}

        def watch(epoch: Epoch) -> None:
            numbers = {"train": median(epoch.train), "validation": median(epoch.validation)}
            # A stage may come twice, for two methods; its bar then starts anew.
            if epoch.stage not in known or epoch.number == 1:
                known[epoch.stage] = bars.add_task(epoch.stage, total=epoch.epochs, **numbers)
            bars.update(known[epoch.stage], completed=epoch.number, **numbers)

        yield watch
