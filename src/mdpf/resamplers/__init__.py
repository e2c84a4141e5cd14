"""Every way to turn a weighted mixture into new particles, and the gradient each lets through.

========================== ============== ====================================================
rule                       filter         gradient
========================== ============== ====================================================
Discrete                   TG-PF          none
Soft                       SR-PF          to the weights, biased
StopGradient               DIS-PF         to the weights, unbiased, high variance
Concrete                   C-PF           to weights and locations, biased
OptimalTransport           OT-PF          to weights and locations, biased
Diffusion                                 to weights and locations, biased by its smoothing
Truncated                  TG-MDPF        none; draws from the mixture
ImplicitlyReparameterized  IRG-MDPF       to everything, unbiased, unbounded variance
ImportanceWeighted         MDPF, A-MDPF   to everything, unbiased, low variance
ComponentPathwise                         to everything, unbiased, lowest variance between modes
========================== ============== ====================================================

``Adaptive`` wraps any of them and resamples only where it is needed.
"""

from mdpf.resamplers.adaptive import Adaptive
from mdpf.resamplers.concrete import Concrete
from mdpf.resamplers.diffusion import Diffusion
from mdpf.resamplers.discrete import Discrete
from mdpf.resamplers.implicit import ImplicitlyReparameterized
from mdpf.resamplers.importance import ImportanceWeighted
from mdpf.resamplers.pathwise import ComponentPathwise
from mdpf.resamplers.protocol import Draw, Resampler
from mdpf.resamplers.soft import Soft
from mdpf.resamplers.stop_gradient import StopGradient
from mdpf.resamplers.transport import OptimalTransport
from mdpf.resamplers.truncated import Truncated

__all__ = [
    "Adaptive",
    "ComponentPathwise",
    "Concrete",
    "Diffusion",
    "Discrete",
    "Draw",
    "ImplicitlyReparameterized",
    "ImportanceWeighted",
    "OptimalTransport",
    "Resampler",
    "Soft",
    "StopGradient",
    "Truncated",
]
