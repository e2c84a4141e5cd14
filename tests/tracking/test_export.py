"""The exported step, in a process that does not know this library, has the same beliefs for the same random numbers."""

import importlib.util
import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from mdpf import noise
from mdpf.spaces import StateSpace
from mdpf.tracking.export import export

FRAMES = 4
ELSEWHERE = """
import json, sys
import torch
from safetensors.torch import load_file, save_file

path, inputs, outputs = sys.argv[1:]
extra = {"mdpf.json": ""}
program = torch.export.load(path, extra_files=extra).module()
names = json.loads(extra["mdpf.json"])
given, found = load_file(inputs), {}
state = {name: given[name] for name in names["inputs"] if name in given}
for frame in range(int(given["frames"])):
    now = {name: given[f"{frame}.{name}"] for name in names["inputs"] if f"{frame}.{name}" in given}
    with torch.no_grad():
        outcome = dict(zip(names["outputs"], program(*(({**state, **now})[name] for name in names["inputs"]))))
    outcome = {name.removeprefix("next_"): value for name, value in outcome.items()}
    state |= {name: value for name, value in outcome.items() if name in state}
    found |= {f"{frame}.{name}": value.contiguous().clone() for name, value in outcome.items()}
assert not [name for name in sys.modules if name.split(".")[0] == "mdpf"]
save_file(found, outputs)
"""


def own_beliefs(tracker, kinds, observations, actions):
    """The tracker's own beliefs, frame by frame, and the random numbers behind them as the program wants them."""
    generator = torch.Generator().manual_seed(1)
    belief = tracker.init([100.0, 0.5], generator=generator)
    given, expected = {}, {}
    state = belief.belief
    if kinds:
        given |= {"particles": belief.particles, "log_weights": belief.posterior.log_weights}
        given["resampling_log_weights"] = belief.posterior.log_weights.clone()
    else:
        given |= {"particles": belief.particles, "hidden": state.hidden, "cell": state.cell.clone()}
    resampled = len(kinds) - 2  # The dynamics draw twice.
    for frame in range(FRAMES):
        recorder = noise.Recorder(generator)
        belief = tracker.step(belief, observations[frame], actions[frame], generator=recorder)
        draws = list(recorder.noise.draws)
        if kinds and frame == 0:
            # Nothing is drawn anew at the first step; the program takes whatever stands there.
            draws = [torch.full((), 0.5).expand(shape) for shape in kinds[:resampled]] + draws
        given |= {f"{frame}.noise_{index}": draw.contiguous().clone() for index, draw in enumerate(draws)}
        observed = torch.tensor(bool(observations[frame].isfinite().all()))
        given |= {f"{frame}.observation": observations[frame].nan_to_num(), f"{frame}.observed": observed}
        given |= {f"{frame}.action": actions[frame]}
        if kinds:
            given[f"{frame}.first"] = torch.tensor(frame == 0)
        expected[frame] = belief
    return given, expected


@pytest.mark.slow
@pytest.mark.parametrize("method", ["MDPF", "A-MDPF", "TG-PF", "SR-PF", "LSTM"])
def test_same_beliefs_elsewhere(method, make_tracker, tmp_path, generator):
    tracker = make_tracker(method)
    description = export(tracker, tmp_path / "step.pt2")
    observations = torch.randn(FRAMES, 3, generator=generator)
    observations[2] = float("nan")
    actions = torch.randn(FRAMES, 1, generator=generator)
    shapes = [tuple(entry["shape"]) for entry in description["inputs"].values() if "draw" in entry]
    given, expected = own_beliefs(tracker, shapes, observations, actions)
    given = {name: value.contiguous() for name, value in given.items()}
    save_file(given | {"frames": torch.tensor(FRAMES)}, tmp_path / "in.safetensors")
    words = [sys.executable, "-c", ELSEWHERE, *(str(tmp_path / name) for name in ("step.pt2", "in.safetensors", "out.safetensors"))]
    subprocess.run(words, check=True, timeout=300, env={"PATH": "", "OMP_NUM_THREADS": "1"})
    found = load_file(tmp_path / "out.safetensors")
    for frame, belief in expected.items():
        # The two processes may choose different matrix products.
        torch.testing.assert_close(found[f"{frame}.particles"], belief.particles, rtol=1e-5, atol=1e-4)
        if method != "LSTM":
            torch.testing.assert_close(found[f"{frame}.log_weights"], belief.posterior.log_weights)
            torch.testing.assert_close(found[f"{frame}.mean"], belief.mean())
            torch.testing.assert_close(found[f"{frame}.log_evidence"], belief.log_evidence)
            torch.testing.assert_close(found[f"{frame}.ess"], belief.ess)
    assert float((found["3.particles"] - found["0.particles"]).abs().max()) > 0


def test_description_says_what_goes_in(make_tracker, tmp_path):
    export(make_tracker(), tmp_path / "step.pt2", num_particles=5)
    extra = {"mdpf.json": ""}
    torch.export.load(tmp_path / "step.pt2", extra_files=extra)
    description = json.loads(extra["mdpf.json"])
    assert description["inputs"]["particles"] == {"shape": [5, 2], "dtype": "float32"}
    assert description["inputs"]["noise_0"]["draw"] == "uniform"
    assert description["bandwidth"] == pytest.approx([0.3, 0.02])
    assert StateSpace.from_json(json.dumps(description["space"])).names == ("x", "theta")


@pytest.mark.parametrize(
    ("name", "message"), [("step.zip", "ends in .pt2 or .onnx, got 'step.zip'"), ("away/step.pt2", "folder that is there")]
)
def test_other_places_are_refused(name, message, make_tracker, tmp_path):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        export(make_tracker(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(importlib.util.find_spec("onnx") is not None, reason="onnx is installed")
def test_onnx_without_its_packages_says_what_to_install(make_tracker, tmp_path):
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'mdpf\[onnx\]'"):
        export(make_tracker(), tmp_path / "step.onnx")


@pytest.mark.filterwarnings("ignore")
def test_onnx_has_the_same_particles(make_tracker, tmp_path, generator):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    tracker = make_tracker()
    description = export(tracker, tmp_path / "step.onnx")
    observation, action = torch.randn(3, generator=generator), torch.randn(1, generator=generator)
    first = tracker.step(tracker.init([100.0, 0.5], generator=generator), observation, action, generator=generator)
    recorder = noise.Recorder(generator)
    second = tracker.step(first, observation, action, generator=recorder)
    given = {"particles": first.particles, "log_weights": first.posterior.log_weights, "first": torch.tensor(False)}
    given |= {"observation": observation, "observed": torch.tensor(True), "action": action}
    given |= {f"noise_{index}": draw for index, draw in enumerate(recorder.noise.draws)}
    session = runtime.InferenceSession(tmp_path / "step.onnx")
    wanted = [entry.name for entry in session.get_inputs()]
    given["resampling_log_weights"] = given["log_weights"]
    found = session.run(None, {name: given[name].numpy() for name in wanted})
    outcome = dict(zip(description["outputs"], found, strict=True))
    torch.testing.assert_close(torch.from_numpy(outcome["next_particles"]), second.particles)
