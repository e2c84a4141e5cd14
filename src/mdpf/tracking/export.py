"""The step of a tracker as a program of its own, for runtimes that do not know this library.

Random numbers come in from outside, as a list of tensors, so that the program is a plain function: the same inputs give the same
beliefs everywhere. Shapes are fixed: one robot, so many particles.
"""

import copy
import importlib
import importlib.util
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mdpf import noise
from mdpf.checks import check_count
from mdpf.data.atomic import atomic, check_place
from mdpf.filters.adaptive import AdaptiveParticleFilter
from mdpf.filters.belief import Belief
from mdpf.filters.parts import smooth
from mdpf.filters.recurrent import RecurrentBelief, RecurrentFilter
from mdpf.mixture import Mixture
from mdpf.noise import Source
from mdpf.resamplers.protocol import Draw, Resampler
from mdpf.tracking.tracker import Tracker

FORMAT = "1"
DESCRIPTION = "mdpf.json"
ENDINGS = (".pt2", ".onnx")


def export(tracker: Tracker, path: str | Path, *, num_particles: int | None = None) -> dict[str, Any]:
    """Write the step of a tracker as a program.

    Args:
        tracker: The tracker; on a CPU.
        path: Where to: ``.pt2`` for ``torch.export.load``, ``.onnx`` for ONNX runtimes.
        num_particles: How many particles the program has; as many as the tracker by default.

    Returns:
        The description that goes with it: names, shapes and kinds of what goes in, names of what comes out. What comes out as
        ``next_...`` goes in at the next frame.
    """
    path = Path(path)
    if path.suffix not in ENDINGS:
        raise ValueError(f"export needs a file name that ends in {' or '.join(ENDINGS)}, got {path.name!r}.")
    if path.suffix == ".onnx" and any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxscript")):
        raise ModuleNotFoundError(
            f"export needs the packages onnx and onnxscript for {path.name!r}, got a place without. "
            "Install them with pip install 'mdpf[onnx]', or name a file that ends in .pt2."
        )
    check_place(path)
    count = tracker.num_particles if num_particles is None else num_particles
    check_count("export", count, "num_particles")
    program = RecurrentStep(tracker) if isinstance(tracker.filter, RecurrentFilter) else ParticleStep(tracker)
    inputs, kinds = _inputs(tracker, program, count)
    with torch.no_grad():
        exported = torch.export.export(program, tuple(inputs.values()))
    description = {
        "format": FORMAT,
        "inputs": {
            name: {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")} for name, value in inputs.items()
        },
        "outputs": list(program.outputs),
        "space": json.loads(tracker.space.to_json()),
        "bandwidth": program.bandwidth(),
    }
    for name, kind in kinds.items():
        description["inputs"][name]["draw"] = kind
    content = io.BytesIO()
    if path.suffix == ".onnx":
        _write_onnx(exported, list(inputs), list(program.outputs), json.dumps(description), content)
    else:
        torch.export.save(exported, content, extra_files={DESCRIPTION: json.dumps(description)})
    with atomic(path) as stream:
        stream.write(content.getvalue())
    return description


def _write_onnx(
    exported: torch.export.ExportedProgram, inputs: list[str], outputs: list[str], description: str, content: io.BytesIO
) -> None:
    # Only whoever asks for ONNX has it.
    onnx, op = importlib.import_module("onnx"), importlib.import_module("onnxscript").opset18

    def searchsorted(cumulative: Any, levels: Any, out_int32: bool = False, right: bool = False, **_: Any) -> Any:  # noqa: ANN401
        """How many are not larger: ONNX has no search, and there are few particles."""
        last, before = op.Constant(value_ints=[-1]), op.Constant(value_ints=[-2])
        pair = (op.Unsqueeze(cumulative, before), op.Unsqueeze(levels, last))
        below = op.LessOrEqual(*pair) if right else op.Less(*pair)
        return op.ReduceSum(op.Cast(below, to=onnx.TensorProto.INT64), last, keepdims=0)

    table = {torch.ops.aten.searchsorted.Tensor: searchsorted}
    names: dict[str, Any] = {"input_names": inputs, "output_names": outputs}
    found = torch.onnx.export(exported, dynamo=True, verbose=False, custom_translation_table=table, **names)
    assert found is not None
    found.model.metadata_props[DESCRIPTION] = description
    content.write(found.model_proto.SerializeToString())


class ParticleStep(nn.Module):
    """A step of a particle filter as a function of tensors alone.

    ``first`` is true for the step after a start, which does not resample; ``observed`` is false where nothing was seen.
    """

    outputs = ("next_particles", "next_log_weights", "next_resampling_log_weights", "mean", "log_evidence", "ess", "degenerate")

    def __init__(self, tracker: Tracker):
        super().__init__()
        # A copy: its resampler is replaced by one that knows of the first step.
        self.filter: Any = copy.deepcopy(tracker.filter)
        self._plain: Resampler = self.filter.resampler
        self._acts = bool(tracker.action_dim)

    def bandwidth(self) -> list[float]:
        """The width of the posterior's kernel; for an angle the inverse of its concentration."""
        return self.filter.bandwidth.bandwidths().tolist()

    def forward(
        self,
        particles: Tensor,
        log_weights: Tensor,
        resampling_log_weights: Tensor,
        first: Tensor,
        observation: Tensor,
        observed: Tensor,
        *rest: Tensor,
    ) -> tuple[Tensor, ...]:
        action, draws = (rest[0], rest[1:]) if self._acts else (None, rest)
        filter = self.filter
        filter.resampler = _Unless(self._plain, first, log_weights)
        mixtures = [Mixture(particles, log_weights, smooth(filter.bandwidth, particles))]
        if isinstance(filter, AdaptiveParticleFilter):
            mixtures.append(Mixture(particles, resampling_log_weights, smooth(filter.resampling_bandwidth, particles)))
        encoder = filter.encoder
        feature = observation if encoder is None else encoder(observation.unsqueeze(0)).squeeze(0)
        belief, info = filter.step(
            Belief(mixtures[0], mixtures[-1]), feature, action, observed=observed, generator=noise.Noise(tuple(draws))
        )
        posterior, resampling = belief.posterior, belief.resampling
        assert resampling is not None
        # Copies: what is returned twice would be one tensor with two names.
        again = resampling.log_weights if resampling is not posterior else posterior.log_weights.clone()
        evidence = torch.where(observed, info.log_evidence, 0.0)
        return posterior.locs, posterior.log_weights, again, posterior.mean(), evidence, info.ess, info.degenerate


class RecurrentStep(nn.Module):
    """A step of a recurrent filter as a function of tensors alone."""

    outputs = ("next_particles", "next_hidden", "next_cell")

    def __init__(self, tracker: Tracker):
        super().__init__()
        self.filter: Any = copy.deepcopy(tracker.filter)
        self._acts = bool(tracker.action_dim)

    def bandwidth(self) -> list[float]:
        """The width of the posterior's kernel; for an angle the inverse of its concentration."""
        return self.filter.bandwidth.bandwidths().tolist()

    def forward(
        self, particles: Tensor, hidden: Tensor, cell: Tensor, observation: Tensor, observed: Tensor, *action: Tensor
    ) -> tuple[Tensor, ...]:
        filter = self.filter
        posterior = Mixture(particles, torch.zeros_like(particles[..., 0]), smooth(filter.bandwidth, particles))
        encoder = filter.encoder
        feature = observation if encoder is None else encoder(observation.unsqueeze(0)).squeeze(0)
        done = action[0] if self._acts else None
        belief, _ = filter.step(RecurrentBelief(posterior, hidden, cell), feature, done, observed=observed)
        return belief.posterior.locs, belief.hidden, belief.cell


@dataclass(frozen=True)
class _Unless:
    """Resample, unless it is the first step: then particles and their weights stay what they are."""

    resampler: Resampler
    first: Tensor
    log_weights: Tensor

    def __call__(self, mixture: Mixture, num_particles: int, *, generator: Source = None) -> Draw:
        draw = self.resampler(mixture, num_particles, generator=generator)
        points = torch.where(self.first, mixture.locs, draw.points)
        return Draw(points, torch.where(self.first, self.log_weights, draw.log_weights))


def _inputs(tracker: Tracker, program: "ParticleStep | RecurrentStep", count: int) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Inputs of the right shapes by name, and the kinds of those that are random numbers."""
    generator = torch.Generator().manual_seed(0)
    start = torch.zeros(tracker.space.dim, dtype=tracker.dtype)
    belief = tracker.init(start, num_particles=count, generator=generator)
    kind = torch.uint8 if tracker.image else tracker.dtype
    observation = torch.zeros(tracker.observation, dtype=kind)
    action = {"action": torch.zeros(tracker.action_dim, dtype=tracker.dtype)} if tracker.action_dim else {}
    seen = {"observation": observation, "observed": torch.tensor(True)}
    if isinstance(program, RecurrentStep):
        state = belief.belief
        return {"particles": state.particles, "hidden": state.hidden, "cell": state.cell, **seen, **action}, {}
    recorder = noise.Recorder(generator)
    second = tracker.step(belief, observation, action.get("action"), generator=generator)
    tracker.step(second, observation, action.get("action"), generator=recorder)
    weights = belief.posterior.log_weights
    state = {"particles": belief.particles, "log_weights": weights, "resampling_log_weights": weights.clone()}
    draws = {f"noise_{index}": draw for index, draw in enumerate(recorder.noise.draws)}
    kinds = dict(zip(draws, recorder.plan.kinds, strict=True))
    return {**state, "first": torch.tensor(False), **seen, **action, **draws}, kinds
