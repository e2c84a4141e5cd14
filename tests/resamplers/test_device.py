"""Mixtures, selection rules and resamplers on a CUDA device: the numbers of the processor, and no waiting."""

import pytest
import torch

from mdpf import noise, resamplers, selection
from mdpf.kernels import Gaussian, Product, VonMises
from mdpf.mixture import Mixture
from mdpf.modes import find_modes
from mdpf.testing import check_device

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:Synchronization debug mode:UserWarning")]

DEVICE = "cuda"
NUM_PARTICLES = 12
RULES = (selection.multinomial, selection.stratified, selection.systematic, selection.residual)
RESAMPLERS = {
    "discrete": resamplers.Discrete(),
    "soft": resamplers.Soft(),
    "stop-gradient": resamplers.StopGradient(),
    "concrete": resamplers.Concrete(),
    "transport": resamplers.OptimalTransport(),
    "diffusion": resamplers.Diffusion(),
    "truncated": resamplers.Truncated(),
    "importance": resamplers.ImportanceWeighted(),
    "pathwise": resamplers.ComponentPathwise(),
    "implicit": resamplers.ImplicitlyReparameterized(),
    "adaptive": resamplers.Adaptive(resamplers.ImportanceWeighted()),
}


def parts(generator, dtype):
    """Logits, locations and widths of eight mixtures over a plane and a heading; half of them are due for resampling."""
    logits = torch.randn(8, NUM_PARTICLES, generator=generator, dtype=dtype)
    logits[4:] *= 0.1
    locs = torch.randn(8, NUM_PARTICLES, 3, generator=generator, dtype=dtype)
    widths = 0.3 + torch.rand(8, 3, generator=generator, dtype=dtype)
    return tuple(part.requires_grad_() for part in (logits, locs, widths))


def mixture_of(logits, locs, widths):
    plane, heading = widths.split([2, 1], -1)
    return Mixture(locs, logits.log_softmax(-1), Product((Gaussian(plane), VonMises(5 * heading))))


def resampled(resampler, num_particles, logits, locs, widths, draws):
    mixture = mixture_of(logits, locs, widths)
    draw = resampler(mixture, num_particles, generator=draws)
    return mixture.space.encode(draw.points), draw.log_weights


def recorded(function, *inputs, generator):
    recorder = noise.Recorder(generator)
    with torch.no_grad():
        function(*inputs, recorder)
    return recorder.noise


@pytest.mark.parametrize("num_particles", [NUM_PARTICLES, 7, 30])
@pytest.mark.parametrize("resampler", RESAMPLERS.values(), ids=RESAMPLERS)
def test_resampler_is_the_same_on_the_device(resampler, num_particles, generator):
    inputs = parts(generator, torch.float64)

    def function(*inputs):
        return resampled(resampler, num_particles, *inputs)

    check_device(function, *inputs, recorded(function, *inputs, generator=generator), device=DEVICE)


@pytest.mark.parametrize(("name", "resampler"), RESAMPLERS.items(), ids=RESAMPLERS)
def test_resampler_is_the_same_in_single_precision(name, resampler, generator):
    inputs = parts(generator, torch.float32)
    # Every step of the diffusion magnifies the rounding of those before it.
    tolerance = 2e-2 if name == "diffusion" else 1e-4

    def function(*inputs):
        return resampled(resampler, NUM_PARTICLES, *inputs)

    check_device(function, *inputs, recorded(function, *inputs, generator=generator), device=DEVICE, tolerance=tolerance)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_selection_is_the_same_on_the_device(rule, generator):
    log_weights = parts(generator, torch.float64)[0].detach().log_softmax(-1)
    log_weights[0, 3:] = -torch.inf

    def function(log_weights, draws):
        return rule(log_weights, 40, generator=draws)

    check_device(function, log_weights, recorded(function, log_weights, generator=generator), device=DEVICE)


def test_mixture_is_the_same_on_the_device(generator):
    inputs = parts(generator, torch.float64)
    x = torch.randn(8, 20, 3, generator=generator, dtype=torch.float64, requires_grad=True)

    def function(logits, locs, widths, x, draws):
        mixture = mixture_of(logits, locs, widths)
        sample = mixture.space.encode(mixture.sample(9, generator=draws))
        transform = mixture.distributional_transform(x)
        return mixture.log_prob(x), sample, mixture.mean(), mixture.covariance(), transform

    check_device(function, *inputs, x, recorded(function, *inputs, x, generator=generator), device=DEVICE)


def test_hypotheses_are_the_same_on_the_device(generator):
    inputs = (part.detach() for part in parts(generator, torch.float64))

    def function(*inputs):
        modes = find_modes(mixture_of(*inputs))
        return modes.weights, modes.count, modes.labels

    check_device(function, *inputs, device=DEVICE)
