"""The exact filters on a CUDA device: the numbers of the processor."""

import pytest
import torch

from mdpf import trees
from mdpf.exact import kalman_filter, mixture_kalman_filter
from mdpf.tasks import bimodal
from mdpf.tasks.linear_gaussian import example_model
from mdpf.testing import check_device
from mdpf.testing.linear_gaussian import example_data

pytestmark = pytest.mark.gpu

DEVICE = "cuda"


def test_kalman_filter_is_the_same_on_the_device():
    model = example_model(dtype=torch.float64)
    data = example_data(model)
    model = trees.tree_map(lambda tensor: tensor.requires_grad_(), model)

    def function(model, data):
        return kalman_filter(model, data.observations, data.actions, observed=data.observed, valid=data.valid)

    check_device(function, model, data, device=DEVICE, waits=True)


def test_mixture_kalman_filter_is_the_same_on_the_device(generator):
    batch = bimodal.simulate(20, dtype=torch.float64, generator=generator)
    model = bimodal.BimodalModel().double().as_modal_sensor()
    model = trees.tree_map(lambda tensor: tensor.detach().requires_grad_(), model)
    initial = bimodal.initial_belief(batch.states)

    def function(model, initial, observations, actions):
        return mixture_kalman_filter(model, initial, observations, actions)

    check_device(function, model, initial, batch.observations[:, 1:], batch.actions, device=DEVICE, waits=True)
