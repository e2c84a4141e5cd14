"""Many hypotheses in homes: starts, which hypothesis is the heaviest, what counts as found, and the files."""

import math

import pytest
import torch

from mdpf.evaluation import beliefs, results
from mdpf.kernels import Gaussian, Product, VonMises
from mdpf.mixture import Mixture
from mdpf.recipes import house, house_modes
from mdpf.recipes.house import Config, Sizes
from mdpf.recipes.methods import METHODS
from mdpf.report import house_figures
from mdpf.tasks.homes import geometry, task
from mdpf.tasks.homes.geometry import PIXEL
from mdpf.training import weights


@pytest.fixture(scope="module")
def few():
    return tuple(home for split in ("train", "evaluation") for home in geometry.homes(split, count=2))


@pytest.fixture
def tiny(few, monkeypatch):
    monkeypatch.setattr(task, "all_homes", lambda: few)
    monkeypatch.setitem(house.SIZES, "quick", Sizes(2, 2, 3))
    for cached in (house._networks, house._split):
        cached.cache_clear()
    yield few
    for cached in (house._networks, house._split):
        cached.cache_clear()


def mixture(points, weights):
    points = torch.tensor(points)
    kernel = Product((Gaussian(torch.full((2,), 5.0)), VonMises(torch.full((1,), 30.0))))
    return Mixture(points, torch.tensor(weights).log(), kernel)


def test_the_heaviest_hypothesis_is_a_sum_of_neighbours():
    # Three particles at one place together outweigh a heavier one elsewhere.
    near = [[100.0 + step, 50.0, 0.1] for step in (-3, 0, 3)]
    points, weight = house_modes.heaviest(mixture([*near, [300.0, 200.0, 1.0]], [0.2, 0.2, 0.2, 0.4]))
    torch.testing.assert_close(points, torch.tensor([100.0, 50.0, 0.1]), atol=0.5, rtol=0)
    assert weight.item() == pytest.approx(0.6, abs=1e-3)


def test_near_means_half_a_metre_and_twenty_degrees():
    truth = torch.tensor([10.0, 10.0, math.pi - 0.1])
    places = torch.tensor(
        [[34.0, 10.0, math.pi - 0.1], [36.0, 10.0, math.pi - 0.1], [10.0, 10.0, -math.pi + 0.2], [10.0, 10.0, 2.0]]
    )
    assert house_modes.is_near(places, truth).tolist() == [True, False, True, False]


def test_starts_are_around_the_truth_over_look_alikes_or_anywhere(tiny):
    config = Config("MDPF", preset="quick", samples=1)
    batch = house_modes.one_walk_in_each_home(config)
    assert batch.observations[:, 0, 3].tolist() == [2.0, 3.0]
    crop = house.networks(config).crop
    near = house_modes.start("truth", batch, crop, count=10)
    assert (near - batch.states[:, :1])[..., :2].abs().max() < 60
    alike = house_modes.start("alike", batch, crop, count=30)
    distance = (alike - batch.states[:, :1])[..., :2].norm(dim=-1) * PIXEL
    assert (distance[:, :10] < 1.2).all()
    assert (distance[:, 10:] > 1.0).all()
    spread = house_modes.start("anywhere", batch, crop, count=40)
    for home, particles in zip(tiny[2:], spread, strict=True):
        for x, y, _ in particles.tolist():
            home.check_start(x * PIXEL, y * PIXEL)


def test_look_alikes_look_more_alike_than_other_places(tiny):
    crop = house.networks(Config("MDPF", preset="quick", samples=1)).crop
    pose = house_modes.walks.anywhere(tiny[0], 1, seed=3)[0]
    chosen = house_modes.look_alikes(crop, tiny[0], 0, pose, count=3)
    others = house_modes.walks.anywhere(tiny[0], 200, seed=5)
    looks = crop(torch.cat([pose[None], chosen, others])[None], torch.tensor([0]))[0].flatten(1)
    difference = (looks - looks[0]).abs().mean(-1)
    assert difference[1:4].max() < difference[4:].median()
    places = torch.cat([pose[None], chosen])[:, :2] * PIXEL
    assert torch.pdist(places).min() > house_modes.APART


@pytest.fixture
def trained(tiny, tmp_path):
    """Weights as the study leaves them, of nobody who learned."""
    config = Config("A-MDPF", preset="quick", samples=1, particles=4)
    torch.manual_seed(0)
    path = tmp_path / "weights" / "A-MDPF.safetensors"
    path.parent.mkdir()
    weights.save(
        path,
        METHODS["A-MDPF"].build(house.networks(config)),
        {"task": "homes", "method": "A-MDPF", "preset": "quick", "samples": 1},
    )
    return tmp_path


def test_a_search_is_written_done_once_and_drawn(trained, monkeypatch):
    monkeypatch.setattr(house_modes, "FRAMES", (1, 3))
    monkeypatch.setattr(house_modes, "KINDS", {"truth": 4, "alike": 6, "anywhere": 8})
    scope = house_modes.Scope(counts=(6,), num_walks=2)
    todo = house_modes.parts(trained, device="cpu", scope=scope)
    assert [part.name for part in todo] == ["A-MDPF (default) anywhere with 6 particles", "A-MDPF truth, alike, anywhere"]
    monkeypatch.setattr(house_modes.show, "__kwdefaults__", house_modes.show.__kwdefaults__ | {"length": 3})
    for part in todo:
        assert not part.done()
        part.do(None)
        assert part.done()
    result = results.load(trained / "A-MDPF@start-anywhere-6.json")
    assert result.runs[0]["curves"]["frame"] == [1, 3]
    assert [set(walk) for walk in result.runs[0]["walks"]] == [{"home", "free_m2", "success", "share", "difference"}] * 2
    recorded = beliefs.read(trained / "panels" / "A-MDPF@alike.npz")
    assert recorded.particles.shape == (1, 3, 6, 3)
    left, right, bottom, top = recorded.scene["extent"]
    places = recorded.data.states[0, :, :2]
    assert ((places > torch.tensor([left, bottom])) & (places < torch.tensor([right, top]))).all()
    drawn = house_figures.draw_modes(trained)
    assert [path.name for path in drawn] == ["anywhere.png", "tracks.png", "A-MDPF.png", "A-MDPF@anywhere.gif"]
    assert all(path.stat().st_size > 1000 for path in drawn)


def test_without_weights_there_is_nothing_to_search_with(tmp_path):
    with pytest.raises(FileNotFoundError, match="`mdpf reproduce house` writes them"):
        house_modes.parts(tmp_path, device="cpu", scope=house_modes.Scope())
