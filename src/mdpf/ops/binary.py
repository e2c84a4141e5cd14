r"""Logarithms to base two: what the fast implementations compute in.

The exponential to base two is vectorised where the natural one is not, does not slow down where it underflows, and is the one a GPU
has an instruction for. The smooth factors keep their form under a change of unit,

.. math:: \log_2 e^{-t^2 / 2 a^2} = -\tfrac12 (t / a')^2, \quad a' = a \sqrt{\ln 2}, \qquad
          \log_2 e^{-2 a \sin^2(t/2)} = -2 a' \sin^2(t/2), \quad a' = a / \ln 2,

so that nothing but the parameters has to be converted; a compact factor has its own logarithm taken to base two.
"""

import math
from itertools import groupby

import torch
from torch import Tensor

LN_2 = math.log(2.0)
LOG2_E = 1 / LN_2

_UNITS = {"g": math.sqrt(LN_2), "v": LOG2_E, "e": 1.0, "b": 1.0}


def units(kinds: str, like: Tensor) -> Tensor:
    """What to multiply each coordinate's parameter with, ``[d]``."""
    # Filled on the device: numbers of the host would have to be copied there, which a recorded computation cannot.
    return torch.cat([like.new_full((len(list(run)),), _UNITS[kind]) for kind, run in groupby(kinds)])
