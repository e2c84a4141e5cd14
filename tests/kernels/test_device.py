"""Kernels on a CUDA device: the numbers of the processor, and no waiting."""

import pytest
import torch

from mdpf import noise
from mdpf.kernels import Biweight, Epanechnikov, Gaussian, Product, VonMises
from mdpf.testing import check_device

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:Synchronization debug mode:UserWarning")]

DEVICE = "cuda"
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}
KERNELS = {
    "gaussian": lambda one, two: Gaussian(one),
    "epanechnikov": lambda one, two: Epanechnikov(one),
    "biweight": lambda one, two: Biweight(one),
    "von_mises": lambda one, two: VonMises(20 * one),
    "product": lambda one, two: Product((Gaussian(one), VonMises(4 * two), Biweight(two), Epanechnikov(one))),
}


def parameters(dtype):
    """Two parameters ``[*batch, d]``, one extreme in either direction."""
    one = torch.tensor([[0.5, 1.0], [2.0, 100.0], [1e-3, 7.0]], dtype=dtype, requires_grad=True)
    return one, torch.tensor([0.7], dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("kind", KERNELS)
def test_kernel_is_the_same_on_the_device(kind, dtype, generator):
    one, two = parameters(dtype)
    with torch.no_grad():
        kernel = KERNELS[kind](one, two)
        loc = torch.randn(3, 50, kernel.state_dim, generator=generator, dtype=dtype)
        recorder = noise.Recorder(generator)
        x = kernel.sample(loc, generator=recorder)
        # One state of each batch element lies outside of every support.
        x[:, 0] = loc[:, 0] + 3 * kernel.variance().sqrt()

    def everything(one, two, loc, x, draws):
        kernel = KERNELS[kind](one, two)
        drawn = kernel.sample(loc, generator=draws)
        return (
            kernel.log_prob(x, loc),
            kernel.log_factors(x, loc),
            kernel.scores(x, loc),
            kernel.cdf(x, loc),
            kernel.variance(),
            drawn,
        )

    inputs = (one, two, loc.requires_grad_(), x.requires_grad_(), recorder.noise)
    check_device(everything, *inputs, device=DEVICE, tolerance=TOLERANCE[dtype])
