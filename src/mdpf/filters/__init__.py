"""Filters: recursions over beliefs."""

from mdpf.filters.adaptive import AdaptiveParticleFilter
from mdpf.filters.belief import Belief, StepInfo, Trajectory
from mdpf.filters.particle import ParticleFilter
from mdpf.filters.scan import collect_trajectory, scan
from mdpf.filters.weights import effective_sample_size, reweight

__all__ = [
    "AdaptiveParticleFilter",
    "Belief",
    "ParticleFilter",
    "StepInfo",
    "Trajectory",
    "collect_trajectory",
    "effective_sample_size",
    "reweight",
    "scan",
]
