"""The figures of the bearings study draw what is there, and say what they draw."""

import shutil
import subprocess
from dataclasses import asdict

import numpy as np
import pytest
import torch
from PIL import Image

from mdpf.data.sequences import SequenceBatch
from mdpf.evaluation import beliefs
from mdpf.evaluation.results import Provenance, Result, save
from mdpf.recipes import bearings as recipe
from mdpf.recipes import bearings_panels
from mdpf.recipes.methods import METHODS
from mdpf.report import animation, belief, published
from mdpf.report import bearings as figures
from mdpf.spaces import StateSpace
from mdpf.training import weights

MADE = Provenance("mdpf reproduce bearings", "abc", {}, "cpu, 1 threads", 1.0)


def write(folder, method, values, *, setting="default"):
    runs = [{"seed": seed, "metrics": {"nll_paper": value, "rmse_paper": value - 2}} for seed, value in enumerate(values)]
    save(Result("bearings", method, runs, {}, MADE, setting), folder)


@pytest.fixture
def untrained(tmp_path):
    """The weights of untrained runs of a few methods, where the study leaves those of trained ones."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for method in ("MDPF", "TG-PF", "LSTM"):
            config = recipe.Config(method)
            filter = METHODS[method].build(recipe.networks(config))
            weights.save(tmp_path / "weights" / f"{method}.safetensors", filter, {"task": "bearings", **asdict(config)})
    return tmp_path


def test_logged_numbers_are_in_order():
    for table in (published.BEARINGS, published.BEARINGS_EPANECHNIKOV):
        for rows in table.values():
            for name, row in rows.items():
                assert row.smallest <= row.lower_quartile <= row.median <= row.upper_quartile <= row.largest, name
    assert set(published.BEARINGS["nll_paper"]) == set(published.BEARINGS["rmse_paper"]) == set(METHODS) == set(figures.ORDER)


def test_boxes_show_what_is_there_beside_all_that_was_logged(tmp_path):
    write(tmp_path, "MDPF", [6.0, 6.1, 5.9])
    write(tmp_path, "MDPF", [99.0], setting="n-100")
    write(tmp_path, "Oracle", [3.0])
    drawing = figures.boxes(tmp_path)
    left, right = drawing.axes
    assert [label.get_text() for label in left.get_yticklabels()] == list(reversed(figures.ORDER))
    medians = sorted(line.get_xdata()[0] for line in left.get_lines() if line.get_linewidth() == 1.4)
    logged = [row.median for row in published.BEARINGS["nll_paper"].values()]
    assert medians == pytest.approx(sorted([*logged, 6.0]))
    assert right.get_lines()[-1].get_xdata() == pytest.approx([1.0, 1.0])
    labels = [text.get_text() for text in drawing.legends[0].get_texts()]
    assert labels[1:] == ["below, coloured: ours, 3 runs", "the filter that knows the simulator"]
    assert left.get_xlim()[0] < 3.0


def test_infinite_likelihood_is_marked_beyond_the_axis(tmp_path):
    write(tmp_path, "TG-PF", [float("inf")])
    left, _ = figures.boxes(tmp_path).axes
    assert "∞" in [text.get_text() for text in left.texts]


def test_numbers_of_particles_are_drawn_in_their_order(tmp_path):
    for count, value in ((250, 5.0), (25, 6.0), (1000, 4.5)):
        write(tmp_path, "MDPF", [value], setting=f"n-{count}")
    (line,) = figures.sweep(tmp_path).axes[0].get_lines()
    assert line.get_xdata().tolist() == [25, 250, 1000]
    assert line.get_ydata().tolist() == [6.0, 5.0, 4.5]


def test_nothing_to_draw_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="`mdpf reproduce bearings` writes them"):
        figures.draw_study(tmp_path)
    with pytest.raises(FileNotFoundError, match="`mdpf train bearings MDPF` write them"):
        bearings_panels.run(tmp_path)


def test_panels_are_tracked_from_weights_and_drawn_from_files(untrained, monkeypatch):
    monkeypatch.setattr(bearings_panels, "SEARCHED", 2)
    found = bearings_panels.run(untrained)
    assert [path.name for path in found] == ["LSTM.npz", "MDPF.npz", "TG-PF.npz", "animation.npz"]
    recorded = beliefs.read(untrained / "panels" / "MDPF.npz")
    assert recorded.particles.shape == (1, 150, 25, 3)
    assert recorded.notes["weights"] == "MDPF.safetensors"
    assert recorded.notes["provenance"]["revision"]
    assert beliefs.read(untrained / "panels" / "LSTM.npz").particles.shape == (1, 150, 1, 3)
    monkeypatch.setattr(figures, "ANIMATED", range(2))
    drawn = figures.draw_panels(untrained)
    assert [path.name for path in drawn] == ["MDPF.png", "methods.png", "animation.gif"]
    assert drawn[-1].stat().st_size < 2_000_000
    again = bearings_panels.track(untrained / "weights" / "MDPF.safetensors", recorded.data)
    torch.testing.assert_close(again.particles, recorded.particles)


@pytest.fixture
def wandering():
    """A belief in two places that follows a truth which moves to the right."""
    states = torch.tensor([[[0.0, 0.0, 0.0], [1.0, 0.0, 0.1], [2.0, 0.0, 0.2]]])
    particles = states[:, :, None] + torch.tensor([[0.2, 0.1, 0.0], [-0.2, 3.0, 0.0]])
    return beliefs.Beliefs(
        mean=particles.mean(2),
        particles=particles,
        log_weights=torch.tensor([0.9, 0.1]).log().expand(1, 3, 2),
        bandwidth=torch.full((1, 3, 3), 0.3),
        ess=torch.full((1, 3), 1.2),
        log_evidence=torch.zeros(1, 3),
        space=StateSpace.of("x", "y", theta="angle"),
        data=SequenceBatch(states, torch.tensor([[[0.0, 1.0]] * 3])),
        scene={"sensor": [-1.0, 0.0], "walls": [[-1, -1, 1, -1]]},
    )


def test_film_has_a_picture_for_every_frame_and_the_colours_of_the_marks(wandering, tmp_path):
    path = animation.save(animation.render(wandering, 0, pixels=200), tmp_path / "film.gif", fps=5)
    with Image.open(path) as picture:
        assert picture.n_frames == 3
        assert picture.info["duration"] == 200
        colours = np.asarray(picture.convert("RGB")).reshape(-1, 3)
    for colour in (belief.TRUTH, belief.SEEN, belief.MODE):
        wanted = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
        assert np.abs(colours.astype(int) - wanted).sum(1).min() < 40, colour


def test_view_holds_all_that_happens(wandering):
    left, right, bottom, top = belief.view(wandering).extent
    # The walls too, if there are any.
    assert left < -1 < 2 < right
    assert bottom < 0 < top
    assert belief.view(wandering._replace(scene={"extent": [-1, 1, -2, 2]})).extent == (-1, 1, -2, 2)


def test_film_of_nothing_and_of_an_unknown_kind_are_refused(wandering, tmp_path):
    with pytest.raises(ValueError, match="got none. Choose frames that exist."):
        animation.save([], tmp_path / "film.gif")
    with pytest.raises(ValueError, match="ends in .gif or .mp4, got 'film.avi'"):
        animation.save(animation.render(wandering, 0, [0], pixels=100), tmp_path / "film.avi")


def test_film_without_ffmpeg_says_so(wandering, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="Install it, or ask for a .gif."):
        animation.save(animation.render(wandering, 0, [0], pixels=100), tmp_path / "film.mp4")


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg")
def test_film_is_an_mp4_that_can_be_decoded(wandering, tmp_path):
    path = animation.save(animation.render(wandering, 0, pixels=201), tmp_path / "film.mp4", fps=5)
    decoded = subprocess.run(["ffmpeg", "-i", str(path), "-f", "framehash", "-"], capture_output=True, text=True, check=True)
    assert len([line for line in decoded.stdout.splitlines() if not line.startswith("#")]) == 3
