"""Every method of the paper: what resamples, what is learned first, and on which loss.

The one table that turns the name of a method into a filter and the stages of its training.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from mdpf.evaluation.evaluate import Filter
from mdpf.filters import AdaptiveParticleFilter, ParticleFilter, RecurrentFilter
from mdpf.resamplers import (
    Concrete,
    Discrete,
    ImplicitlyReparameterized,
    ImportanceWeighted,
    OptimalTransport,
    Resampler,
    Soft,
    StopGradient,
    Truncated,
)


class Networks(Protocol):
    """What a study brings: untrained networks, put together to the three kinds of filter."""

    def filter(self, resampler: Resampler) -> ParticleFilter: ...

    def adaptive_filter(self, resampler: Resampler) -> AdaptiveParticleFilter: ...

    def recurrent_filter(self) -> RecurrentFilter: ...


@dataclass(frozen=True)
class Method:
    """One method.

    Args:
        summary: One line about it.
        build: Makes its filter.
        stages: The names of its stages, in order; a study says what they are.
        reported: After which stage its numbers are reported, by the setting they are filed under.
        starts_from: The method whose trained filter it starts from, if any.
    """

    summary: str
    build: Callable[[Networks], Filter]
    stages: tuple[str, ...]
    reported: dict[str, str]
    starts_from: str | None = None


def _density(summary: str, build: Callable[[Networks], Filter]) -> Method:
    """A filter that draws from the mixture: trained on the likelihood, then refined on the squared error."""
    return Method(summary, build, ("measurement", "likelihood", "refinement"), {"default": "likelihood", "mse": "refinement"})


def _discrete(summary: str, build: Callable[[Networks], Filter]) -> Method:
    """A filter that draws from its particles: trained on the squared error, then given a bandwidth."""
    return Method(summary, build, ("measurement", "error", "bandwidth"), {"default": "bandwidth"})


METHODS: dict[str, Method] = {
    "MDPF": _density("mixture density, gradient by importance weights", lambda nets: nets.filter(ImportanceWeighted())),
    "A-MDPF": Method(
        "the same, with separate mixtures for posterior and resampling",
        lambda nets: nets.adaptive_filter(ImportanceWeighted()),
        ("likelihood", "refinement"),
        {"default": "likelihood", "mse": "refinement"},
        starts_from="MDPF",
    ),
    "TG-MDPF": _density("mixture density, gradient cut at resampling", lambda nets: nets.filter(Truncated())),
    "IRG-MDPF": _density("mixture density, gradient by implicit moves", lambda nets: nets.filter(ImplicitlyReparameterized())),
    "TG-PF": _discrete("copies of particles, gradient cut at resampling", lambda nets: nets.filter(Discrete())),
    "SR-PF": _discrete("copies, weights blended with uniform ones", lambda nets: nets.filter(Soft())),
    "DIS-PF": _discrete("copies, gradient by discrete importance weights", lambda nets: nets.filter(StopGradient())),
    "C-PF": _discrete("soft averages in place of copies", lambda nets: nets.filter(Concrete())),
    "OT-PF": _discrete("entropy-regularised optimal transport", lambda nets: nets.filter(OptimalTransport())),
    "LSTM": _discrete("a recurrent network without particles", lambda nets: nets.recurrent_filter()),
}
