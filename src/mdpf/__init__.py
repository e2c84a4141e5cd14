"""Learned particle filters whose posterior is a mixture density.

A filter is made of parts and owns no memory: ``belief = pf.init(particles)``, then ``belief, info = pf.step(belief, feature,
action)`` as often as observations arrive, or ``belief, trajectory = pf(belief, observations, actions)`` for a whole sequence.
"""

from mdpf import kernels, modes, noise, resamplers, selection
from mdpf.filters import AdaptiveParticleFilter, Belief, ParticleFilter, Trajectory, prepare, scan
from mdpf.mixture import Mixture
from mdpf.recipes.runs import load
from mdpf.spaces import StateSpace
from mdpf.tracking import Tracker
from mdpf.trees import detach

__version__ = "0.1.0"

__all__ = [
    "AdaptiveParticleFilter",
    "Belief",
    "Mixture",
    "ParticleFilter",
    "StateSpace",
    "Tracker",
    "Trajectory",
    "detach",
    "kernels",
    "load",
    "modes",
    "noise",
    "prepare",
    "resamplers",
    "scan",
    "selection",
]
