"""Walks keep to walls, speed and turns, go everywhere, and are the same for the same seed."""

import math

import numpy as np
import pytest
import torch

from mdpf.spaces import wrap
from mdpf.tasks.mazes import geometry, walks

MAZES = [geometry.read(number) for number in geometry.NUMBERS]


def walk(maze, count=60, length=100, seed=0):
    return walks.walk(maze, count, length, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("maze", MAZES)
def test_walks_keep_to_the_rules(maze):
    poses = walk(maze)
    assert maze.has_room(poses[..., :2].numpy(), walks.RADIUS).all()
    stride = poses[..., :2].diff(dim=1).norm(dim=-1)
    turn = wrap(poses[..., 2].diff(dim=1)).abs()
    assert stride.max() <= walks.SPEED * walks.KEPT / walks.ENGINE_RATE + 1e-9
    assert turn.max() <= math.radians(15) + 1e-9
    # Nobody stands about: hardly a step without motion, and none without motion or turn.
    assert (stride < 1).float().mean() < 0.1
    assert not ((stride < 0.25) & (turn < 0.005)).any()
    assert 10 < stride.mean() < 18


@pytest.mark.parametrize("maze", MAZES)
def test_walks_go_everywhere(maze):
    cells = (walk(maze, 400)[..., :2] // maze.cell).long()
    assert len(cells.reshape(-1, 2).unique(dim=0)) > 0.95 * np.prod(maze.shape)


def test_walks_do_not_pass_through_walls():
    maze = MAZES[2]
    poses = walk(maze)[..., :2].numpy() / maze.cell
    before, after = poses[:, :-1].reshape(-1, 2), poses[:, 1:].reshape(-1, 2)
    for (x0, y0), (x1, y1) in maze.walls:
        axis, line, low, high = (0, x0, y0, y1) if x0 == x1 else (1, y0, x0, x1)
        crosses = (before[:, axis] - line) * (after[:, axis] - line) < 0
        share = (line - before[:, axis]) / np.where(crosses, after[:, axis] - before[:, axis], 1.0)
        place = before[:, 1 - axis] + share * (after[:, 1 - axis] - before[:, 1 - axis])
        assert not (crosses & (place > low) & (place < high)).any()


def test_the_seed_says_everything():
    assert torch.equal(walk(MAZES[0]), walk(MAZES[0]))
    assert not torch.equal(walk(MAZES[0]), walk(MAZES[0], seed=1))
    before = torch.get_rng_state()
    walk(MAZES[0], 3, 5)
    assert torch.equal(before, torch.get_rng_state())


def test_poses_anywhere_have_room():
    places = walks.anywhere(MAZES[1], 2000, generator=torch.Generator().manual_seed(0))
    assert MAZES[1].has_room(places[:, :2].numpy(), walks.RADIUS).all()
    assert len((places[:, :2] // 100).unique(dim=0)) == 135
