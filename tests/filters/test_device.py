"""Filters on a CUDA device: the numbers of the processor, and no waiting."""

import pytest
import torch
from torch import nn

from mdpf import noise
from mdpf.testing import check_device

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:Synchronization debug mode:UserWarning")]

DEVICE = "cuda"


class Run(nn.Module):
    """A whole sequence, in one call."""

    def __init__(self, pf):
        super().__init__()
        self.pf = pf

    def forward(self, particles, observations, actions, observed, valid, draws):
        belief = self.pf.init(particles, check_values=False)
        belief, trajectory = self.pf(belief, observations, actions, observed=observed, valid=valid, generator=draws)
        posterior = trajectory.posterior
        density = posterior.log_prob(torch.zeros_like(posterior.locs[..., :1, :]))
        return posterior.space.encode(posterior.locs), posterior.log_weights, density, trajectory.info


@pytest.mark.parametrize("adaptive", [False, True], ids=["plain", "two-headed"])
def test_filter_is_the_same_on_the_device(make_filter, make_data, resampler, adaptive, generator):
    run = Run(make_filter(resampler, adaptive=adaptive))
    particles, observations, actions = make_data(generator)
    observed, valid = torch.ones(3, 5, dtype=torch.bool), torch.ones(3, 5, dtype=torch.bool)
    observed[1, 2], valid[2, 4] = False, False
    names = [name for name, _ in run.named_parameters()]

    def function(inputs, draws, parameters):
        return torch.func.functional_call(run, dict(zip(names, parameters, strict=True)), (*inputs, draws))

    recorder, parameters = noise.Recorder(generator), tuple(run.parameters())
    inputs = (particles.requires_grad_(), observations, actions, observed, valid)
    with torch.no_grad():
        function(inputs, recorder, parameters)
    check_device(function, inputs, recorder.noise, parameters, device=DEVICE)
