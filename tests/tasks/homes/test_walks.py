"""Walks: the steps of the published data, never through a wall, and odometry with the stated noise."""

import math

import numpy as np
import pytest
import torch

from mdpf.tasks.homes import walks
from mdpf.tasks.homes.geometry import CELL, PIXEL
from mdpf.testing import assert_mean


@pytest.fixture(scope="module")
def walked(home):
    return walks.walk([home], 40, 60, seed=0)


def test_nobody_walks_where_nobody_can_stand(home, walked):
    places = walked.states[..., :2].reshape(-1, 2) * PIXEL
    assert all(home.is_free(x, y) for x, y in places.tolist())


def test_a_step_turns_or_goes_ahead_by_no_more_than_the_published_ones(walked):
    ahead, aside, turn = walks.relative(walked.states[:, :-1], walked.states[:, 1:]).unbind(-1)
    assert aside.abs().max() < 1e-2
    turns, goes = turn.abs() > 1e-4, ahead.abs() > 0.1
    assert not (turns & goes).any()
    assert ahead.min() > -1e-2
    assert ahead.max() * PIXEL <= walks.STRIDES[1] + 1e-4
    assert turn.abs().max() <= walks.TURNS[1] + 1e-4
    assert ahead[goes].min() * PIXEL > walks.SHORTEST_STRIDE - walks.LOOK - 1e-4
    assert 0.3 < goes.float().mean() < 0.8


def test_walks_go_from_room_to_room(home, walked):
    cells = (walked.states[..., :2] * PIXEL / CELL).long()
    rooms = torch.from_numpy(home.parts)[cells[..., 1], cells[..., 0]]
    visited = torch.tensor([len(set(row.tolist()) - {0}) for row in rooms])
    assert (visited == 2).float().mean() > 0.8


def test_a_seed_names_a_set_of_walks_and_homes_do_not_disturb_each_other(home):
    first, again, other = (walks.walk([home], 6, 5, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.states, again.states)
    assert torch.equal(first.actions, again.actions)
    assert not torch.equal(first.states, other.states)
    two = walks.walk([home, home._replace(id="another")], 12, 5, seed=0, numbers=[7, 9])
    assert two.home.bincount(minlength=10)[[7, 9]].tolist() == [6, 6]
    chosen = two.states[two.home == 7]
    assert {tuple(row.reshape(-1).tolist()) for row in chosen} == {tuple(row.reshape(-1).tolist()) for row in first.states}


def test_composing_inverts_looking_from_another_pose(generator):
    before, after = 4 * torch.randn(2, 50, 3, generator=generator, dtype=torch.float64)
    found = walks.compose(before, walks.relative(before, after))
    torch.testing.assert_close(walks.SPACE.difference(found, after), torch.zeros_like(found), atol=1e-12, rtol=0)
    step = walks.relative(torch.tensor([1.0, 2.0, math.pi / 2]), torch.tensor([0.0, 5.0, -math.pi]))
    torch.testing.assert_close(step, torch.tensor([3.0, 1.0, math.pi / 2]))


def test_dead_reckoning_without_noise_is_the_truth(walked):
    states = walked.states.double()
    found = walks.dead_reckoning(states[:, 0], walks.relative(states[:, :-1], states[:, 1:]))
    torch.testing.assert_close(walks.SPACE.difference(found, states), torch.zeros_like(states), atol=1e-9, rtol=0)


@pytest.mark.statistical
def test_odometry_has_the_stated_noise(generator):
    states = torch.zeros(20_000, 2, 3, dtype=torch.float64)
    found = walks.odometry(states, generator=generator)[:, 0]
    # The mean resultant length of a von Mises angle of concentration 35 is I1(35) / I0(35).
    length = float(
        torch.special.i1e(torch.tensor(35.0, dtype=torch.float64)) / torch.special.i0e(torch.tensor(35.0, dtype=torch.float64))
    )
    assert_mean(found, torch.zeros(3, dtype=torch.float64), max_se=0.1)
    assert_mean(found[:, :2].square(), torch.full((2,), 100.0, dtype=torch.float64), max_se=1.5)
    assert_mean(found[:, 2].cos(), torch.tensor(length, dtype=torch.float64), max_se=1e-3)


def test_particles_start_as_published():
    kernel = walks.start_kernel(torch.zeros(1))
    position, angle = kernel.parts
    torch.testing.assert_close(position.scale * PIXEL, torch.full((2,), 0.2))
    torch.testing.assert_close(angle.concentration, torch.tensor([1 / 0.03]))


def test_ways_are_as_long_as_a_plain_search_finds_them(home):
    ways = walks.plan_ways(home, np.random.default_rng(0))
    rows = ways.distance.shape[1] // ways.columns
    for distance in ways.distance.reshape(-1, rows, ways.columns):
        assert (distance == 0).sum() == 1
        reached = {tuple(cell) for cell in np.argwhere(distance == 0)}
        free = {tuple(cell) for cell in np.argwhere(distance >= 0)}
        for steps in range(1, int(distance.max()) + 1):
            near = {(r + i, c + j) for r, c in reached for i in (-1, 0, 1) for j in (-1, 0, 1) if steps % 2 or not (i and j)}
            reached |= near & free
            assert reached == {tuple(cell) for cell in np.argwhere((distance >= 0) & (distance <= steps))}


def test_the_next_cell_of_a_way_is_nearer_and_jumps_are_several_of_them(home):
    ways = walks.plan_ways(home, np.random.default_rng(0))
    one = ways.ahead[-1]
    for goal, distance in enumerate(ways.distance):
        on = np.flatnonzero(distance > 1)
        assert (distance[one[goal, on]] < distance[on]).all()
        jumped = np.arange(len(distance))
        for _ in range(8):
            jumped = one[goal, jumped]
        np.testing.assert_array_equal(ways.ahead[-4, goal][on], jumped[on])


def test_poses_anywhere_cover_the_free_space(home):
    poses = walks.anywhere(home, 2000, seed=0)
    assert all(home.is_free(x, y) for x, y in (poses[:, :2] * PIXEL).tolist())
    area = (poses[:, 0] * PIXEL > 2.5).float().mean()
    free = home.free[:, int(2.5 / CELL) :].sum() / home.free.sum()
    assert abs(area - free) < 5 * math.sqrt(free * (1 - free) / 2000)


def test_no_homes_and_no_steps_are_refused(home):
    with pytest.raises(ValueError, match="at least one home"):
        walks.walk([], 3, 5, seed=0)
    with pytest.raises(ValueError, match="length"):
        walks.walk([home], 3, 1, seed=0)
