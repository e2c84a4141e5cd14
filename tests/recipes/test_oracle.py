"""The filter that knows the simulator: it drives and weighs as the simulator does, and its posterior is calibrated."""

import math

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from mdpf import metrics, trees
from mdpf.evaluation import results
from mdpf.recipes import oracle
from mdpf.spaces import wrap
from mdpf.tasks import bearings
from mdpf.tasks.bearings import Cars
from mdpf.testing.assertions import assert_mean


def poses_between(count, generator, reach=7.0):
    """Poses away from the border, ``[count, 3]``."""
    side = 2 * torch.rand(count, 3, generator=generator, dtype=torch.float64) - 1
    return side * torch.tensor([reach, reach, math.pi])


def simulate(poses, num_frames, generator):
    """Drive cars on with the simulator of the task itself, from poses at which a leg begins: ``[count, num_frames, 3]``."""
    cars = Cars(poses[:, :2], poses[:, 2], poses[:, :2], torch.ones(len(poses), dtype=poses.dtype), torch.zeros(len(poses)).long())
    frames = [poses]
    for _ in range(num_frames - 1):
        for _ in range(bearings.STEPS_PER_FRAME):
            cars = bearings.advance(bearings.retarget(cars, generator))
        frames.append(torch.cat([cars.position, cars.heading[:, None]], -1))
    return torch.stack(frames, 1)


# It drives as the simulator drives.


def test_drive_on_a_leg_is_the_simulator_exactly(generator):
    poses = poses_between(500, generator)
    points = oracle.start(poses, generator=generator)
    cars = Cars(poses[:, :2], poses[:, 2], points[:, 3:5], points[:, 5], torch.ones(500).long())
    for _ in range(3):
        cars = bearings.advance(cars)
    far = (poses[:, :2] - points[:, 3:5]).norm(dim=-1) > 2.5
    moved = oracle.drive(points.view(5, 100, 6), generator=generator).view(500, 6)
    assert far.sum() > 300
    torch.testing.assert_close(moved[far, :3], torch.cat([cars.position, cars.heading[:, None]], -1)[far])
    assert torch.equal(moved[far, 3:], points[far, 3:])


def test_drive_gives_a_new_target_where_one_is_reached(generator):
    poses = poses_between(400, generator)
    target = torch.tensor([6.4, 0.0], dtype=torch.float64).expand(400, 2)
    # At 6.0 the target is within reach. At 5.7 it is not, and the car, which looks away from it, first has to turn around.
    poses[:200, 0], poses[200:, 0] = 6.0, 5.7
    poses[:, 1:] = torch.tensor([0.0, math.pi])
    moved = oracle.drive(torch.cat([poses, target, torch.ones(400, 1).double()], -1), generator=generator)
    renewed = (moved[:, 3:5] != target).any(-1)
    assert renewed[:200].all()
    assert not renewed[200:].any()


@pytest.mark.statistical
def test_new_legs_have_the_law_of_the_simulator(generator):
    place = torch.tensor([-1.0, 4.0], dtype=torch.float64).expand(40_000, 2)
    ours, speed = oracle._new_leg(place, generator)
    theirs = bearings.choose_targets(place, generator)
    toward = bearings.angle_at(place, ours, place.new_tensor(bearings.RADAR))
    assert toward.min() >= bearings.CLEARANCE
    for moment in (lambda x: x, lambda x: x.square(), lambda x: x.prod(-1, keepdim=True), lambda x: (x > 8).double()):
        difference = moment(ours) - moment(theirs)
        assert_mean(difference, torch.zeros(()), max_se=0.01 * moment(theirs).abs().max().double() + 1e-3)
    assert_mean(speed, 1.5, max_se=0.01)
    assert set(speed.tolist()) == {1.0, 2.0}


def test_new_legs_are_in_the_bands_along_the_border(generator):
    target, _ = oracle._new_leg(poses_between(2000, generator)[:, :2], generator)
    assert (target.abs() <= 10).all()
    assert (target.abs().max(-1).values >= 8).all()
    for axis in (0, 1):
        assert target[:, axis].min() < -8
        assert target[:, axis].max() > 8


# It weighs by the law of the radar.


def test_likelihood_is_the_radars_density(generator):
    particles = torch.cat([poses_between(50, generator), torch.zeros(50, 3).double()], -1)
    reported = 2 * math.pi * torch.rand(50, generator=generator, dtype=torch.float64)
    found = oracle.log_likelihood(particles[:, None], torch.stack([reported.sin(), reported.cos()], -1))[:, 0]
    gap = wrap(reported - torch.atan2(particles[:, 1], particles[:, 0] + 5))
    bessel = torch.special.i0(torch.tensor(50.0, dtype=torch.float64))
    density = 0.85 * (50 * gap.cos()).exp() / (2 * math.pi * bessel) + 0.15 / (2 * math.pi)
    torch.testing.assert_close(found.exp(), density)


def test_likelihood_pairs_each_sequence_with_its_own_report():
    particles = torch.zeros(2, 3, 6)
    particles[0, :, 0], particles[1, :, 1] = 5.0, 5.0
    report = torch.tensor([[0.0, 1.0], [math.sin(math.pi / 4), math.cos(math.pi / 4)]])
    assert oracle.log_likelihood(particles, report).min() > math.log(0.85)


# Its posterior is right.


@pytest.mark.statistical
def test_posterior_is_calibrated(generator):
    # Truth and particles are drawn alike around a centre; then the truth is one more draw from the posterior, its rank uniform.
    count, length, particles = 400, 8, 1000
    task = bearings.task()
    centre = poses_between(count, generator, reach=9.0)
    truth = task.prior(centre, 1, generator=generator)[:, 0]
    states = simulate(truth, length, generator)
    angle = bearings.observe(bearings.bearing(states), generator)
    observations = torch.stack([angle.sin(), angle.cos()], -1)
    pf = oracle.build(oracle.pose_kernel(0.1, 0.01)).double()
    belief = pf.init(oracle.start(task.prior(centre, particles, generator=generator), generator=generator))
    for frame in range(1, length):
        belief, _ = pf.step(belief, observations[:, frame], generator=generator)
    weights = belief.posterior.log_weights.exp()
    final = states[:, -1]
    radius = (belief.particles[..., :2] - final[:, None, :2]).norm(dim=-1)
    assert (radius.min(1).values < 2).double().mean() > 0.97
    for axis in (0, 1):
        rank = (weights * (belief.particles[..., axis] < final[:, None, axis])).sum(1)
        assert_mean(rank, 0.5, max_se=0.02)
        assert_mean((rank - 0.5).square(), 1 / 12, max_se=0.006)


def test_step_never_looks_at_a_value():
    # Fake tensors have shapes and no values: whoever asks for one gets an error.
    with FakeTensorMode():
        pf = oracle.build(oracle.pose_kernel(0.1, 0.01))
        with pytest.raises(DataDependentOutputException):
            pf.init(torch.zeros(2, 40, 6))
        belief = pf.init(oracle.start(torch.zeros(2, 40, 3)), check_values=False)
        for _ in range(2):
            belief, _ = pf.step(belief, torch.zeros(2, 2))
            pose = belief.posterior.marginal(oracle.POSE)
        assert pose.log_prob(torch.zeros(2, 1, 3)).shape == (2, 1)


# Its numbers are those of everybody else.


@pytest.fixture
def data():
    return bearings.task().split("validation", num_sequences=6, length=9)._replace(labelled=None)


def test_evaluate_gives_the_metrics_of_the_whole_trajectory(data):
    pf = oracle.build(oracle.pose_kernel(0.3, 0.05))
    found = oracle.evaluate(pf, data, 50, generator=torch.Generator().manual_seed(3))
    first, *later = oracle.beliefs(pf, data, 50, generator=torch.Generator().manual_seed(3))
    trajectory = trees.stack(later, 1)
    expected = metrics.summarise(metrics.measure(first, trajectory, data.states), limit=3.0)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value)


def test_evaluate_in_parts_measures_every_sequence(data, monkeypatch):
    monkeypatch.setattr(oracle, "AT_ONCE", 100)
    seen = []
    measure = metrics.summarise
    monkeypatch.setattr(metrics, "summarise", lambda frames, **options: seen.append(frames) or measure(frames, **options))
    oracle.evaluate(oracle.build(oracle.pose_kernel(0.3, 0.05)), data, 50, generator=torch.Generator().manual_seed(3))
    assert seen[0].nll.shape == (6, 9)
    assert (seen[0].squared_error[:, 0] < 0.3).all()


def test_fit_kernel_takes_the_widths_of_the_best_likelihood(data, monkeypatch):
    monkeypatch.setattr(oracle, "POSITION_WIDTHS", (0.1, 0.5, 3.0))
    monkeypatch.setattr(oracle, "HEADING_WIDTHS", (0.01, 0.3))
    found = oracle.fit_kernel(data, 50, generator=torch.Generator().manual_seed(4))
    nll = {}
    for position in oracle.POSITION_WIDTHS:
        for heading in oracle.HEADING_WIDTHS:
            pf = oracle.build(oracle.pose_kernel(position, heading))
            stream = torch.Generator().manual_seed(4)
            nll[position, heading] = oracle.evaluate(pf, data, 50, generator=stream)["nll"].item()
    assert found == min(nll, key=lambda pair: nll[pair])


def test_study_writes_a_result_with_the_usual_metrics(tmp_path):
    path = oracle.study(tmp_path, particles=200, num_sequences=8, num_fitting=4)
    assert path.name == "Oracle.json"
    found = results.load(path)
    assert (found.experiment, found.method, found.setting) == ("bearings", "Oracle", "default")
    assert set(found.runs[0]["metrics"]) == {
        *("nll", "nll_paper", "rmse", "rmse_paper", "position_rmse", "angle_rmse", "ess", "outside", "lost")
    }
    assert found.config["particles"] == 200
    assert found.config["position_width"] in oracle.POSITION_WIDTHS
    with pytest.raises(FileExistsError, match="another configuration"):
        oracle.study(tmp_path, particles=300, num_sequences=8, num_fitting=4)


@pytest.mark.parametrize("name", ["particles", "num_sequences", "num_fitting"])
def test_study_needs_something_to_work_on(name, tmp_path):
    with pytest.raises(ValueError, match=f"oracle.study needs {name}"):
        oracle.study(tmp_path, **{name: 0})


@pytest.mark.slow
def test_knowing_the_simulator_beats_knowing_nothing(tmp_path):
    data = bearings.task().split("evaluation", num_sequences=24)
    stream = torch.Generator().manual_seed(0)
    found = oracle.evaluate(oracle.build(oracle.pose_kernel(0.7, 0.08)), data, 1000, generator=stream)
    uniform = math.log(20 * 20 * 2 * math.pi)
    assert found["nll"] < uniform - 2
    shuffled = data._replace(observations=data.observations.flip(0))
    blind = oracle.evaluate(oracle.build(oracle.pose_kernel(0.7, 0.08)), shuffled, 1000, generator=stream)
    assert found["nll"] < blind["nll"] - 2
