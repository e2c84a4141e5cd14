"""One update of all runs, and their judgement, carried out as fast as the device allows.

Three ways to carry them out give the same numbers, because all of them draw the noise of a batch beforehand (``noise.Plan``):

- ``"eager"``: operation by operation;
- ``"compiled"``: the step of the filter is compiled, the rest is eager;
- ``"captured"``: the same, and the whole update (choice of sequences, noise, filter, gradient, Adam) is one CUDA graph, whose
  replay costs the host a few calls.

A filter step has some hundred small operations; on a GPU the time goes into launching them, and these two remove the launches.
"""

import copy
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Generator, Tensor, nn
from torch.func import functional_call

from mdpf import noise, trees
from mdpf.checks import MdpfWarning
from mdpf.data.sequences import SequenceBatch
from mdpf.filters.belief import Belief, StepInfo
from mdpf.recording import capture
from mdpf.training import adam, processes
from mdpf.training.flat import FlatParameters
from mdpf.training.stages import Found, Noticing, Stage

Execution = Literal["auto", "eager", "compiled", "captured"]
EXECUTIONS = ("auto", "eager", "compiled", "captured")
MOST_PROGRAMS = 1024

# Compiling and recording are done one at a time; several trainings may otherwise share a process, each in a thread of its own.
PREPARING = threading.RLock()


def choose(execution: Execution, device: torch.device) -> Execution:
    """What ``"auto"`` means on a device, and what takes the place of what cannot be done there."""
    if execution not in EXECUTIONS:
        raise ValueError(f"fit needs execution to be one of {EXECUTIONS}, got {execution!r}.")
    if execution == "captured" and device.type != "cuda":
        warnings.warn(
            f"A training on {device.type} cannot be captured and is compiled only; that takes a CUDA device.",
            MdpfWarning,
            stacklevel=3,
        )
        return "compiled"
    if execution == "auto":
        return "captured" if device.type == "cuda" else "eager"
    return execution


class Update:
    """One step of the optimiser, for every run at once: calling it changes ``flat.values`` and ``state`` in place.

    Args:
        filter: A filter with a run axis.
        flat: Its parameters.
        stage: What is minimised, on batches of what size, and how gradients are clipped.
        data: The sequences to choose from, ``[n, T, ...]``.
        state: Adam's.
        rates: The learning rates of a factor of one, ``[P]``; what has rate zero stays and costs no gradient.
        generator: The source of random numbers, on the device of the parameters.
        execution: How to carry it out.
    """

    def __init__(
        self,
        filter: nn.Module,
        flat: FlatParameters,
        stage: Stage,
        data: SequenceBatch,
        state: adam.AdamState,
        rates: Tensor,
        generator: Generator,
        execution: Execution,
    ):
        num_runs, device = len(flat.values), flat.values.device
        size = min(stage.batch, data.num_sequences)
        self._flat, self._stage, self._data, self._state, self._generator = flat, stage, data, state, generator
        self._rates = rates.expand(num_runs, -1)
        self._indices = torch.zeros(num_runs, size, dtype=torch.long, device=device)
        self._counted = torch.ones(size, dtype=torch.bool, device=device)
        self._factor = torch.ones(num_runs, dtype=flat.values.dtype, device=device)
        self.active = torch.zeros(num_runs, dtype=torch.bool, device=device)
        self.losses = torch.zeros(num_runs, dtype=flat.values.dtype, device=device)
        self.norms = torch.zeros_like(self.losses)
        self.degenerate = torch.zeros(num_runs, data.num_sequences, data.length - 1, dtype=torch.bool, device=device)
        learned = flat.learned(rates)
        objective = stage.objective
        self._objective = _Handed(filter, objective.find if isinstance(objective, Noticing) else objective)
        self._step = StepInPlace(filter, flat, learned) if execution != "eager" and hasattr(filter, "step") else None
        self._learned = learned
        with PREPARING:
            self._plan = self._record_plan()
            # Runs that are not active stay as they are, so that warming up leaves no trace.
            self._carry_out = capture(self._once, generator) if execution == "captured" else self._once

    def __call__(self, indices: Tensor, counted: Tensor, factor: Tensor) -> None:
        """Update on the sequences ``indices`` ``[R, size]``, of which those that are ``counted`` ``[size]`` matter.

        ``factor`` ``[R]`` multiplies the learning rates.
        """
        self._indices.copy_(indices)
        self._counted.copy_(counted)
        self._factor.copy_(factor)
        self._carry_out()

    def start(self, active: Tensor) -> None:
        """Begin an epoch: which runs still learn, sums at zero, and no frame noted as degenerate."""
        self.active.copy_(active)
        self.losses.zero_()
        self.norms.zero_()
        self.degenerate.zero_()

    def _batch(self) -> SequenceBatch:
        batch = self._data.take(self._indices)
        return batch._replace(labelled=batch.targets & self._counted.unsqueeze(-1))

    def _record_plan(self) -> noise.Plan:
        recorder = noise.Recorder(self._generator)
        with torch.no_grad(), _installed(self._step):
            self._stage.objective(self._objective.filter, self._batch(), generator=recorder)
        return recorder.plan

    def _once(self) -> None:
        self._objective.filter.train()
        values = self._flat.values.detach().requires_grad_()
        drawn = self._plan.draw(values, self._generator)
        parameters = self._flat.views(values, self._learned)
        with _installed(self._step, values):
            found = functional_call(self._objective, _prefixed(parameters), (self._batch(),), {"generator": drawn})
        loss = found.loss if isinstance(found, Found) else found
        if isinstance(found, Found):
            self._note(found.degenerate)
        if not loss.requires_grad:
            raise ValueError(
                f"fit needs an objective that depends on what learns, got one in stage {self._stage.name!r} that does not depend "
                f"on {sorted(self._stage.rates)}. Give rates to the parts that the objective uses."
            )
        (gradients,) = torch.autograd.grad(loss.sum(), values)
        processes.average(gradients)
        rates = self._rates * self._factor.unsqueeze(-1)
        stage = self._stage
        norm = adam.update(self._state, self._flat.values, gradients, rates, self.active, stage.clip, stage.decay)
        self.losses.add_(loss.detach())
        self.norms.add_(norm)

    def _note(self, degenerate: Tensor) -> None:
        """Note for each sequence of the batch the frames ``[R, size, T - 1]`` at which nothing was possible."""
        counted = self.active[:, None, None] & self._counted[:, None]
        places = self._indices.unsqueeze(-1).expand_as(degenerate)
        self.degenerate.scatter_(1, places, self.degenerate.gather(1, places) | (degenerate & counted))


class Judgement:
    """The objective on the validation data, of which every run sees all: calling it gives ``[R]``."""

    def __init__(
        self, filter: nn.Module, stage: Stage, data: SequenceBatch, num_runs: int, generator: Generator, execution: Execution
    ):
        self._filter, self._objective, self._generator = filter, stage.objective, generator
        self._batches = [
            data.take(slice(start, start + stage.validation_batch)).map(lambda part: part.expand(num_runs, *part.shape))
            for start in range(0, data.num_sequences, stage.validation_batch)
        ]
        self._total = torch.zeros(num_runs, dtype=data.states.dtype, device=data.states.device)
        self._count = data.num_sequences
        with PREPARING:
            self._carry_out = capture(self._once, generator) if execution == "captured" else self._once

    def __call__(self) -> Tensor:
        self._carry_out()
        return self._total / self._count

    @torch.no_grad()
    def _once(self) -> None:
        self._filter.eval()
        self._total.zero_()
        for batch in self._batches:
            self._total += self._objective(self._filter, batch, generator=self._generator) * batch.num_sequences


class StepInPlace:
    """Stands in for the step of a filter while it is trained, and computes the same by compiled code.

    The parameters come from ``values``, one tensor, so that the gradients of many steps are added up in one place. What the
    compiler has to know about a belief is made the same for all steps but the first, so that it compiles two of them.
    """

    def __init__(self, filter: nn.Module, flat: FlatParameters, learned: frozenset[str]):
        self.filter = filter
        self.values: Tensor | None = None
        # A copy, whose own parameters are never looked at: those of the filter are replaced while the objective runs.
        self._plain = _Handed(copy.deepcopy(filter), type(filter).step)  # type: ignore[attr-defined]
        self._flat, self._learned = flat, learned
        self._compiled = torch.compile(self._evaluate, fullgraph=True, dynamic=False)
        self._draws: dict[bool, int] = {}
        self._requires_grad: list[bool] = []

    def __call__(
        self,
        belief: Any,  # noqa: ANN401 - of any filter
        feature: Any,  # noqa: ANN401 - whatever an encoder makes
        action: Tensor | None = None,
        *,
        observed: Tensor | None = None,
        generator: noise.Source = None,
    ) -> tuple[Any, StepInfo]:
        is_first = isinstance(belief, Belief) and belief.resampling is None
        if not isinstance(generator, noise.Replay) or self.values is None:
            before = len(generator) if isinstance(generator, noise.Recorder) else 0
            step = type(self.filter).step  # type: ignore[attr-defined]
            found = step(self.filter, belief, feature, action, observed=observed, generator=generator)
            self._draws[is_first] = (len(generator) if isinstance(generator, noise.Recorder) else 0) - before
            return found
        drawn = generator.take(self._draws[is_first])
        # Only here: importing the compiler takes a second.
        from torch._dynamo import config as dynamo_config

        # Every training of a process compiles this same method, for a filter of its own: that is no reason to give up.
        with dynamo_config.patch(recompile_limit=MOST_PROGRAMS, accumulated_recompile_limit=MOST_PROGRAMS):
            return self._compiled(self.values, self._normal(belief, is_first), feature, action, observed, drawn)

    def _evaluate(
        self,
        values: Tensor,
        belief: Any,  # noqa: ANN401
        feature: Any,  # noqa: ANN401
        action: Tensor | None,
        observed: Tensor | None,
        drawn: noise.Noise,
    ) -> tuple[Any, StepInfo]:
        parameters = _prefixed(self._flat.views(values, self._learned))
        return functional_call(self._plain, parameters, (belief, feature, action), {"observed": observed, "generator": drawn})

    def _normal(self, belief: Any, is_first: bool) -> Any:  # noqa: ANN401
        """A belief whose parts look alike at every step: nothing in it twice, and a gradient wherever one may flow."""
        if is_first:
            return belief
        if isinstance(belief, Belief):
            # A step looks at the posterior for the shape of its batch alone.
            belief = Belief(belief.resampling, belief.resampling)  # type: ignore[arg-type]
        leaves = list(trees.leaves(belief))
        if any(leaf.requires_grad for leaf in leaves):
            self._requires_grad = [leaf.requires_grad for leaf in leaves]
        elif self._requires_grad:
            for leaf, wanted in zip(leaves, self._requires_grad, strict=True):
                leaf.requires_grad_(wanted)
        return belief


class _Handed(nn.Module):
    """A function of a filter as a module, so that ``functional_call`` can hand in the filter's parameters."""

    def __init__(self, filter: nn.Module, call: Callable[..., Any]):
        super().__init__()
        self.filter = filter
        self.call = call

    def forward(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - those of the function
        return self.call(self.filter, *args, **options)


def _prefixed(parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"filter.{name}": parameter for name, parameter in parameters.items()}


@contextmanager
def _installed(step: StepInPlace | None, values: Tensor | None = None) -> Iterator[None]:
    """Let a step stand in for that of its filter."""
    if step is None:
        yield
        return
    step.values, step.filter.step = values, step  # type: ignore[assignment]
    try:
        yield
    finally:
        step.values = None
        del step.filter.step
