"""Filters: recursions over beliefs."""

from mdpf.filters.adaptive import AdaptiveParticleFilter
from mdpf.filters.belief import Belief, StepInfo, Trajectory
from mdpf.filters.generative import bootstrap, regularized
from mdpf.filters.particle import ParticleFilter
from mdpf.filters.prepared import PreparedStep, prepare
from mdpf.filters.recurrent import RecurrentBelief, RecurrentFilter
from mdpf.filters.scan import collect_trajectory, scan
from mdpf.filters.weights import effective_sample_size, reweight

__all__ = [
    "AdaptiveParticleFilter",
    "Belief",
    "ParticleFilter",
    "PreparedStep",
    "RecurrentBelief",
    "RecurrentFilter",
    "StepInfo",
    "Trajectory",
    "bootstrap",
    "collect_trajectory",
    "effective_sample_size",
    "prepare",
    "regularized",
    "reweight",
    "scan",
]
