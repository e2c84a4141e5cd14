"""The page of a report: what it shows, that it needs no network, and that it works in a real browser."""

import base64
import json
import math
import re
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from PIL import Image

from mdpf import cli
from mdpf.data.sequences import SequenceBatch
from mdpf.evaluation import beliefs
from mdpf.evaluation.results import Provenance, Result, write_json
from mdpf.report import page
from mdpf.report.page import content
from mdpf.spaces import StateSpace
from mdpf.training import checkpoint

sys.path.insert(0, str(Path(__file__).parent))

import browser

LENGTH, COUNT = 12, 7
POSE = StateSpace.of("x", "y", theta="angle")


def wandering(space=POSE, *, observations=None, scene=None, count=COUNT):
    """Two cars that drive in circles, and beliefs with two clouds of particles, one of them at the car."""
    time = torch.arange(LENGTH) / 3
    states = torch.stack([3 * time.cos(), 3 * time.sin(), time])[: space.dim].T.expand(2, LENGTH, space.dim).contiguous()
    generator = torch.Generator().manual_seed(0)
    particles = states[:, :, None] + 0.1 * torch.randn(2, LENGTH, count, space.dim, generator=generator)
    particles[:, :, : count // 2] += 4.0
    if observations is None:
        observations = torch.stack([time.sin(), time.cos()], -1).expand(2, LENGTH, 2)
    return beliefs.Beliefs(
        mean=particles.mean(2),
        particles=particles,
        log_weights=torch.full((2, LENGTH, count), -math.log(count)),
        bandwidth=torch.full((2, LENGTH, space.dim), 0.3),
        ess=torch.full((2, LENGTH), float(count)),
        log_evidence=torch.zeros(2, LENGTH),
        space=space,
        data=SequenceBatch(states, observations),
        scene={"sensor": [0.0, 0.0], "walls": [[-5, -5, 5, -5]]} if scene is None else scene,
    )


@pytest.fixture
def folder(tmp_path):
    """A small run folder: two results, one stage of training, one file of beliefs."""
    for setting, nll in (("default", 6.0), ("mse", 7.0)):
        runs = [{"seed": seed, "metrics": {"nll": nll + seed, "lost": 0.1}} for seed in range(3)]
        result = Result("bearings", "MDPF", runs, {}, Provenance("mdpf train <this>", "abc", {}, "cpu", 1.0), setting)
        write_json(tmp_path / result.file_name, asdict(result))
    history = [{"stage": "likelihood", "train": [5.0 - n, 6.0 - n], "validation": [5.5 - n, math.inf]} for n in range(3)]
    checkpoint.save(tmp_path / "training" / "MDPF" / "likelihood.safetensors", {"best": torch.zeros(2)}, {"history": history})
    beliefs.write(tmp_path / "beliefs.npz", wandering())
    (tmp_path / "note.json").write_text("[1, 2]")
    return tmp_path


def data_of(path):
    return json.loads(re.search(r'id="beliefs">(.*?)</script>', path.read_text(), re.DOTALL)[1])


def test_content_is_found_and_everything_else_left_alone(folder):
    found = page.collect(folder)
    assert [result.setting for result in found.results] == ["default", "mse"]
    ((method, stage, train, _),) = found.histories
    assert (method, stage) == ("MDPF", "likelihood")
    assert train.tolist() == [[5.0, 6.0], [4.0, 5.0], [3.0, 4.0]]
    (tracked,) = found.tracked
    assert tracked.counts.shape == (2, LENGTH)
    assert tracked.counts.float().mean() >= 2
    assert tracked.calibration.levels.shape == (2 * (LENGTH - 1),)
    assert set(found.figures()) == {"metrics", "training", "calibration-beliefs", "over-time-beliefs"}


def test_page_holds_numbers_and_asks_for_nothing_outside_itself(folder):
    path = page.write(page.collect(folder), folder / "report.html", title="A <run> & more")
    text = path.read_text()
    assert "<title>A &lt;run&gt; &amp; more</title>" in text
    assert "2 results, 1 stage of training, 1 file of beliefs" in text
    assert "7.00 (6.00 to 8.00)" in text
    assert "mdpf train &lt;this&gt;" in text
    outside = re.findall(r'(?:src|href)="(?!data:)([^"]*)"|url\(([^)]*)\)|@import|fetch\(|XMLHttpRequest|import\(', text)
    assert outside == []
    assert page.write(page.collect(folder), folder / "again.html", title="A <run> & more").read_text() == text


def test_viewer_gets_the_numbers_of_the_file(folder):
    (found,) = data_of(page.write(page.collect(folder), folder / "report.html", title="t"))
    first = found["sequences"][0]
    expected = beliefs.read(folder / "beliefs.npz")
    numbers = torch.frombuffer(bytearray(base64.b64decode(first["particles"])), dtype=torch.float32)
    torch.testing.assert_close(numbers.view(LENGTH, COUNT, 3), expected.particles[0])
    assert first["seen"]["kind"] == "direction"
    assert (found["across"], found["down"]) == (0, 1)


def test_thinned_particles_keep_every_cloud_at_its_weight():
    many = wandering(count=400)
    kept = content.thinned(many, 20)
    assert kept.particles.shape == (2, LENGTH, 20, 3)
    torch.testing.assert_close(kept.log_weights.exp().sum(-1), torch.ones(2, LENGTH))
    far = many.particles[0, 0, :200].mean(0)
    assert ((kept.particles[0, 0] - far).norm(dim=-1) < 2).sum() == 10
    # A cloud that weighs a tenth keeps a tenth of them; one particle that weighs everything is all of them.
    weights = torch.cat([torch.full((200,), 0.1 / 200), torch.full((200,), 0.9 / 200)]).log()
    kept = content.thinned(many._replace(log_weights=weights.expand(2, LENGTH, 400)), 20)
    assert ((kept.particles[0, 0] - far).norm(dim=-1) < 2).sum() == 2
    alone = torch.full((400,), -torch.inf).index_fill(0, torch.tensor(399), 0.0)
    kept = content.thinned(many._replace(log_weights=alone.expand(2, LENGTH, 400)), 20)
    assert (kept.particles == many.particles[:, :, 399:]).all()


def test_losses_and_metrics_that_are_infinite_and_frames_that_do_not_exist_are_left_out(tmp_path):
    history = [{"stage": "likelihood", "train": [value], "validation": [math.inf]} for value in (math.nan, 1.0, 2.0)]
    checkpoint.save(tmp_path / "MDPF" / "likelihood.safetensors", {"best": torch.zeros(1)}, {"history": history})
    for setting, values in (("default", [1.0, math.inf]), ("mse", [math.inf, math.inf])):
        runs = [{"seed": seed, "metrics": {"nll": value, "lost": 0.0}} for seed, value in enumerate(values)]
        result = Result("b", "MDPF", runs, {}, Provenance("mdpf", "abc", {}, "cpu", 1.0), setting)
        write_json(tmp_path / result.file_name, asdict(result))
    recorded = wandering()
    valid = torch.ones(2, LENGTH, dtype=torch.bool)
    valid[:, LENGTH - 3 :] = False
    valid[1, 5:] = False
    beliefs.write(tmp_path / "beliefs.npz", recorded._replace(data=recorded.data._replace(valid=valid)))
    path = page.write(page.collect(tmp_path), tmp_path / "report.html", title="t")
    (found,) = data_of(path)
    assert [sequence["length"] for sequence in found["sequences"]] == [LENGTH - 3, 5]


def test_truth_that_is_not_known_is_not_shown(tmp_path):
    beliefs.write(tmp_path / "beliefs.npz", wandering()._replace(data=None))
    found = page.collect(tmp_path)
    assert found.tracked[0].calibration is None
    (data,) = data_of(page.write(found, tmp_path / "report.html", title="t"))
    assert data["sequences"][0]["states"] is None
    assert "Calibration</h2>" not in (tmp_path / "report.html").read_text()


def test_command_writes_page_figures_and_film(folder, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["report", str(folder), "--save", "svg", "--save", "pdf", "--video", "--film", "gif", "--sequence", "1"])
    assert ended.value.code in (0, None)
    out = capsys.readouterr().out.replace("\n", "")
    for name in ("report.html", "metrics.svg", "training.pdf", "beliefs.gif"):
        assert (folder / name).stat().st_size > 1000, name
        assert name in out
    with Image.open(folder / "beliefs.gif") as film:
        assert film.n_frames == LENGTH


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "which is none. `mdpf train` writes such folders."),
        (["."], "got none of them in '.'."),
        ([".", "--save", "bmp"], "needs a known format, got 'bmp'. Known are: png, svg, pdf."),
    ],
)
def test_wrong_calls_are_one_message(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        cli.main(["report", *words])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err.replace("\n", " ")
    assert list(tmp_path.iterdir()) == []


# --- In a browser -----------------------------------------------------------------------------------------------------------------

real = pytest.mark.skipif(browser.MISSING is not None, reason=str(browser.MISSING))


@real
@pytest.mark.slow
def test_page_works_in_a_browser(folder, tmp_path):
    images = torch.randint(0, 255, (2, LENGTH, 6, 8, 3), dtype=torch.uint8)
    beliefs.write(folder / "images.npz", wandering(observations=images, scene={}))
    beliefs.write(folder / "line.npz", wandering(StateSpace.of("x"), observations=torch.zeros(2, LENGTH, 3), scene={}))
    path = page.write(page.collect(folder), folder / "report.html", title="t")
    with browser.opened(path, tmp_path / "profile") as open_page:
        assert open_page.run("return document.documentElement.dataset.ready") == "yes"
        assert open_page.text("#caption").startswith(f"Frame 0 of {LENGTH - 1}")
        assert "2 live modes" in open_page.text("#caption")
        before = open_page.run("return document.getElementById('plane').toDataURL()")

        # The slider moves the belief.
        open_page.run("const s = document.getElementById('frame'); s.value = 5; s.dispatchEvent(new Event('input'))")
        assert open_page.text("#caption").startswith("Frame 5")
        assert open_page.run("return document.getElementById('plane').toDataURL()") != before

        # So do the keys, and the button.
        for key, frame in (("right", 6), ("left", 5), ("end", LENGTH - 1), ("home", 0)):
            open_page.press(key)
            assert open_page.text("#caption").startswith(f"Frame {frame} ")
        # In one go: however slow the machine, nobody looks after the film has ended.
        label = "document.getElementById('play').getAttribute('aria-label')"
        assert open_page.run(f"document.getElementById('play').click(); return {label}") == "Stop"
        open_page.wait(f"return Number(document.getElementById('frame').value) === {LENGTH - 1}")
        open_page.wait("return document.getElementById('play').getAttribute('aria-label') === 'Play'")
        open_page.tap("#course")
        assert open_page.text("#caption").startswith(("Frame 5", "Frame 6"))

        # Every layer can be hidden, another sequence and other coordinates chosen, other beliefs shown.
        for layer in ("density", "particles", "modes", "mean", "truth", "observation"):
            before = open_page.run("return document.getElementById('plane').toDataURL()")
            open_page.tap(f"#show-{layer}")
            assert open_page.run("return document.getElementById('plane').toDataURL()") != before, layer
            open_page.tap(f"#show-{layer}")
        change = "const s = document.getElementById(arguments[0]); s.value = arguments[1]; s.dispatchEvent(new Event('change'))"
        open_page.run(change, "sequence", "1")
        open_page.run(change, "down", "2")
        open_page.run(change, "set", "1")
        assert open_page.run("return document.getElementById('seen').hidden") is False
        open_page.run(change, "set", "2")
        assert "observed 0.00, 0.00, 0.00" in open_page.text("#caption")
        assert open_page.log() == []
        assert [address for address in open_page.requests() if not address.startswith(("data:", "file:"))] == []


@real
@pytest.mark.slow
def test_page_fits_a_phone(folder, tmp_path):
    path = page.write(page.collect(folder), folder / "report.html", title="t")
    with browser.opened(path, tmp_path / "profile", width=390, height=844, mobile=True) as open_page:
        assert open_page.run("return document.documentElement.scrollWidth") <= 390
        sizes = open_page.run("return [...document.querySelectorAll('.time button')].map((b) => b.getBoundingClientRect().height)")
        assert min(sizes) >= 44
        open_page.tap("#forward")
        assert open_page.text("#caption").startswith("Frame 1")
        assert open_page.log() == []
