"""A blueprint for trackers that nobody trained: two coordinates, an angle among them, actions and a vector of three numbers."""

import math

import pytest
import torch

from mdpf.recipes.blueprint import Blueprint
from mdpf.recipes.log_networks import LogNetworks
from mdpf.recipes.methods import METHODS
from mdpf.spaces import StateSpace
from mdpf.tracking import Around, Tracker

SPACE = StateSpace.of("x", theta="angle")
BLUEPRINT = Blueprint(
    space=SPACE.to_json(),
    observation=(3,),
    image=False,
    action_dim=1,
    offset=(100.0,),
    scale=(10.0,),
    observation_mean=(0.0, 1.0, 2.0),
    observation_scale=(1.0, 2.0, 3.0),
    action_mean=(0.0,),
    action_scale=(1.0,),
    looks_at=(0,),
    step=(0.5, 0.1),
    drift=((0.0, 0.0, 0.5, 0.2, 0.1, 0.3), (0.0, 0.1, 0.0, 1.0, 0.0, 0.0)),
    drift_bias=(0.0, 0.1),
    noise=(0.5, 0.5),
    bound=(3.0, 1.0),
    start=(1.0, 0.1),
    bandwidth=(0.3, 0.02),
    low=(80.0, -math.pi),
    high=(120.0, math.pi),
    limit_lost=5.0,
)


@pytest.fixture
def make_tracker():
    """An untrained tracker of any method; its networks are those of recorded sequences."""

    def make(method="MDPF", num_particles=9):
        torch.manual_seed(0)
        filter = METHODS[method].build(LogNetworks(BLUEPRINT, hidden_dim=4, memory_dim=5))
        around = Around(SPACE, BLUEPRINT.start)
        return Tracker(filter, SPACE, BLUEPRINT.observation, around, action_dim=1, num_particles=num_particles)

    return make
