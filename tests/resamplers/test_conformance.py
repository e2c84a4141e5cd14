"""Every resampler through the one public check, plain and wrapped."""

import pytest

from mdpf import resamplers, selection
from mdpf.resamplers import Adaptive
from mdpf.testing.resamplers import INPUTS, check_resampler

RULES = (selection.stratified, selection.systematic, selection.residual)
CUT = {"unbiased_gradient": (), "no_gradient": INPUTS}
SMOOTHED = {"smoothed": True, "unbiased_gradient": INPUTS}
COPIES = {"smoothed": False, "unbiased_gradient": ("weights", "locs"), "no_gradient": ("bandwidth",)}
BIASED = {"smoothed": False, "unbiased": False, "unbiased_gradient": (), "no_gradient": ("bandwidth",)}
RIGID = {"smoothed": False, "unbiased_gradient": ("weights",), "no_gradient": ("locs", "bandwidth")}

# Each resampler and what it promises.
RESAMPLERS = {
    "discrete": (resamplers.Discrete(), {**CUT, "smoothed": False}),
    "soft": (resamplers.Soft(), {**COPIES, "unbiased_gradient": ("locs",)}),
    "soft-detached-proposal": (resamplers.Soft(mix=0.5, detach_proposal=True), COPIES),
    "soft-detached-locations": (resamplers.Soft(detach_proposal=True, detach_locations=True), RIGID),
    "stop-gradient": (resamplers.StopGradient(), COPIES),
    "stop-gradient-detached-locations": (resamplers.StopGradient(detach_locations=True), RIGID),
    "concrete": (resamplers.Concrete(), BIASED),
    "transport": (resamplers.OptimalTransport(), BIASED),
    "diffusion": (resamplers.Diffusion(), BIASED),
    "truncated": (resamplers.Truncated(), CUT),
    "implicit": (resamplers.ImplicitlyReparameterized(), SMOOTHED),
    "importance": (resamplers.ImportanceWeighted(), SMOOTHED),
    "pathwise": (resamplers.ComponentPathwise(), SMOOTHED),
}
# What moves points from component to component keeps its promises under every way to choose components.
SELECTED = {
    f"{name}-{rule.__name__}": (type(resampler)(select=rule), promises)
    for name, (resampler, promises) in RESAMPLERS.items()
    if name in ("discrete", "stop-gradient", "truncated", "importance", "pathwise")
    for rule in RULES
}

pytestmark = pytest.mark.statistical


@pytest.mark.parametrize(("resampler", "promises"), RESAMPLERS.values(), ids=RESAMPLERS.keys())
def test_resampler_keeps_its_promises(resampler, promises):
    check_resampler(resampler, **promises)


@pytest.mark.parametrize(("resampler", "promises"), SELECTED.values(), ids=SELECTED.keys())
def test_resampler_keeps_its_promises_under_every_selection(resampler, promises):
    check_resampler(resampler, **promises, num_replicates=1000, max_se=0.05)


@pytest.mark.parametrize(("resampler", "promises"), RESAMPLERS.values(), ids=RESAMPLERS.keys())
def test_adaptive_keeps_the_promises_of_what_it_wraps(resampler, promises):
    # The check's mixture has an effective sample size of 53 percent, so resampling is due.
    check_resampler(Adaptive(resampler, threshold=0.9), **promises, num_replicates=1000, max_se=0.05)
