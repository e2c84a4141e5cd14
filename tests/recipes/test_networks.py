"""The networks of the bearings study have the sizes of the paper's."""

import pytest
import torch

from mdpf.models import PReLU
from mdpf.models.recurrent import RecurrentNetwork
from mdpf.recipes.networks import VectorNetworks
from mdpf.resamplers import ImportanceWeighted
from mdpf.tasks.bearings import SPACE

NETWORKS = VectorNetworks(SPACE, 2, (0.99,) * 4, (0.84, 0.84, 0.031), (0.1, 0.1, 0.001))


def count(*modules):
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


def test_particle_filter_has_the_parameters_of_the_paper_part_by_part():
    pf = NETWORKS.filter(ImportanceWeighted())
    assert count(pf.dynamics.state_encoder) == 168
    assert count(pf.dynamics.step) == 212
    assert count(pf.encoder) == 168
    assert count(pf.measurement.particle_encoder) == 184
    assert [count(head) for head in pf.measurement.heads] == [217]
    assert count(pf.bandwidth) == 3
    assert count(pf) == 952


def test_adaptive_filter_has_a_second_head_and_bandwidth_on_top():
    pf = NETWORKS.adaptive_filter(ImportanceWeighted())
    assert [count(head) for head in pf.measurement.heads] == [217, 217]
    assert count(pf) == 952 + 217 + 3 == 1172


def test_recurrent_filter_has_the_parameters_of_the_paper_part_by_part():
    rf = NETWORKS.recurrent_filter(as_published=True)
    assert count(rf.network.state_encoder) == 168
    assert count(rf.network.memory, rf.network.step) == 2_057_991
    assert count(rf) == 2_058_330
    # Ours sees two more coordinates of its own state, eight weights each.
    assert count(NETWORKS.recurrent_filter()) == 2_058_330 + 16


@pytest.mark.parametrize(
    ("bound", "activation", "feature_dim", "width", "core"),
    [((7.0, 7.0, 1.0, 1.0), torch.nn.ReLU, 64, 8, 2_123_527), ((75.0, 75.0, 0.99, 0.99), PReLU, 64, 32, 2_172_679)],
    ids=["maze", "house"],
)
def test_recurrent_core_of_the_image_tasks_has_the_size_of_the_paper(bound, activation, feature_dim, width, core):
    options = {"feature_dim": feature_dim, "bound": bound, "encoder_dim": width, "action_dim": 3, "activation": activation}
    network = RecurrentNetwork(SPACE, **options, as_published=True)
    assert count(network.memory, network.step) == core


def test_bandwidths_start_where_the_paper_has_them():
    pf = NETWORKS.adaptive_filter(ImportanceWeighted())
    for bandwidth in (pf.bandwidth, pf.resampling_bandwidth):
        torch.testing.assert_close(bandwidth.bandwidths(), torch.tensor([0.84, 0.84, 0.031]))
    assert pf.bandwidth is not pf.resampling_bandwidth


def test_each_call_builds_networks_of_its_own():
    first, second = NETWORKS.filter(ImportanceWeighted()), NETWORKS.filter(ImportanceWeighted())
    assert not {id(parameter) for parameter in first.parameters()} & {id(parameter) for parameter in second.parameters()}
