"""The Triton programs against the reference: on a CUDA device, or under Triton's interpreter (TRITON_INTERPRET=1)."""

import os

import pytest
import torch

from mdpf.kernels import Biweight, Epanechnikov, Gaussian, Product, VonMises
from mdpf.ops import mixture_log_prob

pytest.importorskip("triton", reason="needs Triton")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not (INTERPRETED or torch.cuda.is_available()):
    pytest.skip("needs a CUDA device, or TRITON_INTERPRET=1 to interpret the programs", allow_module_level=True)

DEVICE = "cpu" if INTERPRETED else "cuda"
# The interpreter is NumPy, which warns of the logarithm of zero.
pytestmark = pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")

KINDS = {
    "gaussian": "g",
    "von mises": "v",
    "epanechnikov": "ee",
    "biweight": "b",
    "plane and heading": "ggv",
    "all": "vgeb",
    "eight": "gggggvvb",
}
FACTORS = {"g": Gaussian, "v": VonMises, "e": Epanechnikov, "b": Biweight}


def make(generator, kinds, batch, m, n, dtype, spread=1.0, origin=0.0):
    """Queries near the components of a mixture, all on the device and with gradients."""

    def leaf(values):
        return values.to(DEVICE).requires_grad_()

    d = len(kinds)
    scale = torch.tensor([1.0 if kind == "v" else spread for kind in kinds], dtype=dtype)
    shift = torch.tensor([0.0 if kind == "v" else origin for kind in kinds], dtype=dtype)
    locs = shift + scale * torch.randn(*batch, n, d, dtype=dtype, generator=generator)
    x = locs[..., torch.randint(n, (m,), generator=generator), :]
    x = x + 0.4 * torch.randn(x.shape, dtype=dtype, generator=generator)
    log_weights = torch.randn(*batch, n, dtype=dtype, generator=generator).log_softmax(-1)
    parameters = [leaf(1 + torch.rand(*batch, 1, dtype=dtype, generator=generator)) for _ in kinds]
    return leaf(x), leaf(locs), leaf(log_weights), parameters


def outcome_and_gradients(implementation, kinds, x, locs, log_weights, parameters):
    kernel = Product(tuple(FACTORS[kind](parameter) for kind, parameter in zip(kinds, parameters, strict=True)))
    outcome = mixture_log_prob(x, locs, log_weights, kernel, implementation=implementation)
    cotangent = torch.linspace(-1, 2, outcome.numel(), dtype=outcome.dtype, device=outcome.device).view_as(outcome)
    gradients = torch.autograd.grad(outcome, [x, locs, log_weights, *parameters], cotangent)
    return outcome.detach(), *gradients


def assert_agreement(left, right, tolerance):
    for ours, theirs in zip(left, right, strict=True):
        assert torch.equal(ours.isfinite(), theirs.isfinite())
        difference, scale = (ours - theirs).nan_to_num(0), theirs.nan_to_num(neginf=0).norm().clamp_min(1)
        assert difference.norm() <= tolerance * scale


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(("m", "n"), [(1, 1), (5, 37), (70, 33)])
def test_fused_equals_reference(name, m, n, dtype, generator):
    arguments = (KINDS[name], *make(generator, KINDS[name], (2, 1), m, n, dtype))
    fused, reference = (outcome_and_gradients(each, *arguments) for each in ("fused", "reference"))
    assert_agreement(fused, reference, 1e-12 if dtype == torch.float64 else 2e-5)


@pytest.mark.parametrize("batch", [(), (3,), (2, 2)], ids=str)
def test_fused_serves_every_batch(batch, generator):
    arguments = ("ggv", *make(generator, "ggv", batch, 6, 9, torch.float64))
    assert_agreement(*(outcome_and_gradients(each, *arguments) for each in ("fused", "reference")), 1e-12)


def test_fused_takes_more_points_than_one_program_owns(generator):
    arguments = ("ggv", *make(generator, "ggv", (), 300, 520, torch.float64))
    assert_agreement(*(outcome_and_gradients(each, *arguments) for each in ("fused", "reference")), 1e-12)


@pytest.mark.parametrize(("spread", "origin"), [(1.0, 1e4), (1e4, 0.0)], ids=["far", "wide"])
def test_fused_keeps_its_digits(spread, origin, generator):
    x, locs, log_weights, parameters = make(generator, "ggv", (2,), 40, 50, torch.float32, spread, origin)
    fused = outcome_and_gradients("fused", "ggv", x, locs, log_weights, parameters)
    precise = [each.detach().double().requires_grad_() for each in (x, locs, log_weights, *parameters)]
    exact = outcome_and_gradients("reference", "ggv", *precise[:3], precise[3:])
    assert (fused[0] - exact[0]).norm() < 1e-5 * exact[0].norm()
    for ours, theirs in zip(fused[1:], exact[1:], strict=True):
        assert (ours - theirs).norm() < 1e-4 * theirs.norm()


@pytest.mark.parametrize(("batch", "m"), [((2,), 0), ((0,), 4)])
def test_fused_gives_nothing_for_nothing(batch, m, generator):
    arguments = ("ggv", *make(generator, "ggv", batch, m, 3, torch.float32))
    assert outcome_and_gradients("fused", *arguments)[0].shape == (*batch, m)


@pytest.mark.parametrize("name", KINDS)
def test_fused_leaves_the_neighbours_of_bad_input_alone(name, generator):
    x, locs, log_weights, parameters = make(generator, KINDS[name], (3,), 5, 7, torch.float64)
    with torch.no_grad():
        x[0, 1, 0], x[0, 2, -1] = torch.inf, torch.nan
        log_weights[2] = -torch.inf
    arguments = (KINDS[name], x, locs, log_weights, parameters)
    fused, reference = (outcome_and_gradients(each, *arguments) for each in ("fused", "reference"))
    assert all(each.isfinite().all() for each in fused[1:])
    assert fused[0][0, 2].isnan()
    assert_agreement([each.nan_to_num(nan=7.0) for each in fused], [each.nan_to_num(nan=7.0) for each in reference], 1e-12)


@pytest.mark.parametrize("kind", ["e", "b"])
def test_a_weak_component_that_alone_covers_a_query_counts(kind):
    """Next to a heavy one that ends just before it; and a query within rounding of the edge keeps its gradient."""
    x = torch.tensor([[[1.5], [2.9999998], [0.0]]], device=DEVICE, requires_grad=True)
    locs = torch.tensor([[[0.0], [2.0]]], device=DEVICE, requires_grad=True)
    log_weights = torch.tensor([[0.0, -300.0]], device=DEVICE, requires_grad=True)
    arguments = (kind, x, locs, log_weights, [torch.ones(1, device=DEVICE, requires_grad=True)])
    fused, reference = (outcome_and_gradients(each, *arguments) for each in ("fused", "reference"))
    assert (fused[0][0, :2] < -290).all()
    assert fused[0].isfinite().all()
    for ours, theirs in zip(fused, reference, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_fused_gives_the_same_bits_again(generator):
    arguments = ("ggv", *make(generator, "ggv", (2,), 60, 70, torch.float32))
    first, second = (outcome_and_gradients("fused", *arguments) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize(("spread", "origin"), [(10.0, 0.0), (10.0, 1e4), (1e4, 0.0)], ids=["near", "far", "wide"])
def test_ten_thousand_particles_agree_with_double_precision(spread, origin, generator):
    x, locs, log_weights, parameters = make(generator, "ggv", (), 10_000, 10_000, torch.float32, spread, origin)
    fused = outcome_and_gradients("auto", "ggv", x, locs, log_weights, parameters)
    precise = [each.detach().double().requires_grad_() for each in (x, locs, log_weights, *parameters)]
    exact = outcome_and_gradients("reference", "ggv", *precise[:3], precise[3:])
    assert (fused[0] - exact[0]).norm() < 1e-5 * exact[0].norm()
    for ours, theirs in zip(fused[1:], exact[1:], strict=True):
        assert (ours - theirs).norm() < 1e-4 * theirs.norm()


@pytest.mark.gpu
def test_a_hundred_thousand_particles_need_little_memory(generator):
    arguments = ("ggv", *make(generator, "ggv", (), 100_000, 100_000, torch.float32))
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    outcome_and_gradients("auto", *arguments)
    assert torch.cuda.max_memory_allocated() - before < 100e6


@pytest.mark.gpu
def test_fused_can_be_captured(generator):
    x, locs, log_weights, parameters = make(generator, "ggv", (4,), 64, 64, torch.float32)
    arguments = ("auto", "ggv", x, locs, log_weights, parameters)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        expected = outcome_and_gradients(*arguments)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        captured = outcome_and_gradients(*arguments)
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(one, other) for one, other in zip(captured, expected, strict=True))
