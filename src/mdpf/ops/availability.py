"""Whether the fused implementation can run on a device; if not, one warning that says why."""

import importlib.util
import os
import warnings
from functools import cache

import torch

from mdpf.checks import MdpfWarning

# What Triton compiles for.
OLDEST_CAPABILITY = (8, 0)


def fused_is_available(device: torch.device) -> bool:
    """Ask once per device; the answer cannot change while a program runs."""
    return _ask(device)


# What ``torch.compiler.assume_constant_result`` does, without importing the compiler: that takes a second.
setattr(fused_is_available, "_dynamo_marked_constant", True)  # noqa: B010 - functions have no such attribute


# By itself: a compiler looks through a cache, and would not take what is behind it for a constant.
@cache
def _ask(device: torch.device) -> bool:
    obstacle = _obstacle(device)
    if obstacle:
        warnings.warn(
            f"mixture_log_prob on {device} runs blockwise, several times slower than its fused form: {obstacle}.",
            MdpfWarning,
            stacklevel=3,
        )
    return obstacle is None


def _obstacle(device: torch.device) -> str | None:
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if device.type != "cuda" and not interpreted:
        return "it is written for CUDA devices"
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed (pip install triton)"
    if interpreted:
        return None
    capability = torch.cuda.get_device_capability(device)
    if capability < OLDEST_CAPABILITY:
        has, needs = (".".join(map(str, version)) for version in (capability, OLDEST_CAPABILITY))
        return f"the device has compute capability {has} and Triton needs {needs}"
    return None
