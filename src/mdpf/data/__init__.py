"""Recorded sequences: in memory, in files, in a cache."""

from mdpf.data.sequences import SequenceBatch, minibatches

__all__ = ["SequenceBatch", "minibatches"]
