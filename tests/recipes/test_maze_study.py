"""The study of mazes at a tiny size: every method, with and without a first stage, in parts that can be interrupted."""

import json
from dataclasses import replace

import pytest
import torch

from mdpf import cli
from mdpf.data import files
from mdpf.evaluation import results
from mdpf.models import stack_runs
from mdpf.recipes import maze_global, maze_study, mazes, training
from mdpf.recipes.maze_study import Scope
from mdpf.recipes.methods import METHODS
from mdpf.recipes.studies import Place
from mdpf.spaces import wrap
from mdpf.tasks import TASKS
from mdpf.tasks.mazes import geometry, recordings
from mdpf.tasks.mazes.task import ORIGINAL, SPACE
from mdpf.training import checkpoint
from mdpf.training.fit import fit
from mdpf.training.flat import FlatParameters
from mdpf.training.stages import Cosine

TINY = mazes.Preset(1e-3, 1e-3, 0.5, 1, 1, 1e-3, 1, Cosine())
SIZES = mazes.Sizes(2, 1, 2)
SCOPE = Scope(mazes=(2,), particles=(30,), num_walks=2)


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(mazes.PRESETS, "tiny", TINY)
    monkeypatch.setitem(mazes.SIZES, "tiny", SIZES)


def study(folder, *, methods=("MDPF", "A-MDPF", "TG-PF", "LSTM"), scope=SCOPE, minutes=None):
    place = Place(folder / "results", folder / "work", minutes=minutes)
    return maze_study.run(place, methods=methods, runs=2, preset="tiny", scope=scope, particles=5)


def numbers(folder):
    files = sorted((folder / "results").glob("*@*.json"))
    return {file.name: json.loads(file.read_text())["runs"] for file in files}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(mazes.PRESETS, "tiny", TINY)
        patch.setitem(mazes.SIZES, "tiny", SIZES)
        outcome = study(folder)
    assert not outcome.left
    assert not outcome.failed
    return folder


def test_study_writes_every_result_with_its_weights(undisturbed):
    ours = {"", "-mse"}
    names = {"MDPF": ours, "A-MDPF": ours, "TG-PF": {"", "-scratch"}, "LSTM": {"", "-scratch"}}
    expected = {f"{name}@maze-2{end}{blind}.json" for name, ends in names.items() for end in ends for blind in ("", "-shuffled")}
    expected |= {f"{name}@maze-2-anywhere-30.json" for name in ("MDPF", "A-MDPF", "TG-PF")}
    assert set(numbers(undisturbed)) == expected | {"dead-reckoning@maze-2.json"}
    found = results.load(undisturbed / "results" / "MDPF@maze-2.json")
    assert found.config["maze"] == 2
    assert [run["seed"] for run in found.runs] == [0, 1]
    assert {"nll", "nll_paper", "position_rmse", "angle_rmse", "lost"} <= found.runs[0]["metrics"].keys()
    files = {path.name for path in (undisturbed / "results" / "weights").iterdir()}
    assert files == {f"{name}@maze-2{end}.safetensors" for name, ends in names.items() for end in ends if end != "-scratch"}


def test_a_first_stage_is_made_once_and_left_out_where_told(undisturbed):
    work = undisturbed / "work" / "2"
    # Checkpoints of what is done are gone, but for what another method starts from.
    kept = {path.relative_to(work).as_posix() for path in work.rglob("*.safetensors")}
    assert kept == {"pretrained/measurement/measurement.safetensors", "pretrained/MDPF/likelihood.safetensors"}
    parts = results.load(undisturbed / "results" / "TG-PF@maze-2-scratch.json").provenance.parts
    assert not any(name.startswith("measurement") for name in parts)


def test_whoever_calls_again_finds_everything_done_and_an_interruption_changes_nothing(undisturbed, tmp_path):
    again = study(undisturbed)
    assert not again.seconds
    for _ in range(20):
        if not study(tmp_path, methods=("MDPF",), minutes=0.01).left:
            break
    else:
        study(tmp_path, methods=("MDPF",))
    whole = numbers(undisturbed)
    for name, runs in numbers(tmp_path).items():
        assert runs == whole[name], name


def test_methods_with_fewer_runs_share_the_first_stage_of_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(maze_study, "RUNS", 2)
    monkeypatch.setattr(maze_study, "FEWER_RUNS", 1)
    scope = Scope(mazes=(1,), scratch=False, particles=())
    options = {"methods": ("TG-MDPF", "TG-PF"), "preset": "tiny", "scope": scope, "particles": 4}
    outcome = maze_study.run(Place(tmp_path / "results", tmp_path / "work"), **options)
    assert not outcome.failed
    counts = {path.name: len(results.load(path).runs) for path in (tmp_path / "results").glob("TG*@maze-1.json")}
    assert counts == {"TG-MDPF@maze-1.json": 2, "TG-PF@maze-1.json": 1}
    (stage,) = (tmp_path / "work").rglob("measurement.safetensors")
    assert checkpoint.load(stage).tensors["best"].shape[0] == 2
    spent = [results.load(path).provenance.parts for path in (tmp_path / "results").glob("TG*@maze-1.json")]
    # Both report what it took.
    assert all("measurement" in parts for parts in spent)


def test_another_configuration_is_refused(undisturbed):
    options = {"methods": ("MDPF",), "runs": 2, "preset": "tiny", "scope": SCOPE}
    with pytest.raises(FileExistsError, match="particles=5 where this has 25"):
        maze_study.run(Place(undisturbed / "results", undisturbed / "work"), **options)


def test_weights_are_those_of_the_median_run(undisturbed):
    found = results.load(undisturbed / "results" / "MDPF@maze-2.json")
    filter, config = mazes.load_run(undisturbed / "results" / "weights" / "MDPF@maze-2.safetensors")
    assert (config.maze, config.runs, config.particles) == (2, 1, 5)
    learned = checkpoint.load(undisturbed / "work" / "2" / "pretrained" / "MDPF" / "likelihood.safetensors")
    saved = FlatParameters(stack_runs([filter]), 1).values[0]
    assert torch.equal(saved, learned.tensors["best"][found.median_run()])
    alone = maze_study.judge(filter, config, mazes.evaluation_data(config, undisturbed / "work" / "2" / "data"))
    assert alone.keys() == found.runs[0]["metrics"].keys()
    with pytest.raises(ValueError, match="needs weights of the maze study"):
        mazes.load_run(_other_weights(undisturbed))


def _other_weights(folder):
    from mdpf.training import weights

    path = folder / "other.safetensors"
    weights.save(path, torch.nn.Linear(1, 1), {"task": "bearings"})
    return path


def test_metrics_are_in_the_units_of_the_paper():
    """An error of one unit of the engine counts along each axis as its extent says."""
    config = mazes.Config("MDPF", maze=2)
    maze = geometry.read(2)
    steps = torch.tensor([[10.0, 0.0, 0.1], [0.0, 10.0, 0.0]])
    middle = torch.tensor([[750.0, 450.0, 0.0]])
    ours = mazes.CLEAN.states(maze, middle + steps) * mazes.units(config)
    theirs = ORIGINAL.states(maze, middle + steps)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(mazes.units(replace(config, conventions="original")), torch.ones(3))


def test_shuffled_walks_keep_everything_but_their_images():
    config = mazes.Config("MDPF", preset="tiny")
    data = mazes.evaluation_data(config)
    blind = maze_study.shuffled(data)
    assert torch.equal(blind.observations[1], data.observations[0])
    assert torch.equal(blind.states, data.states)
    assert torch.equal(blind.actions, data.actions)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_and_is_judged(method, tmp_path):
    config = mazes.Config(method, preset="tiny", particles=4)
    folder = tmp_path / "work"
    trained = mazes.train(config, folder, data=tmp_path / "data")
    (stage,) = {METHODS[method].reported["default"]}
    found = maze_study.judge(trained.filters[stage], config, mazes.evaluation_data(config), runs=1)
    assert found["nll"].shape == (1,)
    assert found["nll"].isfinite().all()
    assert found["angle_rmse"] > 0


@pytest.mark.gpu
@pytest.mark.compile
@pytest.mark.parametrize("stage", ["measurement", "likelihood"])
def test_a_captured_update_is_the_eager_one(stage):
    """Noise of camera and odometry is drawn inside the captured update, from the same stream."""
    config = mazes.Config("MDPF", runs=2, preset="tiny", particles=5)
    data = mazes.learning_data(config, "train", device="cuda")
    data = data.labelled_frames() if stage == "measurement" else data
    found = []
    for execution in ("eager", "captured"):
        learned = mazes.training_of(config)
        filter = training.build(learned, device="cuda")
        found.append(fit(filter, training.stages(learned)[stage], data, data, num_runs=2, seed=0, execution=execution).values)
    torch.testing.assert_close(found[1], found[0], rtol=1e-2, atol=1e-3)


def test_published_recordings_take_the_place_of_rendered_walks(tmp_path):
    maze = geometry.read(3)
    for name, count in (("train", 5), ("test", 2)):
        generator = torch.Generator().manual_seed(count)
        recordings.save(tmp_path / f"nav03_{name}.npz", recordings.record(maze, count, generator=generator))
    choices = {"recordings": str(tmp_path), "conventions": "original", "frozen": True, "bound": (7.0, 7.0, 1.0, 1.0)}
    config = mazes.Config("MDPF", 3, preset="tiny", particles=4, **choices)
    data = [mazes.learning_data(config, name) for name in ("train", "validation")]
    # Frozen: cropped and disturbed already. Two walks give ten windows, the other one five.
    assert [tuple(part.observations.shape) for part in data] == [(10, 17, 24, 24, 3), (5, 17, 24, 24, 3)]
    assert torch.equal(data[0].observations, mazes.learning_data(config, "train").observations)
    starts = torch.cat([part.states[::5, 0] for part in data])
    assert len(starts.unique(dim=0)) == 3
    trained = mazes.train(config, tmp_path / "work")
    assert trained.filters["likelihood"].dynamics.bound.tolist() == [7.0, 7.0, 1.0, 1.0]


def test_walks_of_another_version_are_rendered_anew(tmp_path, monkeypatch):
    """What the cache kept of an older version is not trusted; what it kept of this one is read."""
    rendered = []
    record = recordings.record

    def counted(*args, **options):
        rendered.append(args)
        return record(*args, **options)

    monkeypatch.setattr(mazes.recordings, "record", counted)
    for version, count in ((7, 1), (7, 1), (8, 2)):
        monkeypatch.setattr(mazes.mazes, "VERSION", version)
        mazes._walks.cache_clear()
        mazes.walks(mazes.Config("MDPF", preset="tiny"), "validation", tmp_path)
        assert len(rendered) == count
    mazes._walks.cache_clear()


def test_searching_starts_everywhere_and_tells_when_the_truth_is_kept():
    config = mazes.Config("MDPF", maze=1)
    start = maze_global.everywhere(config, 3, 400)
    poses = mazes.CLEAN.poses(geometry.read(1), start.double())
    assert geometry.read(1).has_room(poses[..., :2].numpy(), 15.9).all()
    assert len((poses[0, :, :2] // 100).unique(dim=0)) == 50
    shares = torch.tensor([[0.0, 0.9, 0.2, 0.8, 0.9], [0.1, 0.1, 0.9, 0.1, 0.4], [0.6, 0.6, 0.6, 0.6, 0.6]])
    assert maze_global.first_kept(shares).tolist() == [3, 5, 0]


def test_weight_near_the_truth_by_hand():
    """Near is within two units of the paper, in which maze 1 is as high as it is wide, and 45 degrees."""
    config = mazes.Config("MDPF", maze=1)
    truth = torch.tensor([[[1.0, 2.0, 3.0]]])
    moves = torch.tensor([[0.0, 0, 0], [1.9, 0, 0], [0, 1.1, 0], [0, 0, 0.7], [0, 0, -1.0]])
    particles = (truth.unsqueeze(-2) + moves).clone()
    particles[..., 2] = wrap(particles[..., 2])
    weights = torch.tensor([0.1, 0.2, 0.3, 0.15, 0.25]).log().expand(1, 1, 5)
    found = maze_global.share_near(maze_global.Search(particles, weights, truth), config)
    torch.testing.assert_close(found, torch.tensor([[0.1 + 0.2 + 0.15]]))


def test_command_line_trains_in_a_maze_and_judges_the_run_on_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert call("train", "maze-2", "TG-PF", "--preset", "tiny", "--particles", "4", "--device", "cpu") == 0
    assert "Wrote runs/maze-2/TG-PF@maze-2.json." in capsys.readouterr().out
    files.write("walks.npz", TASKS["maze-2"]().split("evaluation", num_sequences=2, length=12), SPACE)
    assert call("evaluate", "runs/maze-2", "--data", "walks.npz", "--json", "judged.json") == 0
    assert json.loads((tmp_path / "judged.json").read_text())["metrics"]["position_rmse"] > 0
    assert call("train", "maze-2", "TG-PF", "--width", "4") == 2
    assert "needs no --width for the task maze-2, got 4" in capsys.readouterr().err


def call(*words):
    try:
        cli.main(list(words))
    except SystemExit as stopped:
        return stopped.code
    return 0
