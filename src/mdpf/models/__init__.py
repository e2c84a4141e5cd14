"""The parts of a filter that can be learned: dynamics, measurement, bandwidth, encoder."""

from mdpf.models.bandwidth import FixedBandwidth, LearnedBandwidth, kernel_of
from mdpf.models.blocks import Linear, PReLU, mlp
from mdpf.models.convolutions import Convolution, ImageEncoder
from mdpf.models.dynamics import ResidualDynamics
from mdpf.models.local_map import LocalMap
from mdpf.models.measurement import ScoreNetwork
from mdpf.models.protocol import Bandwidth, Dynamics, Encoder, Measurement
from mdpf.models.recurrent import LstmLayer, RecurrentNetwork
from mdpf.models.runs import stack_runs, take_run
from mdpf.models.situated import MapRecurrentNetwork, MapScoreNetwork, MapView, Sight

__all__ = [
    "Bandwidth",
    "Convolution",
    "Dynamics",
    "Encoder",
    "FixedBandwidth",
    "ImageEncoder",
    "LearnedBandwidth",
    "Linear",
    "LocalMap",
    "LstmLayer",
    "MapRecurrentNetwork",
    "MapScoreNetwork",
    "MapView",
    "Measurement",
    "PReLU",
    "RecurrentNetwork",
    "ResidualDynamics",
    "ScoreNetwork",
    "Sight",
    "kernel_of",
    "mlp",
    "stack_runs",
    "take_run",
]
