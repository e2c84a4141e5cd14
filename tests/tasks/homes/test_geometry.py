"""From plans to homes: walls, passages, windows, furniture and rooms, against what one computes by hand."""

import math

import numpy as np
import pytest

from mdpf.tasks.homes import geometry, plans
from mdpf.tasks.homes.geometry import CEILING, CELL, DOOR_TOP, PIXEL, ROOMS, SILL, WALL, Surface


def build(drawing):
    return geometry.build(plans.plan_of(drawing))


def faces(home, surface):
    """Ends, bottom and top of all faces of one kind."""
    chosen = home.faces.surface == surface
    return sorted(
        (*np.round(ends, 6).tolist(), float(bottom), float(top))
        for ends, bottom, top in zip(home.faces.ends[chosen], home.faces.bottom[chosen], home.faces.top[chosen], strict=True)
    )


def test_openings_are_told_apart_by_what_lies_beside_them(home):
    kinds = {opening.ends: (opening.passable, opening.shut) for opening in home.openings}
    assert list(kinds.values()) == [(True, False), (False, False), (False, True)]


def test_walls_are_cut_by_openings(home):
    assert faces(home, Surface.WALL) == sorted(
        [
            (0.5, 0.5, 1.0, 0.5, 0.0, CEILING),
            (1.0, 0.5, 2.0, 0.5, 0.0, SILL),
            (2.0, 0.5, 4.5, 0.5, 0.0, CEILING),
            (0.5, 3.5, 4.5, 3.5, 0.0, CEILING),
            (0.5, 0.5, 0.5, 3.5, 0.0, CEILING),
            (4.5, 0.5, 4.5, 2.5, 0.0, CEILING),
            (4.5, 3.2, 4.5, 3.5, 0.0, CEILING),
            (2.5, 0.5, 2.5, 1.5, 0.0, CEILING),
            (2.5, 2.3, 2.5, 3.5, 0.0, CEILING),
        ]
    )
    assert faces(home, Surface.WINDOW) == [(1.0, 0.5, 2.0, 0.5, SILL, DOOR_TOP)]
    assert faces(home, Surface.DOOR) == [(4.5, 2.5, 4.5, 3.2, 0.0, DOOR_TOP)]
    assert faces(home, Surface.LINTEL) == sorted(
        [
            (1.0, 0.5, 2.0, 0.5, DOOR_TOP, CEILING),
            (2.5, 1.5, 2.5, 2.3, DOOR_TOP, CEILING),
            (4.5, 2.5, 4.5, 3.2, DOOR_TOP, CEILING),
        ]
    )


def test_furniture_is_seen_and_not_on_the_map(home):
    corners = [(3.5, 0.55), (4.45, 0.55), (4.45, 1.25), (3.5, 1.25)]
    expected = [(*a, *b, 0.0, 0.55) for a, b in zip(corners, corners[1:] + corners[:1], strict=True)]
    assert faces(home, Surface.FURNITURE) == sorted(expected)
    wall_map = home.wall_map()
    assert not wall_map[int(0.7 / PIXEL) : int(1.2 / PIXEL), int(3.5 / PIXEL) : int(4.4 / PIXEL)].any()


def test_the_map_shows_walls_of_their_thickness_and_open_passages(home):
    wall_map = home.wall_map()
    assert wall_map.shape == (200, 250)
    middle = wall_map[int(1.0 / PIXEL)]
    np.testing.assert_array_equal(np.flatnonzero(middle), [*range(22, 28), *range(122, 128), *range(222, 228)])
    assert not wall_map[int(1.9 / PIXEL), 100:150].any()  # The passage.
    np.testing.assert_array_equal(np.flatnonzero(~wall_map[30:170, 125]) + 30, np.arange(75, 115))  # From 1.5 to 2.3 m.
    assert wall_map[25, 50:100].all()  # The window is a wall on the map.
    assert wall_map[int(2.9 / PIXEL), 225]  # So is the shut door.


def test_rooms_have_the_type_of_their_label(home):
    assert home.room_at(1.5, 2.0) == "living_room"
    assert home.room_at(3.5, 2.0) == "bathroom"
    assert home.room_at(0.2, 0.2) == "outside"


def test_the_sides_of_a_wall_are_those_of_its_direction(home):
    chosen = np.flatnonzero((home.faces.surface == Surface.WALL) & (home.faces.ends[:, 0] == 2.5))
    for index in chosen:
        assert home.faces.ends[index, 3] > home.faces.ends[index, 1]
        assert (ROOMS[home.faces.left[index]], ROOMS[home.faces.right[index]]) == ("living_room", "bathroom")


def test_free_space_keeps_its_distance_and_goes_through_the_passage(home):
    for x, y in [(1.5, 2.0), (3.5, 2.0), (2.5, 1.9), (0.75, 2.0)]:
        assert home.is_free(x, y), (x, y)
    for x, y in [(2.5, 1.0), (0.6, 2.0), (0.2, 2.0), (4.0, 1.0), (4.0, 1.3), (-1.0, 2.0), (9.0, 2.0)]:
        assert not home.is_free(x, y), (x, y)
    # Both rooms without a border of ROBOT along the walls, less the bathtub: to the precision of the cells.
    area = home.free.sum() * CELL**2
    assert area == pytest.approx(2 * 1.6 * 2.6 - 1.05 * 0.65 + 0.4 * 0.5, abs=0.5)


def test_a_start_where_nobody_can_stand_is_refused(home):
    home.check_start(1.5, 2.0)
    for place, where in [
        ((2.5, 1.0), "in no room"),
        ((4.0, 1.0), "too close to something in the bathroom"),
        ((9.0, 1.0), "outside its plan"),
    ]:
        with pytest.raises(ValueError, match=f"home 'by-hand' needs to lie in its free space, .*{where}"):
            home.check_start(*place)


def test_a_home_without_a_closed_room_is_refused(drawing):
    drawing["walls"][3] = [400, 0, 400, 250]
    drawing["walls"][4] = [200, 0, 200, 250]
    with pytest.raises(ValueError, match="Home 'by-hand' needs a closed room"):
        build(drawing)


def test_a_home_without_room_to_walk_is_refused(drawing):
    drawing["labels"] += [["bathtub", x, y, x + 100, y + 100] for x in range(0, 400, 100) for y in range(0, 300, 100)]
    with pytest.raises(ValueError, match="Home 'by-hand' needs free space to walk in"):
        build(drawing)


def test_walls_at_an_angle_are_cut_too(drawing):
    turn = math.radians(20)
    cos, sin = math.cos(turn), math.sin(turn)

    def turned(row):
        return [row[0] * cos - row[1] * sin, row[0] * sin + row[1] * cos, row[2] * cos - row[3] * sin, row[2] * sin + row[3] * cos]

    drawing["walls"] = [turned(row) for row in drawing["walls"]]
    drawing["doors"] = [[*turned(row[:4]), row[4]] for row in drawing["doors"]]
    middle = [
        (label[0], *turned([(label[1] + label[3]) / 2, (label[2] + label[4]) / 2, 0, 0])[:2]) for label in drawing["labels"][:2]
    ]
    drawing["labels"] = [[name, x - 10, y - 10, x + 10, y + 10] for name, x, y in middle]
    home = build(drawing)
    assert [(opening.passable, opening.shut) for opening in home.openings] == [(True, False), (False, False), (False, True)]
    lengths = np.hypot(home.solid[:, 2] - home.solid[:, 0], home.solid[:, 3] - home.solid[:, 1])
    assert lengths.sum() == pytest.approx(4 + 4 + 3 + 3 + 3 - 0.8 - WALL)  # At a passage the pen stops half its width before.
    assert set(np.unique(home.rooms)) == {ROOMS.index(name) for name in ("outside", "living_room", "bathroom")}


def test_of_two_openings_in_one_place_the_passage_wins(drawing):
    drawing["doors"].append([200, 120, 200, 280, 3])
    home = build(drawing)
    assert ((home.faces.surface == Surface.LINTEL) & (home.faces.ends[:, 0] == 2.5)).any()
    np.testing.assert_allclose(
        sorted(home.solid[np.isclose(home.solid[:, 0], 2.5) & np.isclose(home.solid[:, 2], 2.5)][:, 1]), [0.5, 3.3 + WALL / 2]
    )


def test_every_home_of_the_package_can_be_built():
    # A tenth of them; all are built by whoever trains.
    for plan in plans.read()[::47]:
        home = geometry.build(plan)
        assert home.free.sum() * CELL**2 > 4
        assert len(np.unique(home.parts[home.free])) >= 2
