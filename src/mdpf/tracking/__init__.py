"""Trackers: a trained filter as one calls it, observation by observation."""

from mdpf.tracking.starts import Around, Box
from mdpf.tracking.tracker import Tracked, Tracker, Vigilance

__all__ = ["Around", "Box", "Tracked", "Tracker", "Vigilance"]
