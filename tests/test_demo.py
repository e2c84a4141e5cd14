"""The first look works from what the package brings along, and the package brings everything along."""

import fnmatch
import json
import re
import tomllib
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from mdpf import demo
from mdpf.demo.ship import main, ship
from mdpf.evaluation import beliefs
from mdpf.recipes import bearings, bearings_panels
from mdpf.recipes.filing import weights_file
from mdpf.training.stages import Cosine

ROOT = Path(__file__).parents[1]


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(bearings.PRESETS, "tiny", bearings.Preset(2e-3, 2e-3, 0.5, 1, 1, 1e-3, 1, Cosine()))
    monkeypatch.setitem(bearings.SIZES, "tiny", bearings.Sizes(64, 8, 4))
    monkeypatch.setattr(demo, "CARS", 6)
    monkeypatch.setattr(demo, "FRAMES", range(3))
    monkeypatch.setattr(bearings_panels, "SEARCHED", 3)


@pytest.mark.slow
def test_demo_tracks_films_trains_and_reports(tiny, tmp_path):
    told = []
    page = demo.run(tmp_path, told.append, lambda: nullcontext(lambda epoch: None), preset="tiny")
    assert page == tmp_path / "report.html"
    assert f"Open {page} in a browser" in told[-1]
    assert (tmp_path / "posterior.gif").stat().st_size > 1000
    assert (tmp_path / "bearings" / "MDPF.json").exists()
    sets = json.loads(re.search(r'id="beliefs">(.*?)</script>', page.read_text(), re.DOTALL)[1])
    assert [found["name"] for found in sets] == ["several-modes", "shipped-weights", "trained-here"]
    # The shipped weights track: the truth is far likelier than under weights that have seen 64 cars once.
    likely = [
        found.posterior.log_prob(found.data.states.unsqueeze(2))[:, 1:].clamp_min(-20).mean()
        for found in (beliefs.read(tmp_path / f"{name}.npz") for name in ("shipped-weights", "trained-here"))
    ]
    assert likely[0] > likely[1] + 1
    # A second look goes on with what is there.
    demo.run(tmp_path, told.append, lambda: nullcontext(pytest.fail), preset="tiny")


@pytest.mark.parametrize("name", demo.SHIPPED)
def test_shipped_weights_are_those_of_the_study(name):
    source, copy = weights_file(ROOT / "results" / "bearings", name), Path(demo.__file__).parent / f"{name}.safetensors"
    assert copy.exists() == source.exists(), "run `make tables`"
    if source.exists():
        assert copy.read_bytes() == source.read_bytes(), "run `make tables`"


def test_what_a_study_left_is_shipped(tmp_path, capsys):
    source = weights_file(tmp_path / "bearings", "MDPF")
    source.parent.mkdir(parents=True)
    source.write_bytes(b"weights")
    (copy,) = ship(tmp_path, tmp_path)
    assert copy.read_bytes() == b"weights"
    main(["--results", str(tmp_path / "nowhere")])
    assert capsys.readouterr().out == ""


def test_package_without_weights_says_so(monkeypatch):
    monkeypatch.setattr(demo, "SHIPPED", ("nothing",))
    with pytest.raises(FileNotFoundError, match="Install mdpf again"):
        demo.shipped()


def test_every_file_of_the_package_is_in_the_wheel_and_the_wheel_is_small():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"]["mdpf"]
    package = ROOT / "src" / "mdpf"
    files = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    others = [path.relative_to(package).as_posix() for path in files if path.suffix != ".py"]
    assert [name for name in others if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)] == []
    assert sum(path.stat().st_size for path in files) < 10e6


def test_car_with_most_modes_is_found():
    one = torch.zeros(1, 5, 4, 3)
    two = one.clone()
    two[:, :, :2, 0] = 5.0
    particles = torch.cat([one, two, one])
    recorded = beliefs.Beliefs(
        mean=particles.mean(2),
        particles=particles,
        log_weights=torch.full((3, 5, 4), 0.25).log(),
        bandwidth=torch.full((3, 5, 3), 0.3),
        ess=torch.full((3, 5), 4.0),
        log_evidence=torch.zeros(3, 5),
        space=bearings.bearings.SPACE,
    )
    torch.testing.assert_close(bearings_panels.most_modes(recorded).particles, two)
