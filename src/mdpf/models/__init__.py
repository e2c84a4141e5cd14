"""The parts of a filter that can be learned: dynamics, measurement, bandwidth, encoder."""

from mdpf.models.bandwidth import FixedBandwidth, LearnedBandwidth, kernel_of
from mdpf.models.blocks import Linear, PReLU, mlp
from mdpf.models.convolutions import Convolution, ImageEncoder
from mdpf.models.dynamics import ResidualDynamics
from mdpf.models.local_map import LocalMap
from mdpf.models.measurement import ScoreNetwork
from mdpf.models.motion import InformedDynamics, MotionFeatures
from mdpf.models.protocol import Bandwidth, Dynamics, Encoder, Encoding, Measurement
from mdpf.models.recurrent import LstmLayer, RecurrentNetwork
from mdpf.models.runs import stack_runs, take_run
from mdpf.models.scaling import ScaledSpace, Standardise
from mdpf.models.situated import MapRecurrentNetwork, MapScoreNetwork, MapView, Sight

__all__ = [
    "Bandwidth",
    "Convolution",
    "Dynamics",
    "Encoder",
    "Encoding",
    "FixedBandwidth",
    "ImageEncoder",
    "InformedDynamics",
    "LearnedBandwidth",
    "Linear",
    "LocalMap",
    "LstmLayer",
    "MapRecurrentNetwork",
    "MapScoreNetwork",
    "MapView",
    "Measurement",
    "MotionFeatures",
    "PReLU",
    "RecurrentNetwork",
    "ResidualDynamics",
    "ScaledSpace",
    "ScoreNetwork",
    "Sight",
    "Standardise",
    "kernel_of",
    "mlp",
    "stack_runs",
    "take_run",
]
