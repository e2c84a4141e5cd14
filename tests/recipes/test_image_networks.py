"""The networks of the maze study have the sizes of the paper's, with one run or several."""

import pytest
import torch

from mdpf.models import stack_runs, take_run
from mdpf.recipes import mazes
from mdpf.resamplers import ImportanceWeighted

NETWORKS = mazes.networks(mazes.Config("MDPF"))


def count(*modules):
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


def test_particle_filter_has_the_parameters_of_the_paper_part_by_part():
    pf = NETWORKS.filter(ImportanceWeighted())
    assert count(pf.dynamics.state_encoder) == 168
    assert count(pf.dynamics.action_encoder) == 176
    assert count(pf.dynamics.step) == 276
    assert count(pf.encoder) == 130_208
    assert count(pf.measurement.particle_encoder) == 1216
    assert [count(head) for head in pf.measurement.heads] == [10_433]
    assert count(pf) == 142_480


def test_adaptive_filter_has_a_second_head_and_bandwidth_on_top():
    pf = NETWORKS.adaptive_filter(ImportanceWeighted())
    assert [count(head) for head in pf.measurement.heads] == [10_433, 10_433]
    assert count(pf) == 152_916


def test_recurrent_filter_has_the_parameters_of_the_paper_part_by_part():
    rf = NETWORKS.recurrent_filter(as_published=True)
    assert count(rf.network.memory, rf.network.step) == 2_123_527
    assert count(rf) == 2_254_082
    # Ours sees two more coordinates of its own state, eight weights each.
    assert count(NETWORKS.recurrent_filter()) == 2_254_082 + 16


def test_bandwidths_start_as_stated_and_headings_stay_known():
    torch.testing.assert_close(NETWORKS.filter(ImportanceWeighted()).bandwidth.bandwidths(), torch.tensor([0.5, 0.5, 0.04]))
    recurrent = NETWORKS.recurrent_filter().bandwidth
    torch.testing.assert_close(recurrent.bandwidths(), torch.tensor([2.1, 2.1, 0.2]))
    torch.nn.init.constant_(recurrent.log_excess, 8.0)
    assert 1 / recurrent.bandwidths()[2] >= 4


@pytest.mark.parametrize("kind", ["filter", "recurrent"])
def test_runs_at_once_are_runs_one_by_one(kind, generator):
    torch.manual_seed(2)
    singles = [NETWORKS.filter(ImportanceWeighted()) if kind == "filter" else NETWORKS.recurrent_filter() for _ in range(2)]
    stacked = stack_runs(singles)
    images = torch.randint(256, (2, 4, 5, 24, 24, 3), generator=generator, dtype=torch.uint8)
    together = stacked.encoder(images)
    for run, single in enumerate(singles):
        torch.testing.assert_close(together[run], single.encoder(images[run]), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(take_run(stacked, run).encoder(images[run]), single.encoder(images[run]))
