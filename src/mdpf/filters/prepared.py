"""A step made ready for a robot: compiled, recorded, or both, for beliefs of one shape, then called as often as frames arrive.

A step has some hundred small operations, and with few particles the time goes into calling them one by one. Compiling fuses them;
recording, on a CUDA device, leaves the host a single call.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from mdpf import noise, trees
from mdpf.filters.belief import Belief, StepInfo
from mdpf.mixture import Mixture
from mdpf.models.protocol import Feature
from mdpf.recording import capture, own_stream

Execution = Literal["auto", "compiled", "recorded", "both"]
EXECUTIONS = ("auto", "compiled", "recorded", "both")


class Steps(Protocol):
    """Any filter: what matters of it is its step."""

    def step(
        self,
        belief: Any,  # noqa: ANN401 - its own
        feature: Feature,
        action: Tensor | None = None,
        *,
        generator: noise.Source = None,
    ) -> tuple[Any, StepInfo]: ...


def prepare(
    filter: Steps,
    belief: Any,  # noqa: ANN401 - of any filter
    feature: Feature,
    action: Tensor | None = None,
    *,
    execution: Execution = "auto",
    generator: torch.Generator | None = None,
) -> "PreparedStep":
    """Make the step of a filter ready for beliefs, features and actions like these; takes seconds to a minute.

    Args:
        filter: The filter, on its device and in its final state: a recorded step keeps to the parameters it was recorded with.
        belief: A belief like those to come, of any frame.
        feature: What an encoder makes of one observation.
        action: What is done between two frames, where the filter knows of actions.
        execution: ``"compiled"``, ``"recorded"`` (on a CUDA device), or ``"both"``; by default recorded on a CUDA device and
            compiled elsewhere.
        generator: The source of random numbers, on the device of the belief; a new one by default.

    Returns:
        A function of belief, feature and action that gives what ``filter.step`` gives, without gradients.
    """
    if execution not in EXECUTIONS:
        raise ValueError(f"prepare needs execution to be one of {EXECUTIONS}, got {execution!r}.")
    device = belief.particles.device
    if execution in ("recorded", "both") and device.type != "cuda":
        raise ValueError(f"prepare needs a CUDA device for execution={execution!r}, got {device}. Compile the step there.")
    if execution == "auto":
        execution = "recorded" if device.type == "cuda" else "compiled"
    generator = torch.Generator(device).manual_seed(torch.initial_seed()) if generator is None else generator
    with torch.no_grad(), own_stream(device):
        if isinstance(belief, Belief) and belief.resampling is None:
            belief, _ = filter.step(belief, feature, action, generator=generator)
        return PreparedStep(filter, _Inputs.of(belief, feature, action), execution, generator)


class PreparedStep:
    """The step of a filter for values of one shape; others, and the first step of a sequence, are done by the filter itself."""

    def __init__(self, filter: Steps, like: "_Inputs", execution: Execution, generator: torch.Generator):
        self._filter, self._generator, self._shapes = filter, generator, like.shapes()
        recorder = noise.Recorder(generator)
        filter.step(*like.arguments(), generator=recorder)
        plan = recorder.plan
        step = filter.step if execution == "recorded" else torch.compile(filter.step, fullgraph=True, dynamic=False)

        def advance(given: _Inputs) -> tuple[Any, StepInfo]:
            # Drawn outside of what is compiled, so that the numbers are those of the plain step.
            return step(*given.arguments(), generator=plan.draw(next(trees.leaves(given.state)), generator))

        self._advance = advance if execution == "compiled" else _record(advance, like, generator)
        self._advance(like)

    @torch.no_grad()
    def __call__(
        self,
        belief: Any,  # noqa: ANN401 - of the filter
        feature: Feature,
        action: Tensor | None = None,
    ) -> tuple[Any, StepInfo]:
        given = _Inputs.of(belief, feature, action)
        if given.shapes() != self._shapes:
            return self._filter.step(belief, feature, action, generator=self._generator)
        return self._advance(given)


class _Inputs(NamedTuple):
    """What a step depends on: of a particle filter's belief that is the mixture it draws from."""

    state: Any
    feature: Feature
    action: Tensor | None

    @staticmethod
    def of(belief: Any, feature: Feature, action: Tensor | None) -> "_Inputs":  # noqa: ANN401
        return _Inputs(belief.resampling if isinstance(belief, Belief) else belief, feature, action)

    def arguments(self) -> tuple[Any, Feature, Tensor | None]:
        belief = Belief(self.state, self.state) if isinstance(self.state, Mixture) else self.state
        return belief, self.feature, self.action

    def shapes(self) -> list[tuple[torch.Size, torch.dtype, torch.device]]:
        return [(leaf.shape, leaf.dtype, leaf.device) for leaf in trees.leaves(self)]


def _record(advance: Callable[[_Inputs], Any], like: _Inputs, generator: torch.Generator) -> Callable[[_Inputs], Any]:
    """Record a function; each call copies its inputs in and its outcome out, in one go each."""
    inputs, outcome = trees.tree_map(torch.clone, like), []
    into = list(trees.leaves(inputs))

    def once() -> None:
        outcome[:] = [advance(inputs)]

    replay = capture(once, generator)
    # A plain filter believes in the mixture it draws from: a tensor may be in there twice.
    out = {id(leaf): leaf for leaf in trees.leaves(outcome)}

    def call(given: _Inputs) -> Any:  # noqa: ANN401
        torch._foreach_copy_(into, list(trees.leaves(given)))  # pyright: ignore[reportPrivateImportUsage]
        replay()
        copies = [torch.empty_like(leaf) for leaf in out.values()]
        torch._foreach_copy_(copies, list(out.values()))  # pyright: ignore[reportPrivateImportUsage]
        found = dict(zip(out, copies, strict=True))
        return trees.tree_map(lambda leaf: found[id(leaf)], outcome[0])

    return call
