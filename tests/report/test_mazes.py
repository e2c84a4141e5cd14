"""Pictures of the mazes are drawn from the mazes themselves."""

import numpy as np
from matplotlib.figure import Figure

from mdpf.report import mazes, style
from mdpf.tasks.mazes import geometry


def test_map_shows_every_wall_once():
    axes = Figure().subplots()
    maze = geometry.read(2)
    mazes.draw_map(axes, maze)
    (lines,) = axes.collections
    assert len(lines.get_segments()) == 139
    assert np.concatenate(lines.get_segments()).max(0).tolist() == [1500, 900]


def test_gallery_shows_all_mazes(tmp_path):
    figure = mazes.gallery()
    titles = [axes.get_title() for part in figure.subfigs for axes in part.axes]
    assert [title for title in titles if title.startswith("maze")] == [
        "maze 1: 10 by 5 cells of 100 units",
        "maze 2: 15 by 9 cells of 100 units",
        "maze 3: 20 by 13 cells of 100 units",
    ]
    assert style.save(figure, tmp_path / "mazes.png").stat().st_size > 50_000
