"""Methods and seeds trained one by one, or by the workers of a cluster: the numbers are the same."""

from dataclasses import replace

import pytest

from mdpf.evaluation import results
from mdpf.recipes import cluster, logs, logs_study, parts, sweep
from mdpf.recipes.parts import Part
from mdpf.reliability import kills
from mdpf.training.deadline import Deadline

OPTIONS = {"preset": "quick", "particles": 4, "hidden_dim": 4, "batch": 16}


@pytest.fixture
def data(tmp_path):
    return kills.record(tmp_path / "walk.npz")


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setitem(logs.UPDATES, "quick", logs.Updates(3, 3, 3))


def of(data, *methods, seeds=(0, 1)):
    return sweep.Sweep(str(data), methods, seeds, OPTIONS)


def test_every_method_and_seed_is_trained_as_it_would_be_alone(data, tmp_path):
    chosen = of(data, "TG-PF", "LSTM")
    outcome = parts.carry_out(sweep.parts(chosen, tmp_path / "sweep"))
    assert list(outcome.seconds) == ["TG-PF, seed 0", "TG-PF, seed 1", "LSTM, seed 0", "LSTM, seed 1"]
    alone = logs_study.study(logs.Config("TG-PF", seed=1, **OPTIONS), data, tmp_path / "alone").results[0]
    found = sweep.gather(chosen, tmp_path / "sweep")
    assert [(result.method, len(result.runs)) for result in found] == [("TG-PF", 2), ("LSTM", 2)]
    assert found[0].runs[1]["metrics"] == alone.runs[0]["metrics"]
    assert found[0].runs[0]["metrics"] != alone.runs[0]["metrics"]
    assert found[0].config["seeds"] == [0, 1]
    assert results.load(tmp_path / "sweep" / "TG-PF.json") == found[0]
    again = parts.carry_out(sweep.parts(chosen, tmp_path / "sweep"))
    assert not again.seconds


def test_more_seeds_join_those_that_are_there(data, tmp_path):
    for seeds in ((0,), (0, 1)):
        chosen = of(data, "TG-PF", seeds=seeds)
        outcome = parts.carry_out(sweep.parts(chosen, tmp_path))
        assert list(outcome.seconds) == [f"TG-PF, seed {seeds[-1]}"]
        assert len(sweep.gather(chosen, tmp_path)[0].runs) == len(seeds)


def test_unfinished_method_is_left_out(data, tmp_path):
    chosen = of(data, "TG-PF")
    parts.carry_out(sweep.parts(chosen, tmp_path)[:1])
    assert sweep.gather(chosen, tmp_path) == []
    assert not (tmp_path / "TG-PF.json").exists()


def test_result_of_somebody_else_stays(data, tmp_path):
    chosen = of(data, "TG-PF", seeds=(0,))
    logs_study.study(logs.Config("TG-PF", seed=5, **OPTIONS), data, tmp_path)
    before = (tmp_path / "TG-PF.json").read_bytes()
    parts.carry_out(sweep.parts(chosen, tmp_path))
    with pytest.raises(FileExistsError, match="Choose another folder"):
        sweep.gather(chosen, tmp_path)
    assert (tmp_path / "TG-PF.json").read_bytes() == before


@pytest.mark.parametrize(("methods", "seeds"), [(("MDPF", "MDPF"), (0,)), ((), (0,)), (("MDPF",), (1, 1)), (("MDPF",), ())])
def test_methods_and_seeds_have_to_differ(methods, seeds):
    with pytest.raises(ValueError, match="that differ, got"):
        sweep.Sweep("walk.npz", methods, seeds, {})


def test_task_is_swept_over_too(tmp_path):
    chosen = sweep.Sweep("bearings", ("MDPF", "TG-PF"), (0, 1), {"preset": "quick"})
    found = sweep.parts(chosen, tmp_path)
    assert [part.name for part in found] == ["MDPF, seed 0", "MDPF, seed 1", "TG-PF, seed 0", "TG-PF, seed 1"]
    assert not any(part.done() or part.needs for part in found)


@pytest.fixture(scope="module")
def two_workers():
    """A cluster of two machines with a processor each, both of them this one."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'mdpf[ray]'")
    import ray
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        found.add_node(num_cpus=1)
        ray.init(address=found.address, log_to_driver=False, logging_level="ERROR")
        yield found
        ray.shutdown()
        found.shutdown()


def briefly(part):
    """A part that trains as briefly elsewhere as here."""
    do = part.do

    def brief(until):
        from mdpf.recipes import logs

        logs.UPDATES["quick"] = logs.Updates(3, 3, 3)
        do(until)

    return replace(part, do=brief)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_cluster_gives_the_same_numbers(two_workers, data, tmp_path):
    chosen = of(data, "TG-PF", "LSTM")
    here, there = tmp_path / "here", tmp_path / "there"
    parts.carry_out(sweep.parts(chosen, here))
    outcome = cluster.carry_out([briefly(part) for part in sweep.parts(chosen, there)])
    assert not outcome.failed
    assert len(outcome.seconds) == 4
    first, second = sweep.gather(chosen, here), sweep.gather(chosen, there)
    assert [result.runs for result in first] == [result.runs for result in second]
    # Who reads the result later on learns the command that was typed, not that of the worker.
    assert second[0].provenance.command == first[0].provenance.command


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_cluster_keeps_order_errors_and_time(two_workers, tmp_path):
    def note(name):
        def do(until):
            import os
            import time

            import ray

            time.sleep(1.0)
            (tmp_path / name).write_text(f"{ray.get_runtime_context().get_node_id()} {time.time()} {os.getpid()}")

        return do

    def fail(until):
        raise ValueError("A part needs luck, got none.")

    def tire(until):
        until.require(1e6, "so much")

    def part(name, do, *needs, seconds=0.0):
        return Part(name, do, (tmp_path / name).exists, needs, seconds)

    todo = [
        part("left", note("left")),
        part("right", note("right")),
        part("after", note("after"), "left", "right"),
        part("wrong", fail),
        part("lost", note("lost"), "wrong"),
        part("long", tire),
        part("longer", note("longer"), seconds=1e6),
    ]
    outcome = cluster.carry_out(todo, until=Deadline(600))
    assert outcome.seconds.keys() == {"left", "right", "after"}
    assert str(outcome.failed["wrong"]) == "A part needs luck, got none."
    assert type(outcome.failed["wrong"]) is ValueError
    assert outcome.left == {
        "lost": "It needs wrong.",
        "long": "No time is left for so much.",
        "longer": "No time is left for longer.",
    }
    left, right, after = ((tmp_path / name).read_text().split() for name in ("left", "right", "after"))
    assert left[0] != right[0]  # Each on a machine of its own.
    assert float(after[1]) > max(float(left[1]), float(right[1]))


def test_without_ray_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(cluster, "available", lambda: False)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'mdpf\[ray\]', or leave --ray out"):
        cluster.carry_out([])
