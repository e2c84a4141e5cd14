"""The mazes are those that were published: walls, pictures, connections, and where there is room."""

import numpy as np
import pytest
import torch

from mdpf.tasks.mazes import geometry, walks

MAZES = [geometry.read(number) for number in geometry.NUMBERS]


@pytest.mark.parametrize(
    ("number", "shape", "faces", "walls", "pictures"),
    [(1, (10, 5), 96, 63, 14), (2, (15, 9), 230, 139, 35), (3, (20, 13), 422, 244, 61)],
)
def test_counts_are_those_of_the_published_levels(number, shape, faces, walls, pictures):
    maze = geometry.read(number)
    assert (maze.shape, len(maze.faces), len(maze.walls), len(maze.pictures)) == (shape, faces, walls, pictures)


@pytest.mark.parametrize("maze", MAZES)
def test_walls_are_seen_from_both_sides_and_close_the_maze(maze):
    nx, ny = maze.shape
    for i, j, side in np.argwhere(maze.walled):
        x, y = i + geometry.NEIGHBOUR[side][0], j + geometry.NEIGHBOUR[side][1]
        if 0 <= x < nx and 0 <= y < ny:
            assert maze.walled[x, y, geometry.OPPOSITE[side]]
    assert maze.walled[0, :, 0].all()
    assert maze.walled[-1, :, 1].all()
    assert maze.walled[:, 0, 2].all()
    assert maze.walled[:, -1, 3].all()


@pytest.mark.parametrize("maze", MAZES)
def test_every_cell_can_be_reached_from_every_other(maze):
    ways = walks.next_cells(maze)
    cells = np.arange(len(ways))
    here = np.tile(cells[:, None], (1, len(cells)))
    for _ in range(len(cells)):
        here = ways[here, cells]
    assert (here == cells).all()


@pytest.mark.parametrize("maze", MAZES)
def test_room_is_where_no_wall_is_near(maze):
    """Against the distance to every single wall, a rectangle that reaches one unit past its ends."""
    random = np.random.default_rng(0)
    places = random.uniform(-20, np.array(maze.extent) + 20, (3000, 2))
    boxes = np.array([(x0, y0, x1, y1) for (x0, y0), (x1, y1) in maze.walls]) * maze.cell + np.array([-1, -1, 1, 1])
    for margin in (0.0, 16.0, 40.0):
        touches = (places[:, None] + margin > boxes[:, :2]).all(-1) & (places[:, None] - margin < boxes[:, 2:]).all(-1)
        inside = ((places >= 0) & (places <= maze.extent)).all(1)
        assert (maze.has_room(places, margin) == (inside & ~touches.any(1))).all()


def test_unknown_maze_is_named():
    with pytest.raises(ValueError, match="There are the mazes 1, 2, 3, got 4"):
        geometry.read(4)


@pytest.mark.parametrize(
    ("pose", "message"),
    [
        ([50.0, 0.5, 0.0], r"needs poses in the free space of maze 1, got \(50, 0.5\) at index 1 inside a wall"),
        ([1200.0, 50.0, 0.0], r"needs poses inside maze 1, from 0 to 1000 and from 0 to 500 units, got \(1200, 50\) at index 1"),
        ([50.0, 50.0, 90.0], r"needs headings in radians, got 90, more than two turns. Convert degrees with torch.deg2rad"),
        ([float("nan"), 50.0, 0.0], r"needs finite poses, got \(nan, 50\) at index 1"),
    ],
)
def test_bad_pose_is_named(pose, message):
    with pytest.raises(ValueError, match=f"look {message}"):
        MAZES[0].check_poses("look", torch.tensor([[50.0, 50.0, 0.0], pose]))
