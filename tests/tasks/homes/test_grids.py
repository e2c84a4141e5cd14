"""Grids: lines, widening, connected parts, each against its definition cell by cell."""

import math

import numpy as np
import pytest

from mdpf.tasks.homes import grids


@pytest.mark.parametrize(
    "ends", [(2.0, 3.0, 7.0, 3.0), (4.0, 1.0, 4.0, 8.0), (1.3, 2.1, 7.9, 6.2), (5.0, 5.0, 5.0, 5.0), (-3.0, 2.0, 20.0, 2.5)]
)
def test_a_line_covers_the_cells_whose_centres_it_covers(ends):
    x0, y0, x1, y1 = ends
    length = math.hypot(x1 - x0, y1 - y0)
    ahead = ((x1 - x0) / length, (y1 - y0) / length) if length else (1.0, 0.0)
    drawn = grids.draw((20, 24), 0.5, np.array([ends]), 1.3)
    for row in range(20):
        for column in range(24):
            x, y = (column + 0.5) * 0.5 - x0, (row + 0.5) * 0.5 - y0
            along, across = x * ahead[0] + y * ahead[1], y * ahead[0] - x * ahead[1]
            assert drawn[row, column] == (-0.65 <= along <= length + 0.65 and abs(across) <= 0.65), (row, column)


def test_a_box_covers_the_cells_whose_centres_lie_in_it():
    filled = grids.fill((8, 8), 0.5, np.array([[1.0, 0.5, 2.0, 3.9], [3.2, 3.2, 3.3, 3.3]]))
    expected = np.zeros((8, 8), bool)
    expected[1:8, 2:4] = True  # Centres from 1.25 to 1.75, and from 0.75 to 3.75.
    expected[6, 6] = True  # Its centre at 3.25 is inside.
    np.testing.assert_array_equal(filled, expected)


@pytest.mark.parametrize("radius", [0.0, 1.0, 2.5, 4.0])
def test_widening_reaches_what_is_near(generator, radius):
    marked = np.random.default_rng(1).random((17, 23)) < 0.02
    wide = grids.widen(marked, radius)
    rows, columns = np.nonzero(marked)
    for row in range(17):
        for column in range(23):
            near = ((rows - row) ** 2 + (columns - column) ** 2 <= radius**2).any()
            assert wide[row, column] == near


def test_parts_are_those_a_flood_finds():
    random = np.random.default_rng(0)
    for share in (0.4, 0.6, 0.9):
        free = random.random((19, 31)) < share
        labels, seen = grids.components(free), np.zeros_like(free)
        assert (labels > 0).tolist() == free.tolist()
        number = 0
        for start in zip(*np.nonzero(free), strict=True):
            if seen[start]:
                continue
            number += 1
            waiting, part = [start], set()
            while waiting:
                row, column = waiting.pop()
                if not (0 <= row < 19 and 0 <= column < 31) or not free[row, column] or seen[row, column]:
                    continue
                seen[row, column] = True
                part.add((row, column))
                waiting += [(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)]
            assert {labels[cell] for cell in part} == {number}
        assert labels.max() == number
