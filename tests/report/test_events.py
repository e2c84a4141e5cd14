"""What was told about epochs can be read back by TensorBoard."""

import subprocess
import sys

import pytest

from mdpf.report import events
from mdpf.training.fit import Epoch


def epoch(number, train=(3.0, 4.0)):
    return Epoch("likelihood", number, 5, list(train), [value + 1 for value in train], [0.5, 0.25], [0.0, 1.0], [1.0, 1.0], 0.1, [])


def read(folder):
    """Curves by tag as pairs of step and value, read by TensorBoard itself."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = accumulator.EventAccumulator(str(folder)).Reload()
    return {tag: [(event.step, event.value) for event in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


@pytest.mark.skipif(not events.available(), reason="needs TensorBoard")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_epoch_of_every_run_is_written_and_told(tmp_path):
    told = []
    with events.events(tmp_path, lambda name, entry: told.append((name, entry.number))) as watch:
        watch("MDPF", epoch(1))
    # An interrupted training goes on in files of its own.
    with events.events(tmp_path, lambda name, entry: told.append((name, entry.number))) as watch:
        watch("MDPF", epoch(2, train=(1.0, 2.0)))
        watch("TG-PF", epoch(1))
    assert told == [("MDPF", 1), ("MDPF", 2), ("TG-PF", 1)]
    assert read(tmp_path / "MDPF" / "run-1") == {
        "likelihood/loss": [(1, 4.0), (2, 2.0)],
        "likelihood/validation": [(1, 5.0), (2, 3.0)],
        "likelihood/gradient norm": [(1, 0.25), (2, 0.25)],
        "likelihood/skipped steps": [(1, 1.0), (2, 1.0)],
    }
    assert len(list((tmp_path / "MDPF" / "run-0").iterdir())) == 2
    assert read(tmp_path / "TG-PF" / "run-0")["likelihood/loss"] == [(1, 3.0)]


def test_without_tensorboard_epochs_are_told_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(events, "available", lambda: False)
    told = []
    with events.events(tmp_path, lambda name, entry: told.append(name)) as watch:
        watch("MDPF", epoch(1))
    assert told == ["MDPF"]
    assert list(tmp_path.iterdir()) == []


def test_tensorboard_is_not_imported_before_it_is_needed():
    program = "import sys, mdpf.report.events, mdpf.cli; sys.exit('tensorboard' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
