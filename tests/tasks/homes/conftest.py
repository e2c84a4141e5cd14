"""A home small enough to compute by hand: two rooms of 2 m by 3 m side by side, a passage, a window, an entrance, a bathtub."""

import copy

import pytest

from mdpf.tasks.homes import geometry, plans

# In units of one centimetre; the plan moves the corner of the walls to (0.5, 0.5) m.
DRAWING = {
    "id": "by-hand",
    "split": "train",
    "m_per_unit": 0.01,
    "walls": [
        [0, 0, 400, 0],
        [0, 300, 400, 300],
        [0, 0, 0, 300],
        [400, 0, 400, 300],
        [200, 0, 200, 300],
    ],
    "doors": [
        [200, 100, 200, 180, 1],  # Between the rooms.
        [50, 0, 150, 0, 3],  # A window in the first wall.
        [400, 200, 400, 270, 2],  # The entrance.
    ],
    "labels": [["living_room", 90, 140, 110, 160], ["bathroom", 290, 140, 310, 160], ["bathtub", 300, 5, 395, 75]],
}


@pytest.fixture
def drawing():
    return copy.deepcopy(DRAWING)


@pytest.fixture(scope="session")
def home():
    return geometry.build(plans.plan_of(copy.deepcopy(DRAWING)))
