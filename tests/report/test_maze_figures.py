"""The figures of the maze study are functions of its files."""

import pytest
import torch

from mdpf.evaluation import beliefs, results
from mdpf.evaluation.results import Result
from mdpf.recipes import maze_panels, mazes
from mdpf.recipes.methods import METHODS
from mdpf.report import maze_figures, maze_tables
from mdpf.tasks.mazes import geometry


def save(folder, method, setting, rows):
    spent = results.provenance(1.0)
    results.save(Result("maze", method, [{"seed": 0, "metrics": row} for row in rows], {}, spent, setting), folder)


def row(nll, position, heading):
    return {"nll_paper": nll, "position_rmse": position, "angle_rmse": heading}


@pytest.fixture
def folder(tmp_path):
    for number in (1, 3):
        save(tmp_path, "A-MDPF", f"maze-{number}", [row(5.0, 3.0, 0.5), row(7.0, 4.0, 0.6), row(9.0, 2.0, 0.7)])
        save(tmp_path, "A-MDPF", f"maze-{number}-mse", [row(6.0, 2.0, 0.5)])
        save(tmp_path, "TG-PF", f"maze-{number}-scratch", [row(float("inf"), 9.0, 1.7)])
        save(tmp_path, "dead-reckoning", f"maze-{number}", [{"position_rmse": 4.0, "angle_rmse": 1.2}])
        for count, share in ((250, 0.2), (1000, 0.6)):
            save(tmp_path, "A-MDPF", f"maze-{number}-anywhere-{count}", [{"found": share, "frames": 12.0}])
    return tmp_path


def test_boxes_have_a_row_for_each_maze_and_a_line_for_dead_reckoning(folder):
    figure = maze_figures.boxes(folder)
    assert [axes.get_ylabel() for axes in figure.axes[::3]] == ["maze 1", "maze 3"]
    heading = figure.axes[2]
    vertical = [line for line in heading.get_lines() if line.get_linestyle() == ":"]
    assert [line.get_xdata()[0] for line in vertical] == [1.2]
    # The authors' medians of ten methods, one of which is beyond the axis and stands at its end.
    diamonds = [line.get_xdata()[0] for line in figure.axes[0].get_lines() if line.get_marker() == "D"]
    assert len(diamonds) == 10
    assert max(diamonds) == 14.0


def test_summary_compares_with_dead_reckoning(folder):
    rows = maze_figures.summary(folder, 1)
    assert rows["A-MDPF"]["nll_paper"] == 7.0
    assert rows["A-MDPF"]["position_ratio"] == 0.75
    assert rows["TG-PF-scratch"]["angle_rmse"] == 1.7


def test_everything_that_is_there_is_drawn(folder, tmp_path):
    files = maze_figures.draw_study(folder)
    assert [path.name for path in files] == ["boxes.png", "anywhere.png"]
    with pytest.raises(FileNotFoundError, match="needs result files, got none in"):
        maze_figures.draw_study(tmp_path / "empty")


def test_panels_show_walls_and_images(tmp_path):
    config = mazes.Config("MDPF", maze=1, particles=5)
    torch.manual_seed(0)
    filter = METHODS["MDPF"].build(mazes.networks(config)).eval()
    walk = mazes.mazes.task(1).split("evaluation", num_sequences=1, length=6)
    found = maze_panels.believe(filter, config, walk)
    assert len(found.scene["walls"]) == len(geometry.read(1).walls)
    assert found.scene["extent"] == pytest.approx([-10.3, 10.3 + 20 / 3, -5.3, 5.3])
    (tmp_path / "panels").mkdir()
    beliefs.write(tmp_path / "panels" / "MDPF@maze-1.npz", found)
    figure = maze_figures.panels(tmp_path / "panels" / "MDPF@maze-1.npz", frames=(1, 5))
    assert [axes.get_title() for axes in figure.axes if axes.get_title()] == ["frame 1", "frame 5"]
    beliefs.write(tmp_path / "panels" / "anywhere@maze-1.npz", found)
    (tmp_path / "panels" / "MDPF@maze-1.npz").unlink()
    (film,) = maze_figures.draw_panels(tmp_path)
    assert film.suffix == ".gif"
    assert film.stat().st_size > 1000


def test_tables_say_what_the_files_say(folder, tmp_path):
    results_folder = tmp_path / "results"
    (results_folder / "maze").mkdir(parents=True)
    for path in folder.glob("*.json"):
        path.rename(results_folder / "maze" / path.name)
    save(results_folder / "maze", "MDPF", "maze-1", [row(7.5, 3.0, 0.9)])
    save(results_folder / "maze", "TG-PF", "maze-1", [row(8.0, 5.0, 1.5)])
    save(results_folder / "maze", "TG-PF", "maze-1-shuffled", [row(9.0, 5.5, 1.6)])
    text = maze_tables.maze(results_folder)
    # Likelihood before refinement, errors after it, beside the authors'.
    assert "| A-MDPF, maze 1 | 3 | 7.00 [5.85] | 2.00 [3.26] | 0.50 [0.94] | 0.50 |  |" in text
    assert "| TG-PF, maze 1 | 1 | 8.00 [9.19] | 5.00 [4.67] | 1.50 [1.72] | 1.25 | inf |" in text
    assert "| dead reckoning, maze 1 |  |  | 4.00 | 1.20 | 1 |  |" in text
    assert "| TG-PF | 5.00 → 5.50 | 1.50 → 1.60 |  |  |  |  |" in maze_tables.blind(results_folder)
    claims = maze_tables.claims(results_folder)
    assert "maze 1: MDPF and A-MDPF ahead of every discrete filter and TG-MDPF in NLL | yes | MDPF 7.50, A-MDPF 7.00" in claims
    assert "A-MDPF's heading error below 0.9 rad | yes | 0.50 rad; authors 0.94" in claims
    assert "| A-MDPF, maze 3 | 20%, after 12 | 60%, after 12 |" in maze_tables.anywhere(results_folder)


def test_tables_without_files_name_the_command(tmp_path):
    for table in (maze_tables.maze, maze_tables.blind, maze_tables.claims, maze_tables.anywhere):
        assert "`mdpf reproduce maze` computes it" in table(tmp_path)
