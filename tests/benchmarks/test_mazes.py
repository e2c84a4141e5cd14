"""The measurements of the maze study, at a tiny size."""

import torch

from mdpf.benchmarks import mazes

CPU = torch.device("cpu")


def test_there_is_a_case_for_each_maze_and_number_of_runs():
    titles = [case.title for case in mazes.cases(CPU)]
    assert titles[:3] == ["frames of maze 1", "frames of maze 2", "frames of maze 3"]
    ours = [f"{what}, {runs} runs, float32" for what in ("convolutions", "update") for runs in (1, 3)]
    assert titles[3:] == ours


def test_cases_measure_what_they_say(monkeypatch):
    monkeypatch.setitem(mazes.FRAMES, "cpu", 2)
    monkeypatch.setitem(mazes.POSES, "cpu", 4)
    monkeypatch.setattr(mazes, "repeat", lambda once, device, **limits: (once(), mazes_sample())[1])
    rows = {case.title: case.measure() for case in mazes.cases(CPU) if "2" in case.title or "1 runs" in case.title}
    (speed,) = rows["frames of maze 2"]
    assert (speed.unit, speed.params) == ("frames/s", {"maze": 2, "side": 32, "samples": 4})
    assert speed.value > 0
    ways = {(row.params["how"], row.params["side"]) for row in rows["convolutions, 1 runs, float32"]}
    assert ways == {(how, side) for how in ("side_by_side", "one_by_one", "interleaved", "in_products") for side in (24, 11, 5)}
    assert {row.params["batch"] for row in rows["update, 1 runs, float32"]} == {10}


def mazes_sample():
    from mdpf.benchmarks.measure import Sample

    return Sample([1.0], [1.0])
