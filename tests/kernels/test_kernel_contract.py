"""Every kernel keeps the promises of its protocol, at every batch shape and in both precisions."""

import math

import pytest
import torch

from mdpf import noise
from mdpf.kernels import Biweight, Epanechnikov, Gaussian, Kernel, KernelWithCdf, Product, VonMises, has_cdf
from mdpf.testing.kernels import check_kernel


def parameter(*values):
    return torch.tensor(values, dtype=torch.float64)


KERNELS = {
    "gaussian": Gaussian(parameter(0.5, 20.0)),
    "epanechnikov": Epanechnikov(parameter(0.5, 20.0)),
    "biweight": Biweight(parameter(0.5, 20.0)),
    "von_mises": VonMises(parameter(0.5, 30.0)),
    "von_mises_extreme": VonMises(parameter(1e-6, 1e5)),
    "pose": Product((Gaussian(parameter(0.5, 2.0)), VonMises(parameter(30.0)))),
    "nested": Product((VonMises(parameter(3.0)), Product((Biweight(parameter(0.5)), Epanechnikov(parameter(1.0, 2.0)))))),
}
BASE = {"gaussian": Gaussian, "epanechnikov": Epanechnikov, "biweight": Biweight, "von_mises": VonMises}
each_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
each_family = pytest.mark.parametrize("family", BASE.values(), ids=BASE)


@pytest.mark.statistical
@each_kernel
def test_kernel_keeps_every_promise(kernel, generator):
    check_kernel(kernel, generator=generator)


@each_kernel
def test_kernel_is_recognised_by_its_protocols(kernel):
    assert isinstance(kernel, Kernel)
    assert isinstance(kernel, KernelWithCdf)
    assert has_cdf(kernel)
    assert kernel.state_dim == kernel.space.dim
    assert kernel.space.names == tuple(str(dim) for dim in range(kernel.state_dim))


@each_family
@pytest.mark.parametrize("state_dim", [1, 2, 3, 4])
def test_shapes_and_precision_follow_the_states(family, state_dim, batch, dtype, generator):
    kernel = family(0.5 + torch.rand(*batch, state_dim, dtype=dtype, generator=generator))
    loc = torch.randn(*batch, 5, state_dim, dtype=dtype, generator=generator)
    x = kernel.sample(loc, generator=generator)
    assert x.shape == loc.shape
    assert kernel.log_prob(x, loc).shape == (*batch, 5)
    assert kernel.log_factors(x[..., None, :, :], loc[..., :, None, :]).shape == (*batch, 5, 5, state_dim)
    assert kernel.cdf(x, loc).shape == loc.shape
    assert kernel.variance().shape == (*batch, state_dim)
    assert {result.dtype for result in (x, kernel.log_prob(x, loc), kernel.cdf(x, loc), kernel.variance())} == {dtype}


@each_family
def test_parameter_without_batch_axes_serves_every_batch_element(family, generator):
    kernel, loc = family(parameter(0.5, 2.0)), torch.randn(2, 3, 4, 2, dtype=torch.float64, generator=generator)
    repeated = family(parameter(0.5, 2.0).expand(2, 3, 2))
    recorder = noise.Recorder(generator)
    x = kernel.sample(loc, generator=recorder)
    assert torch.equal(x, repeated.sample(loc, generator=recorder.noise))
    assert torch.equal(kernel.log_prob(x, loc), repeated.log_prob(x, loc))


@each_family
def test_batched_parameter_draws_apart_at_a_shared_location(family, generator):
    kernel = family(torch.ones(3, 1, 2, dtype=torch.float64))
    draws = kernel.sample(torch.zeros(3, 4, 2, dtype=torch.float64), generator=generator)
    assert draws.unique().numel() == draws.numel()
    wide = family(torch.ones(3, 2, dtype=torch.float64)).sample(torch.zeros(1, 4, 2, dtype=torch.float64), generator=generator)
    assert wide.shape == (3, 4, 2)
    assert wide.unique().numel() == wide.numel()


@each_kernel
def test_recorded_noise_replays_the_draw_and_its_gradient(kernel, generator):
    loc = torch.randn(6, kernel.state_dim, dtype=torch.float64, generator=generator)
    recorder = noise.Recorder(generator)
    draw = kernel.sample(loc, generator=recorder)
    assert torch.equal(draw, kernel.sample(loc, generator=recorder.noise))
    assert all(numbers.shape[0] == 6 for numbers in recorder.noise.draws)


@each_kernel
def test_single_precision_agrees_with_double(kernel, generator):
    single = torch.utils._pytree.tree_map(lambda leaf: leaf.float(), kernel)
    loc = torch.randn(200, kernel.state_dim, generator=generator)
    x = single.sample(loc, generator=generator)
    # The distance of two rounded numbers counts in units of the narrowest kernel, here 0.003.
    assert torch.allclose(single.log_prob(x, loc).double(), kernel.log_prob(x.double(), loc.double()), rtol=1e-3, atol=1e-3)
    assert torch.allclose(single.cdf(x, loc).double(), kernel.cdf(x.double(), loc.double()), atol=2e-4)
    assert torch.allclose(single.variance().double(), kernel.variance(), rtol=2e-6)


@each_family
def test_empty_batch_passes_through(family, generator):
    kernel, loc = family(torch.ones(0, 2)), torch.zeros(0, 5, 2)
    assert kernel.sample(loc, generator=generator).shape == (0, 5, 2)
    assert kernel.log_prob(loc, loc).shape == (0, 5)
    assert kernel.cdf(loc, loc).shape == (0, 5, 2)


@each_family
def test_nan_stays_a_nan(family):
    kernel, nan = family(torch.ones(1)), torch.tensor([[math.nan], [0.0]])
    assert kernel.log_prob(nan, torch.zeros(1)).isnan().tolist() == [True, False]
    assert kernel.log_prob(torch.zeros(1), nan).isnan().tolist() == [True, False]


@each_family
def test_state_of_another_dimension_is_refused(family):
    kernel = family(torch.ones(2))
    with pytest.raises(ValueError, match=r"needs states of shape \[..., 2\], got a float32 tensor of shape \[5, 3\]"):
        kernel.log_prob(torch.zeros(5, 3), torch.zeros(5, 3))
    with pytest.raises(ValueError, match=r"needs states of shape \[..., 2\], got a float32 tensor of shape \[5, 1\]"):
        kernel.sample(torch.zeros(5, 1))
    with pytest.raises(ValueError, match=r"same last axis, got \[5, 2\] and \[1\]"):
        kernel.cdf(torch.zeros(5, 2), torch.zeros(1))


@each_family
def test_state_of_another_batch_is_refused(family):
    kernel = family(torch.ones(3, 2))
    with pytest.raises(ValueError, match=r"needs states with leading axes \[3\], got a float32 tensor of shape \[5, 3, 2\]"):
        kernel.sample(torch.zeros(5, 3, 2))
    with pytest.raises(ValueError, match=r"needs states with leading axes \[3\], got a float32 tensor of shape \[2\]"):
        kernel.log_prob(torch.zeros(2), torch.zeros(2))


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("name", ["gaussian", "epanechnikov", "biweight", "pose"])
def test_kernel_is_captured_without_graph_breaks(name, generator):
    kernel = KERNELS[name]
    loc = torch.randn(3, kernel.state_dim, dtype=torch.float64, generator=generator)
    recorder = noise.Recorder(generator)
    kernel.sample(loc, generator=recorder)
    leaves, structure = torch.utils._pytree.tree_flatten(kernel)

    def everything(x, loc, draws, *leaves):
        kernel = torch.utils._pytree.tree_unflatten(list(leaves), structure)
        drawn = kernel.sample(loc, generator=noise.Noise(draws))
        return kernel.log_prob(x, loc).sum() + kernel.cdf(x, loc).sum() + kernel.variance().sum() + drawn.square().sum()

    inputs = [loc + 0.01, loc, recorder.noise.draws, *(leaf.clone().requires_grad_() for leaf in leaves)]
    eager = everything(*inputs)
    captured = torch.compile(everything, backend="eager", fullgraph=True)(*inputs)
    assert torch.allclose(captured, eager, rtol=1e-12)
    for ours, theirs in zip(*(torch.autograd.grad(value, inputs[3:]) for value in (captured, eager)), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-12)
