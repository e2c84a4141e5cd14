"""A small learned filter over (x, y, angle) whose every part has parameters, and data for it."""

import pytest
import torch
from torch import nn

import mdpf
from mdpf import kernels, noise, resamplers, spaces
from mdpf.resamplers.transport import OptimalTransport

RESAMPLERS = {
    "discrete": resamplers.Discrete(),
    "soft": resamplers.Soft(),
    "stop-gradient": resamplers.StopGradient(),
    "concrete": resamplers.Concrete(),
    "transport": OptimalTransport(num_iterations=8),
    "diffusion": resamplers.Diffusion(num_steps=4),
    "truncated": resamplers.Truncated(),
    "importance": resamplers.ImportanceWeighted(),
    "pathwise": resamplers.ComponentPathwise(),
    "implicit": resamplers.ImplicitlyReparameterized(),
    "adaptive": resamplers.Adaptive(resamplers.ImportanceWeighted(), 0.9),
}


class Motion(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.tensor([0.1, -0.2, 0.3]))

    def forward(self, points, action=None, *, generator=None):
        moved = points + self.gain * points.tanh() + 0.3 * noise.normal(points.shape, points, generator)
        moved = moved if action is None else moved + action.unsqueeze(-2)
        return torch.cat([moved[..., :2], spaces.wrap(moved[..., 2:])], -1)


class Sensor(nn.Module):
    """Scores once, or twice with a second head that equals the first as long as ``other`` is zero."""

    def __init__(self, heads=None):
        super().__init__()
        self.heads = heads
        self.slope = nn.Parameter(torch.tensor(0.7))
        self.other = nn.Parameter(torch.tensor(0.0))

    def forward(self, particles, feature):
        seen = feature.unsqueeze(-2)
        scores = (particles[..., 2] - seen[..., 1]).cos() - self.slope * (particles[..., 0] - seen[..., 0]).square()
        return scores if self.heads is None else torch.stack([scores, scores * (1 + self.other)], -1)


class Width(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor([-1.0, -0.5]))
        self.log_concentration = nn.Parameter(torch.tensor([2.0]))

    def forward(self, particles):
        return kernels.Product((kernels.Gaussian(self.log_scale.exp()), kernels.VonMises(self.log_concentration.exp())))


class Encoder(nn.Module):
    """Doubles; whatever of a missing frame gets here spreads to every parameter."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(2))

    def forward(self, observations):
        return observations @ self.weight


@pytest.fixture
def make_filter():
    def make(resampler, *, dtype=torch.float64, adaptive=False, encoder=True):
        parts = {"dynamics": Motion(), "bandwidth": Width(), "resampler": resampler, "encoder": Encoder() if encoder else None}
        if adaptive:
            pf = mdpf.AdaptiveParticleFilter(measurement=Sensor(2), resampling_bandwidth=Width(), **parts)
        else:
            pf = mdpf.ParticleFilter(measurement=Sensor(), **parts)
        return pf.to(dtype)

    return make


@pytest.fixture
def make_data():
    """``(particles, observations, actions)`` of a batch."""

    def make(generator, batch=(3,), *, num_steps=5, num_particles=6, dtype=torch.float64):
        def draw(*shape):
            return torch.randn(*batch, *shape, generator=generator, dtype=torch.float64).to(dtype)

        return draw(num_particles, 3), draw(num_steps, 2), 0.3 * draw(num_steps, 3)

    return make


@pytest.fixture(params=RESAMPLERS.values(), ids=RESAMPLERS)
def resampler(request):
    return request.param
