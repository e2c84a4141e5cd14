"""Progress where somebody watches, and where nobody does."""

import io

import pytest
from rich.console import Console

from mdpf.report import progress
from mdpf.training.fit import Epoch


def epoch(number, stage="likelihood"):
    three, two = [2.0, 1.0, 3.0], [0.0, 1.0]
    return Epoch(stage, number, 25, train=three, validation=[4.0], norm=three, skipped=two, active=two, seconds=0.5, degenerate=[])


@pytest.mark.parametrize(("show", "names"), [(progress.epochs, ()), (progress.trainings, ("MDPF",))])
def test_a_log_file_gets_lines_while_it_is_trained(show, names):
    file = io.StringIO()
    with show(Console(file=file, width=20)) as watch:
        for number in range(1, 26):
            watch(*names, epoch(number))
            assert file.getvalue()  # From the first epoch on, not at the end alone.
    lines = file.getvalue().splitlines()
    who = " ".join((*names, "likelihood"))
    assert [line.split(":")[0] for line in lines] == [f"{who} {number}/25" for number in (1, 10, 20, 25)]
    assert lines[0] == f"{who} 1/25: loss 2.000, validation 4.000, skipped 1, 0.50 s"


def test_a_terminal_gets_a_bar_for_every_stage():
    file = io.StringIO()
    with progress.trainings(Console(file=file, width=120, force_terminal=True, color_system=None)) as watch:
        watch("MDPF", epoch(1))
        watch("MDPF", epoch(25, "refinement"))
    assert "MDPF likelihood" in file.getvalue()
    assert "25/25" in file.getvalue()
