"""The parts of a filter that can be learned: dynamics, measurement, bandwidth, encoder."""

from mdpf.models.bandwidth import FixedBandwidth
from mdpf.models.protocol import Bandwidth, Dynamics, Encoder, Measurement

__all__ = ["Bandwidth", "Dynamics", "Encoder", "FixedBandwidth", "Measurement"]
