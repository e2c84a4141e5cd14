"""Training curves for TensorBoard: one folder for each method and run, so that runs lie over each other in one chart."""

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mdpf.training.fit import Epoch

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

Watch = Callable[[str, Epoch], None]


def available() -> bool:
    """Whether TensorBoard's files can be written: it comes with ``pip install mdpf[tensorboard]``."""
    return importlib.util.find_spec("tensorboard") is not None


@contextmanager
def events(folder: Path, watch: Watch) -> Iterator[Watch]:
    """Write every epoch into event files in ``folder`` before it is told to ``watch``; gives the function to report epochs to.

    A training that goes on after an interruption adds files to those that are there; TensorBoard joins them. Where TensorBoard is
    not installed nothing is written.
    """
    if not available():
        yield watch
        return
    # Slow to import, and wanted by few.
    from torch.utils.tensorboard import SummaryWriter

    with ExitStack() as opened:
        writers: dict[tuple[str, int], SummaryWriter] = {}

        def write(name: str, epoch: Epoch) -> None:
            for run in range(len(epoch.train)):
                if (name, run) not in writers:
                    writers[name, run] = opened.enter_context(SummaryWriter(str(folder / name / f"run-{run}")))
                _add(writers[name, run], epoch, run)
            watch(name, epoch)

        yield write


def _add(writer: "SummaryWriter", epoch: Epoch, run: int) -> None:
    curves = {"loss": epoch.train, "validation": epoch.validation, "gradient norm": epoch.norm, "skipped steps": epoch.skipped}
    for curve, values in curves.items():
        writer.add_scalar(f"{epoch.stage}/{curve}", values[run], epoch.number)
    writer.flush()
