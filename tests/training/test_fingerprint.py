"""Descriptions: equal for equal trainings in any process, different for any difference that matters."""

import functools
import subprocess
import sys
from dataclasses import replace

import torch

from mdpf import resamplers
from mdpf.data.sequences import SequenceBatch
from mdpf.training.fingerprint import describe, fingerprint
from mdpf.training.objectives import Tracking
from mdpf.training.stages import Plateau

PROGRAM = """
import sys; sys.path[:0] = {path!r}
import torch
from mdpf import resamplers
from mdpf.recipes.networks import VectorNetworks
from mdpf.tasks import bearings
from mdpf.training.fingerprint import fingerprint
from mdpf.training.stages import Cosine
task = bearings.task()
pf = VectorNetworks(task.space, 2, (1.6,) * 4, (1.0,) * 3, (0.1,) * 3).adaptive_filter(resamplers.Soft())
print(fingerprint((task, pf, Cosine(), {{"a": None, "b": {{1: 2.5}}}}, torch.arange(5))))
"""


def test_description_is_the_same_in_every_process(capsys):
    program = PROGRAM.format(path=sys.path)
    exec(compile(program, "here", "exec"), {})
    here = capsys.readouterr().out
    there = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert here == there
    assert len(here.strip()) == 16


def test_description_holds_no_address(make_single, make_stage):
    text = describe((make_single(), make_stage()))
    assert " at 0x" not in text
    assert "ImportanceWeighted" in text


def test_description_of_a_module_ignores_values_mode_and_compiled_methods(make_single):
    one, other = make_single(0), make_single(1).eval()
    other.step = functools.partial(other.step)
    assert fingerprint(one) == fingerprint(other)


def test_description_tells_apart_what_differs(make_single, make_stage, tracking, task):
    one = make_single()
    assert fingerprint(one) != fingerprint(make_single(method="truncated"))
    changed = make_single()
    changed.resampler = replace(changed.resampler, select=resamplers.Soft().select)
    assert fingerprint(one) == fingerprint(changed)
    changed.dynamics.bound.mul_(2)
    assert fingerprint(one) != fingerprint(changed)
    stage = make_stage()
    for other in (
        make_stage(epochs=5),
        make_stage(schedule=Plateau()),
        make_stage(rates={"": 3e-3}),
        make_stage(objective=replace(tracking, num_particles=5)),
        make_stage(objective=replace(tracking, truncate=None)),
        make_stage(objective=Tracking(lambda posterior, states: states, task.prior, 4)),
    ):
        assert fingerprint(stage) != fingerprint(other)
    assert fingerprint(stage) == fingerprint(make_stage())


def test_description_of_closures_goes_by_what_they_hold():
    def scaled(factor):
        return lambda value: factor * value

    assert fingerprint(scaled(2.0)) == fingerprint(scaled(2.0))
    assert fingerprint(scaled(2.0)) != fingerprint(scaled(3.0))
    assert fingerprint(functools.partial(scaled, 1)) != fingerprint(functools.partial(scaled, 2))
    assert fingerprint(torch.no_grad()(fingerprint)) == fingerprint(fingerprint)


def test_description_of_data_notices_one_value_and_one_mask():
    batch = SequenceBatch(torch.zeros(3, 5, 2), torch.zeros(3, 5, 1))
    states = batch.states.clone()
    states[1, 2, 0] = 1e-6
    masked, wider, shorter = batch._replace(labelled=batch.targets), batch.to(dtype=torch.float64), batch.take(slice(2))
    others = [batch._replace(states=states), masked, wider, shorter]
    assert len({fingerprint(value) for value in (batch, *others)}) == 5


def test_description_ends_even_in_a_circle():
    circle = []
    circle.append(circle)
    assert describe(circle).endswith("..." + ")" * 21)
