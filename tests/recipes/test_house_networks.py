"""The networks of the house study: published sizes, images that are rendered or recorded, maps that are shared."""

import functools
from dataclasses import replace

import pytest
import torch

from mdpf.models import LocalMap, stack_runs
from mdpf.recipes import house, house_networks
from mdpf.recipes.house_networks import HouseNetworks, Rendered, SightEncoder, Stored, from_records, networks
from mdpf.recipes.training import build, stages
from mdpf.render import render
from mdpf.render.raycast import cast
from mdpf.resamplers import ImportanceWeighted, OptimalTransport
from mdpf.tasks.homes import geometry, recorded, scenes, task, walks
from mdpf.training.fit import fit
from mdpf.training.flat import FlatParameters


@pytest.fixture(scope="module")
def homes():
    return geometry.homes("validation", count=2)


@pytest.fixture(scope="module")
def nets(homes):
    return networks(homes)


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_filters_have_the_published_number_of_parameters(nets):
    pf, adaptive = nets.filter(ImportanceWeighted()), nets.adaptive_filter(ImportanceWeighted())
    assert count(pf) == 1_460_120
    assert count(adaptive) == 1_472_606
    assert [count(part) for part in (pf.dynamics.state_encoder, pf.dynamics.action_encoder, pf.dynamics.step)] == [2210, 2242, 3398]
    assert [count(part) for part in (pf.encoder, pf.measurement.view, pf.measurement.heads)] == [720_036, 719_748, 12_483]


def test_the_recurrent_network_as_published_has_its_number_of_parameters_and_ours_sees_the_map(nets):
    published = HouseNetworks(nets.source, nets.crop, as_published=True).recurrent_filter()
    assert count(published) == 2_897_170
    assert count(published.network) == 2_172_679 + 2_210 + 2_242
    ours = nets.recurrent_filter()
    # Its own position, and the map with its encoder.
    assert count(ours) == 2_897_170 + 719_748 + 64 * 4 * 256 + 2 * 32


def test_optimal_transport_draws_rooms_together_no_more_than_in_the_paper(nets):
    assert nets.filter(OptimalTransport()).resampler.regularization == 0.01


def test_an_observation_is_rendered_in_its_own_home(homes, nets):
    walked = walks.walk(homes, 4, 3, seed=0)
    observations = task.observed_from(walked.states, walked.home)
    images, index = nets.source(observations)
    assert images.shape == (4, 3, 3, 56, 56)
    assert torch.equal(index, walked.home[:, None].expand(4, 3))
    expected = render(
        scenes.build(homes), scenes.viewpoints(walked.states.reshape(-1, 3)), scenes.CAMERA, index=index.reshape(-1), num_hits=10
    )
    torch.testing.assert_close(images.reshape(12, 3, 56, 56), 2 * expected.rgb.movedim(-1, 1) - 1)
    assert images.min() >= -1
    assert images.max() <= 1


@pytest.mark.compile
@pytest.mark.parametrize(("device", "backend"), [("cpu", "aot_eager"), pytest.param("cuda", "inductor", marks=pytest.mark.gpu)])
def test_one_program_renders_any_number_of_frames(device, backend, homes):
    """Between two texels rounding decides, and other code rounds otherwise: a few samples may show their neighbour."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    scene = scenes.build(homes).to(device)
    walked = walks.walk(homes, 5, 3, seed=0)
    for count in (15, 7):
        poses = scenes.viewpoints(walked.states.reshape(-1, 3)[:count]).to(device)
        index = walked.home.repeat_interleave(3)[:count].to(device)
        found = house_networks.compiled_cast(scene, scene.full(), poses, scenes.CAMERA, index, num_hits=10, backend=backend)
        expected = cast(scene, scene.full(), poses, scenes.CAMERA, index, num_hits=10)
        assert ((found.rgb - expected.rgb).abs() > 1e-4).float().mean() < 1e-3
        assert torch.equal(found.clipped, expected.clipped)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_a_scene_travels_with_its_module_and_is_no_part_of_its_weights(homes):
    source = Rendered(scenes.build(homes))
    assert not source.state_dict()
    moved = source.to("meta")
    assert {buffer.device.type for buffer in moved.buffers()} == {"meta"}


def test_nothing_in_a_filter_waits_for_the_device(homes):
    """Tensors without values cannot be looked at: whatever works with them works without waiting."""
    maps = [torch.from_numpy(~home.wall_map()) for home in homes]
    nets = HouseNetworks(Rendered(scenes.build(homes)), LocalMap(maps))
    pf = nets.filter(ImportanceWeighted()).to("meta")
    observations = torch.zeros(2, 3, 4, device="meta")
    sight = pf.encoder(observations)
    assert sight.feature.shape == (2, 3, 64)
    scores = pf.measurement(torch.zeros(2, 3, 5, 3, device="meta"), sight)
    assert scores.shape == (2, 3, 5)
    scores.sum().backward()


@pytest.mark.gpu
@pytest.mark.parametrize("method", ["MDPF", "LSTM"])
def test_a_captured_training_step_gives_the_numbers_of_an_eager_one(method, homes):
    check_execution("captured", method, homes, "cuda")


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
def test_a_compiled_training_step_gives_the_numbers_of_an_eager_one(homes, monkeypatch):
    torch._dynamo.reset()
    monkeypatch.setattr("mdpf.training.step.torch.compile", functools.partial(torch.compile, backend="aot_eager"))
    check_execution("compiled", "MDPF", homes, "cpu")


def check_execution(execution, method, homes, device):
    """Train twice, and compare with how far the parameters have moved.

    Adam moves every parameter by its gradient over the size of that gradient. A sum that is rounded by a share ``e`` of what is
    usual among its kind is wrong by its own size where it is smaller than that, for about one parameter in ``1 / e``: single
    numbers may differ by as much as they moved, all together by about the root of ``8 e``. Single precision rounds sums of a
    million terms to a few of its last digits, ``e`` below 1e-5; other noise, walks or rates would differ by as much as was moved.
    """
    training_homes = tuple(home._replace(split="train") for home in homes)
    data = task.task(lambda: training_homes).split("train", num_sequences=4, length=9).to(device)
    config = house.Config(method, particles=5, batch=2, reduced=False)
    training = house.training_of(config, networks(training_homes, reduced=False))
    stage = replace(stages(training)["likelihood" if method == "MDPF" else "error"], epochs=2)
    start = FlatParameters(build(training, device=device), 1).values.clone()
    found, expected = (
        fit(build(training, device=device), stage, data, data, num_runs=1, seed=0, execution=how) for how in (execution, "eager")
    )
    for name in ("train", "validation", "norm"):
        torch.testing.assert_close(*(torch.tensor(fitted.history[0][name]) for fitted in (found, expected)), rtol=1e-3, atol=1e-3)
    assert (found.values - expected.values).norm() < 0.01 * (expected.values - start).norm()


def test_recorded_images_are_looked_up(generator):
    frames = torch.randint(256, (5, 56, 56, 3), generator=generator, dtype=torch.uint8)
    images, index = Stored(frames)(torch.tensor([[[4.0, 1.0], [0.0, 7.0]]]))
    torch.testing.assert_close(images[0, 0], frames[4].movedim(-1, 0).float() / 127.5 - 1)
    assert index.tolist() == [[1, 7]]
    with pytest.raises(ValueError, match=r"frames \[frame, height, width, 3\] in uint8, got a float32"):
        Stored(frames.float())


def test_recorded_walks_are_sequences_with_their_own_images_and_maps(homes, generator):
    walked = walks.walk(homes, 3, 4, seed=0)
    images = torch.randint(256, (3, 4, 56, 56, 3), generator=generator, dtype=torch.uint8)
    given = recorded.Recorded(walked, images, [home.wall_map() for home in homes], [home.id for home in homes])
    batch, nets = from_records(given, reduced=False)
    assert torch.equal(batch.states, walked.states)
    found, index = nets.source(batch.observations)
    torch.testing.assert_close(found, images.movedim(-1, -3).float() / 127.5 - 1)
    assert torch.equal(index, walked.home[:, None].expand(3, 4))
    pf = nets.filter(ImportanceWeighted())
    _, trajectory = pf(pf.init(task.task().prior(batch.states[:, 0], 5)), batch.observations[:, 1:], batch.actions)
    assert trajectory.posterior.locs.shape == (3, 3, 5, 3)


def test_a_filter_learns_through_image_map_and_pose(homes, nets):
    torch.manual_seed(0)
    pf = nets.filter(ImportanceWeighted())
    batch = task.task(lambda: homes).split("validation", num_sequences=2, length=4)
    belief = pf.init(task.task().prior(batch.states[:, 0], 5, generator=torch.Generator().manual_seed(0)))
    _, trajectory = pf(belief, batch.observations[:, 1:], batch.actions)
    loss = -trajectory.posterior.log_prob(batch.states[:, 1:].unsqueeze(-2)).mean()
    loss.backward()
    for name, parameter in pf.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_runs_share_scene_and_maps(homes):
    tiny = HouseNetworks(Rendered(scenes.build(homes)), LocalMap([torch.from_numpy(~home.wall_map()) for home in homes]))
    stacked = stack_runs([tiny.filter(ImportanceWeighted()) for _ in range(2)])
    assert stacked.encoder.source.get_buffer("scene_0").shape[0] == len(homes)
    observations = torch.tensor([[[[150.0, 100.0, 0.0, 1.0]]]]).expand(2, 1, 1, 4)
    sight = stacked.encoder(observations)
    assert sight.feature.shape == (2, 1, 1, 64)
    assert sight.index.tolist() == [[[1]], [[1]]]
    assert not torch.equal(sight.feature[0], sight.feature[1])
    assert isinstance(stacked.encoder, SightEncoder)
