"""Sequences of one's own: any space, any observation, labels and gaps as they come; from a file to a tracker that works."""

import json
import math

import numpy as np
import pytest
import torch

import mdpf
from mdpf.data import cutting, files
from mdpf.data.sequences import SequenceBatch
from mdpf.evaluation import beliefs, results
from mdpf.recipes import logs, logs_study, runs, using
from mdpf.recipes.blueprint import Blueprint, derive
from mdpf.recipes.training import Preset
from mdpf.spaces import StateSpace
from mdpf.training.stages import Cosine


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setitem(logs.PRESETS, "quick", Preset(6e-3, 6e-3, 0.5, 0, 0, 1e-2, 0, Cosine()))
    monkeypatch.setitem(logs.UPDATES, "quick", logs.Updates(3, 3, 3))


def walk(num_sequences=10, length=12, *, seed=0, images=False, acts=True, ragged=False, sparse=False, gaps=False):
    """A point on a line with a heading that turns as told, seen with noise."""
    rng = np.random.default_rng(seed)
    turn = rng.normal(0, 0.3, (num_sequences, length - 1, 1))
    heading = np.concatenate([np.zeros((num_sequences, 1)), turn[..., 0].cumsum(1)], 1)
    place = 100 + np.concatenate([np.zeros((num_sequences, 1)), np.cos(heading[:, :-1])], 1).cumsum(1)
    arrays = {
        "states": np.stack([place, heading], -1),
        "observations": np.stack([place + rng.normal(0, 0.2, place.shape), 5 + rng.normal(0, 1, place.shape)], -1),
        "space": np.array(StateSpace.of("x", heading="angle").to_json()),
    }
    if images:
        arrays["observations"] = rng.integers(0, 256, (num_sequences, length, 9, 12, 3), dtype=np.uint8)
    if acts:
        arrays["actions"] = turn
    if ragged:
        lengths = rng.integers(4, length + 1, num_sequences)
        arrays["valid"] = np.arange(length) < lengths[:, None]
    if sparse:
        arrays["states"][:, np.arange(length) % 3 != 1] = np.nan
    if gaps:
        arrays["observations"][rng.random(place.shape) < 0.3] = np.nan
    return arrays


@pytest.fixture
def write(tmp_path):
    def make(**options):
        path = tmp_path / "walk.npz"
        np.savez(path, **walk(**options))
        return path

    return make


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"acts": False},
        {"images": True},
        {"ragged": True, "sparse": True, "gaps": True},
        {"num_sequences": 1, "length": 60},
    ],
    ids=["actions", "no actions", "images", "ragged, sparse, gaps", "one sequence"],
)
def test_any_file_is_trained_judged_loaded_and_followed(options, write, tmp_path):
    path = write(**options)
    found = logs_study.study(logs.Config("MDPF", particles=5, preset="quick", batch=8), path, tmp_path / "run")
    assert [result.method for result in found.results + found.baselines] == ["MDPF", "MDPF", "LSTM", "dead-reckoning"]
    for result in found.results + found.baselines:
        assert math.isfinite(result.metric("nll")[0])
        assert 0 <= result.metric("coverage_0.9")[0] <= 1
    run = runs.open_run(tmp_path / "run")
    judged = using.judge(run, path, particles=7)
    assert math.isfinite(judged["metrics"]["nll"])
    followed = using.track(run, path, particles=7, start="box")
    data, _ = files.read(path)
    assert followed.particles.shape == (*data.states.shape[:2], 7, 2)
    assert bool(followed.particles.isfinite().all())
    torch.testing.assert_close(followed.log_weights.exp().sum(-1), torch.ones(data.states.shape[:2]), rtol=0, atol=1e-4)


@pytest.mark.parametrize("method", ["A-MDPF", "LSTM", "C-PF"])
def test_every_method_learns_from_a_file(method, write, tmp_path):
    found = logs_study.study(logs.Config(method, particles=4, preset="quick", batch=8, runs=2), write(), tmp_path / "run")
    assert len(found.results[0].runs) == 2
    assert math.isfinite(found.results[0].metric("nll")[1])
    assert mdpf.load(tmp_path / "run").init([100.0, 0.0]).posterior.state_dim == 2


def test_training_goes_on_and_gives_the_same(write, tmp_path):
    path, config = write(), logs.Config("TG-MDPF", particles=4, preset="quick", batch=8)

    class Enough(Exception):
        pass

    def stop(method, epoch):
        if epoch.stage == "likelihood" and epoch.number == 2:
            raise Enough

    with pytest.raises(Enough):
        logs_study.study(config, path, tmp_path / "broken", watch=stop)
    again = logs_study.study(config, path, tmp_path / "broken")
    whole = logs_study.study(config, path, tmp_path / "whole")
    assert [result.runs for result in again.results] == [result.runs for result in whole.results]


def test_other_configuration_is_refused_before_any_work(write, tmp_path):
    path = write()
    logs_study.study(logs.Config("TG-PF", particles=4, preset="quick", batch=8), path, tmp_path / "run")
    before = {file: file.read_bytes() for file in (tmp_path / "run").rglob("*.*") if file.is_file()}
    with pytest.raises(FileExistsError, match="seed=0 where this has 1"):
        logs_study.study(logs.Config("TG-PF", particles=4, preset="quick", batch=8, seed=1), path, tmp_path / "run")
    assert before == {file: file.read_bytes() for file in (tmp_path / "run").rglob("*.*") if file.is_file()}


def test_changed_data_are_refused(write, tmp_path):
    config = logs.Config("TG-PF", particles=4, preset="quick", batch=8)
    logs_study.study(config, write(), tmp_path / "run")
    with pytest.raises(FileExistsError, match="another"):
        logs_study.study(config, write(seed=1), tmp_path / "run")


class TestBlueprint:
    def derived(self, **options):
        arrays = walk(**({"num_sequences": 200, "length": 20} | options))
        space = StateSpace.from_json(str(arrays.pop("space")))
        data = SequenceBatch(**{name: torch.from_numpy(array).float() for name, array in arrays.items()})
        return derive(data.take(slice(0, 150)), data.take(slice(150, None)), space), data

    def test_finds_the_motion_that_made_the_data(self):
        blueprint, data = self.derived()
        # x moves by the cosine of the heading, which turns by the action: both are linear in the features.
        features = blueprint.features
        filter = logs.LogNetworks(blueprint).dynamics()
        with torch.no_grad():
            filter.log_noise.fill_(-20.0)
            moved = filter(data.states[:, :1], data.actions[:, 0])[:, 0]
        error = StateSpace.from_json(blueprint.space).difference(moved, data.states[:, 1])
        assert features.dim == len(blueprint.looks_at) + 2 + 3
        assert float(error.abs().max()) < 0.05
        assert blueprint.noise[1] == 0.01

    def test_holds_what_json_holds(self):
        blueprint, _ = self.derived()
        assert Blueprint.from_json(json.loads(json.dumps(blueprint.to_json()))) == blueprint

    def test_units_do_not_matter(self):
        plain, data = self.derived()
        unit = torch.tensor([1000.0, 1.0])
        scaled = derive(
            *(part._replace(states=part.states * unit) for part in (data.take(slice(0, 150)), data.take(slice(150, None)))),
            plain.state_space,
        )
        for name in ("scale", "bandwidth", "start", "step", "bound"):
            assert getattr(scaled, name)[0] == pytest.approx(1000 * getattr(plain, name)[0], rel=1e-3)
        assert scaled.looks_at == plain.looks_at
        np.testing.assert_allclose(scaled.drift, plain.drift, atol=1e-2)

    def test_a_velocity_is_looked_at_and_a_place_is_not(self):
        generator = torch.Generator().manual_seed(0)
        speed = torch.randn(100, 30, generator=generator).cumsum(1) * 0.1
        place = speed.cumsum(1) + 0.01 * torch.randn(100, 30, generator=generator)
        states = torch.stack([place, speed], -1)
        data = SequenceBatch(states, states)
        blueprint = derive(data.take(slice(0, 80)), data.take(slice(80, None)), StateSpace.of("place", "speed"))
        assert blueprint.looks_at == (1,)

    def test_single_labels_are_not_enough(self):
        states = torch.zeros(5, 6, 1)
        labelled = torch.zeros(5, 6, dtype=torch.bool)
        labelled[:, 0] = True
        with pytest.raises(ValueError, match="got none. A filter starts from one and learns from the next"):
            cutting.begin_with_label(SequenceBatch(states, states, labelled=labelled))


class TestCutting:
    def data(self, num_sequences=6, length=11):
        states = torch.arange(num_sequences * length).float().reshape(num_sequences, length, 1)
        return SequenceBatch(states, states, states[:, :-1])

    def test_windows_begin_with_labels_and_keep_everything_in_order(self):
        data = self.data()
        labelled = torch.zeros(6, 11, dtype=torch.bool)
        labelled[:, 2::3] = True
        cut = cutting.windows(data._replace(labelled=labelled), 5)
        assert bool(cut.targets[:, 0].all())
        assert bool(cut.targets[:, 1:].any(1).all())
        inside = cut.valid if cut.valid is not None else torch.ones_like(cut.targets)
        differences = cut.states[:, 1:, 0] - cut.states[:, :-1, 0]
        assert bool((differences == 1)[inside[:, 1:]].all())
        # Action t leads from frame t on: here it is named like the state it leaves.
        assert torch.equal(cut.actions[inside[:, 1:]], cut.states[:, :-1][inside[:, 1:]])

    def test_split_has_every_sequence_once(self):
        parts = cutting.split(self.data(20), seed=3)
        firsts = torch.cat([part.states[:, 0, 0] for part in parts[:3]])
        assert sorted(firsts.tolist()) == self.data(20).states[:, 0, 0].tolist()
        assert not parts.cut

    def test_split_of_one_sequence_cuts_it_in_time(self):
        parts = cutting.split(self.data(1, 100))
        assert parts.cut
        frames = torch.cat([part.states.flatten() for part in parts[:3]])
        assert sorted(frames.tolist()) == list(range(100))

    def test_too_little_to_split_is_said(self):
        with pytest.raises(ValueError, match="at least 3 sequences"):
            cutting.split(self.data(2, 2))


def test_space_that_does_not_fit_is_refused(write, tmp_path):
    path = write()
    logs_study.study(logs.Config("TG-PF", particles=4, preset="quick", batch=8), path, tmp_path / "run")
    run = runs.open_run(tmp_path / "run")
    for changed, message in [
        ({"space": np.array(StateSpace.of("y", heading="angle").to_json())}, "needs the coordinates"),
        ({"observations": walk()["observations"][..., :1]}, r"vectors of shape \[2\], got vectors of shape \[1\]"),
        ({"actions": np.zeros((10, 11, 2))}, "needs 1 numbers per action, got 2"),
    ]:
        other = tmp_path / "other.npz"
        np.savez(other, **(walk() | changed))
        with pytest.raises(ValueError, match=message):
            using.judge(run, other)


def test_track_writes_what_files_of_beliefs_hold(write, tmp_path):
    path = write()
    logs_study.study(logs.Config("MDPF", particles=4, preset="quick", batch=8), path, tmp_path / "run")
    found = using.track(runs.open_run(tmp_path / "run"), path)
    beliefs.write(tmp_path / "beliefs.npz", found)
    with np.load(tmp_path / "beliefs.npz") as arrays:
        assert arrays["mean"].shape == (10, 12, 2)
        assert arrays["particles"].shape == (10, 12, 4, 2)
        assert arrays["log_weights"].shape == (10, 12, 4)
        assert arrays["ess"].shape == arrays["log_evidence"].shape == (10, 12)
        assert np.all(arrays["log_evidence"][:, 0] == 0)
    assert results.read_json(tmp_path / "run" / "MDPF.json")["experiment"] == "walk"
