"""The three implementations against each other; the reference against sums written out."""

import json
import math
import subprocess
import sys
import warnings

import pytest
import torch

from mdpf.checks import MdpfWarning
from mdpf.kernels import Biweight, Epanechnikov, Gaussian, Product, VonMises
from mdpf.ops import availability, blocks, features, mixture_log_prob
from mdpf.ops.factors import factorise


def _positive(generator, *shape, size=1.0, dtype=torch.float64):
    return (size * (0.5 + torch.rand(*shape, dtype=dtype, generator=generator))).requires_grad_()


KERNELS = {
    "gaussian": lambda p: Gaussian(p(3)),
    "von mises": lambda p: VonMises(p(2, 4)),
    "epanechnikov": lambda p: Epanechnikov(p(2, 2)),
    "biweight": lambda p: Biweight(p(2, 2)),
    "plane and heading": lambda p: Product((Gaussian(p(2)), VonMises(p(1, 9)))),
    "heading first": lambda p: Product((VonMises(p(1, 9)), Gaussian(p(1)), VonMises(p(1)), Gaussian(p(1)))),
    "all kinds": lambda p: Product((Epanechnikov(p(1, 3)), Gaussian(p(1)), Biweight(p(1, 3)), VonMises(p(1, 9)))),
    "nested": lambda p: Product((Product((Gaussian(p(1)), VonMises(p(1)))), Epanechnikov(p(1, 4)))),
    "eight": lambda p: Product((Gaussian(p(5, 2)), VonMises(p(2)), Biweight(p(1, 9)))),
}


def build(name, generator, dtype=torch.float64):
    """A kernel and the leaves it was made of."""
    parameters = []

    def parameter(d, size=1.0):
        parameters.append(_positive(generator, d, size=size, dtype=dtype))
        return parameters[-1]

    return KERNELS[name](parameter), parameters


def make(generator, kernel, batch=(), m=5, n=7, dtype=torch.float64, spread=1.0, origin=0.0):
    """A mixture with gradients to everything, and queries near its components."""
    d = kernel.state_dim
    locs = origin + spread * torch.randn(*batch, n, d, dtype=dtype, generator=generator)
    nearest = torch.randint(n, (m,), generator=generator)
    x = locs[..., nearest, :] + 0.4 * torch.randn(*batch, m, d, dtype=dtype, generator=generator)
    log_weights = torch.randn(*batch, n, dtype=dtype, generator=generator).log_softmax(-1)
    return x.requires_grad_(), locs.requires_grad_(), log_weights.requires_grad_()


def outcome_and_gradients(implementation, x, locs, log_weights, kernel, parameters):
    outcome = mixture_log_prob(x, locs, log_weights, kernel, implementation=implementation)
    cotangent = torch.linspace(-1, 2, outcome.numel(), dtype=outcome.dtype).view_as(outcome)
    wanted = [each for each in (x, locs, log_weights, *parameters) if each.requires_grad]
    return outcome.detach(), *torch.autograd.grad(outcome, wanted, cotangent)


def assert_agreement(left, right, tolerance):
    """Compare outcomes, minus infinities included, and gradients by their largest deviation relative to the largest entry."""
    for ours, theirs in zip(left, right, strict=True):
        assert torch.equal(ours.isfinite(), theirs.isfinite())
        scale = max(1.0, theirs.nan_to_num(neginf=0).abs().max().item())
        assert (ours - theirs).nan_to_num(0).abs().max().item() <= tolerance * scale


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("pairs_per_block", [2**18, 40], ids=["one block", "ragged blocks"])
def test_blockwise_equals_reference(name, pairs_per_block, batch, dtype, generator, monkeypatch):
    monkeypatch.setitem(blocks.PAIRS_PER_BLOCK, "cpu", pairs_per_block)
    kernel, parameters = build(name, generator, dtype)
    arguments = (*make(generator, kernel, batch, m=11, n=13, dtype=dtype), kernel, parameters)
    blockwise, reference = (outcome_and_gradients(each, *arguments) for each in ("blockwise", "reference"))
    assert_agreement(blockwise, reference, 1e-12 if dtype == torch.float64 else 3e-5)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 1, 3), (1, 4, 3), (2, 4, 3)], ids=str)
def test_bandwidths_of_every_layout_serve_their_batch(shape, generator):
    concentration, scale = _positive(generator, *shape[:-1], 1), _positive(generator, *shape[:-1], 2)
    kernel = Product((Gaussian(scale), VonMises(concentration)))
    arguments = (*make(generator, kernel, (2, 4)), kernel, [scale, concentration])
    blockwise, reference = (outcome_and_gradients(each, *arguments) for each in ("blockwise", "reference"))
    assert_agreement(blockwise, reference, 1e-12)


def test_parts_of_one_product_may_differ_in_layout(generator):
    scale, concentration = _positive(generator, 2, 2), _positive(generator, 1)
    kernel = Product((Gaussian(scale), VonMises(concentration)))
    arguments = (*make(generator, kernel, (2, 4)), kernel, [scale, concentration])
    assert_agreement(*(outcome_and_gradients(each, *arguments) for each in ("blockwise", "reference")), 1e-12)


def test_shared_queries_are_broadcast(generator):
    kernel = Gaussian(_positive(generator, 2))
    _, locs, log_weights = make(generator, kernel, (3,))
    x = torch.randn(5, 2, dtype=torch.float64, generator=generator).requires_grad_()
    arguments = (x, locs, log_weights, kernel, [kernel.scale])
    assert_agreement(*(outcome_and_gradients(each, *arguments) for each in ("blockwise", "reference")), 1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_gradients_are_those_of_the_outcome(name, generator):
    kernel, parameters = build(name, generator)

    def evaluate(x, locs, logits, *values):
        rest = iter(values)
        same = KERNELS[name](lambda d, size=1.0: next(rest))
        return mixture_log_prob(x, locs, logits, same, implementation="blockwise").nan_to_num(neginf=0).exp()

    x, locs, log_weights = make(generator, kernel, (2,), m=3, n=4, spread=0.5)
    assert torch.autograd.gradcheck(evaluate, (x, locs, log_weights, *parameters))


@pytest.mark.parametrize("spread", [30.0, 1e4, 1e8], ids=["narrow", "wide", "too wide to expand"])
@pytest.mark.parametrize("origin", [0.0, 1e4])
def test_far_and_wide_clouds_keep_their_digits(spread, origin, generator):
    scale = torch.ones(2).requires_grad_()
    concentration = torch.tensor([spread], requires_grad=True)
    kernel = Product((Gaussian(scale), VonMises(concentration)))
    x, locs, log_weights = make(generator, kernel, (2,), m=40, n=50, dtype=torch.float32, spread=spread, origin=origin)
    x, locs = (torch.cat([each[..., :2], each[..., 2:] / (3 * spread)], -1).detach().requires_grad_() for each in (x, locs))
    single = outcome_and_gradients("blockwise", x, locs, log_weights, kernel, [scale, concentration])
    precise = [each.detach().double().requires_grad_() for each in (x, locs, log_weights, scale, concentration)]
    kernel = Product((Gaussian(precise[3]), VonMises(precise[4])))
    exact = outcome_and_gradients("reference", *precise[:3], kernel, precise[3:])
    # Angles far beyond a turn lose digits in any single-precision formula; the origin stands for maps, not for angles.
    error = (single[0] - exact[0]).abs() / exact[0].abs().clamp_min(1)
    assert error.max() < 1e-3
    for ours, theirs in zip(single[1:], exact[1:], strict=True):
        assert (ours - theirs).norm() < 1e-3 * theirs.norm()


@pytest.mark.parametrize("distance", [1e3, 1e5, 1e7, 1e12])
@pytest.mark.parametrize("implementation", ["reference", "blockwise"])
def test_a_query_far_from_everything_is_pulled_as_by_one_component(implementation, distance, dtype, generator):
    """Its log-density has no digits left to compare scores with; the responsibilities must sum to one all the same."""
    scale, concentration = (torch.tensor(each, dtype=dtype, requires_grad=True) for each in ([0.5, 2.0], [3.0]))
    kernel = Product((Gaussian(scale), VonMises(concentration)))
    _, locs, log_weights = make(generator, kernel, n=7, dtype=dtype)
    x = torch.tensor([[distance, -distance, 0.3], [0.1, 0.2, 0.3]], dtype=dtype).requires_grad_()
    to_x, to_locs, to_log_weights, to_scale = torch.autograd.grad(
        mixture_log_prob(x, locs, log_weights, kernel, implementation=implementation).sum(), [x, locs, log_weights, scale]
    )
    # The components lie within five of the origin, which moves what is compared by at most so many parts of the distance.
    within = {"rtol": 10 / distance + 1e-5, "atol": 0.0}
    pull = torch.tensor([distance / 0.5**2, -distance / 2.0**2], dtype=dtype)
    torch.testing.assert_close(to_log_weights.sum(), torch.tensor(2.0, dtype=dtype))
    torch.testing.assert_close(to_x[0, :2], -pull, **within)
    torch.testing.assert_close(to_locs[:, :2].sum(0), pull, **(within | {"atol": 20.0}))
    torch.testing.assert_close(to_scale, torch.tensor([distance**2 / 0.5**3, distance**2 / 2.0**3], dtype=dtype), **within)
    (near,) = torch.autograd.grad(mixture_log_prob(x[1:], locs, log_weights, kernel, implementation="reference").sum(), x)
    torch.testing.assert_close(to_x[1], near[1], rtol=1e-4, atol=1e-4)


def test_narrow_wide_and_immense_clouds_take_the_form_that_suits_them():
    def form(spread, dtype=torch.float32):
        cloud = torch.tensor([[[-spread, spread], [-1.0, 1.0]]], dtype=dtype)
        expanded = features.expand(cloud, cloud, cloud[:, 0], torch.ones(1, 2, dtype=dtype), "gv")
        return expanded.dims, expanded.query.dtype

    assert form(30.0) == ((0, 1), torch.float32)
    assert form(1e4) == ((0, 1), torch.float64)
    assert form(1e7) == ((1,), torch.float32)
    assert form(200.0, torch.float64) == ((1,), torch.float64)
    assert form(torch.nan) == ((1,), torch.float32)


def test_an_angle_is_the_same_after_every_turn(generator):
    for concentration in (5.0, 1e5):
        kernel = VonMises(torch.tensor([concentration], dtype=torch.float64))
        x, locs, log_weights = make(generator, kernel)
        outcomes = [mixture_log_prob(x + turn * 2 * math.pi, locs, log_weights, kernel) for turn in (0, 3)]
        torch.testing.assert_close(*outcomes, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("implementation", ["reference", "blockwise"])
@pytest.mark.parametrize("name", KERNELS)
def test_one_component_is_its_kernel(implementation, name, generator):
    kernel, _ = build(name, generator)
    x, locs, _ = make(generator, kernel, n=1)
    outcome = mixture_log_prob(x, locs, torch.zeros(1, dtype=torch.float64), kernel, implementation=implementation)
    torch.testing.assert_close(outcome, kernel.log_prob(x, locs))


@pytest.mark.parametrize("implementation", ["reference", "blockwise"])
@pytest.mark.parametrize(("batch", "m"), [((2,), 0), ((0,), 4), ((2, 0), 4), ((0,), 0)])
def test_nothing_asked_gives_nothing(implementation, batch, m, generator):
    scale = _positive(generator, 2)
    kernel = Gaussian(scale)
    x, locs = torch.zeros(*batch, m, 2, dtype=torch.float64), torch.zeros(*batch, 3, 2, dtype=torch.float64).requires_grad_()
    log_weights = torch.zeros(*batch, 3, dtype=torch.float64).requires_grad_()
    outcome = mixture_log_prob(x, locs, log_weights, kernel, implementation=implementation)
    assert outcome.shape == (*batch, m)
    gradients = torch.autograd.grad(outcome.sum(), [locs, log_weights, scale])
    assert all((gradient == 0).all() for gradient in gradients)


@pytest.mark.parametrize("implementation", ["reference", "blockwise"])
@pytest.mark.parametrize("name", KERNELS)
def test_bad_queries_and_dead_elements_leave_their_neighbours_alone(implementation, name, generator):
    kernel, parameters = build(name, generator)
    x, locs, log_weights = make(generator, kernel, (3,))
    good = outcome_and_gradients(implementation, x, locs, log_weights, kernel, parameters)
    bad_x, bad_weights = x.detach().clone(), log_weights.detach().clone()
    bad_x[0, 1, 0], bad_x[0, 2, -1], bad_x[0, 3, 0] = torch.inf, torch.nan, -torch.inf
    bad_weights[2] = -torch.inf
    bad_x.requires_grad_()
    bad_weights.requires_grad_()
    outcome, to_x, *others = outcome_and_gradients(implementation, bad_x, locs, bad_weights, kernel, parameters)
    assert outcome[0, [1, 3]].tolist() == [-torch.inf, -torch.inf]
    assert outcome[0, 2].isnan()
    assert (outcome[2] == -torch.inf).all()
    assert (to_x[0, 1:4] == 0).all()
    assert (to_x[2] == 0).all()
    assert all(each.isfinite().all() for each in (to_x, *others))
    torch.testing.assert_close(outcome[1], good[0][1])
    torch.testing.assert_close(outcome[0, [0, 4]], good[0][0, [0, 4]])
    torch.testing.assert_close(others[0][1], good[2][1])
    assert (others[0][2] == 0).all()


def test_a_component_without_weight_does_not_count(generator):
    kernel = Gaussian(torch.ones(2, dtype=torch.float64))
    x, locs, log_weights = make(generator, kernel)
    with_dead = torch.cat([log_weights, torch.full((1,), -torch.inf, dtype=torch.float64)])
    more = torch.cat([locs, x[:1]])
    torch.testing.assert_close(mixture_log_prob(x, more, with_dead, kernel), mixture_log_prob(x, locs, log_weights, kernel))


def test_same_inputs_give_same_bits(generator):
    parameters = [_positive(generator, 2, dtype=torch.float32), _positive(generator, 1, dtype=torch.float32)]
    kernel = Product((Gaussian(parameters[0]), VonMises(parameters[1])))
    arguments = (*make(generator, kernel, (3,), m=300, n=400, dtype=torch.float32), kernel, parameters)
    first, second = (outcome_and_gradients("blockwise", *arguments) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_an_unknown_kernel_is_evaluated_by_its_own_formula(generator):
    class Shifted(Gaussian):
        """Not one of the four, though it looks like one."""

        def log_prob(self, x, loc):
            return super().log_prob(x, loc + 1)

    kernel = Shifted(torch.ones(2, dtype=torch.float64))
    x, locs, log_weights = make(generator, kernel)
    assert factorise(kernel, torch.Size(), x) is None
    outcome = mixture_log_prob(x, locs, log_weights, kernel, implementation="blockwise")
    torch.testing.assert_close(outcome, mixture_log_prob(x, locs + 1, log_weights, Gaussian(kernel.scale)))


def test_nine_coordinates_are_left_to_the_reference(generator):
    kernel = Gaussian(torch.ones(9, dtype=torch.float64))
    assert factorise(kernel, torch.Size(), kernel.scale) is None
    x, locs, log_weights = make(generator, kernel)
    outcomes = [mixture_log_prob(x, locs, log_weights, kernel, implementation=each) for each in ("auto", "reference")]
    assert torch.equal(*outcomes)


def test_an_implementation_that_does_not_exist_is_refused(generator):
    kernel = Gaussian(torch.ones(2, dtype=torch.float64))
    with pytest.raises(ValueError, match="needs implementation to be one of"):
        mixture_log_prob(*make(generator, kernel), kernel, implementation="magic")  # type: ignore[arg-type]


def test_a_device_without_triton_is_told_once(monkeypatch):
    monkeypatch.setattr(availability.importlib.util, "find_spec", lambda name: None)
    device = torch.device("cuda", 63)
    with pytest.warns(MdpfWarning, match="Triton is not installed"):
        assert not availability.fused_is_available(device)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not availability.fused_is_available(device)


def test_little_memory_makes_blocks_smaller_and_is_told_once(generator, monkeypatch):
    kernel = Product((Gaussian(_positive(generator, 2)), VonMises(_positive(generator, 1))))
    parameters = [kernel.parts[0].scale, kernel.parts[1].concentration]
    arguments = (*make(generator, kernel, (3,), m=40, n=50), kernel, parameters)
    expected = outcome_and_gradients("blockwise", *arguments)
    plain, refused = torch.empty, []

    def empty(size, **options):
        if isinstance(size, int) and size > 200:
            refused.append(size)
            raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")
        return plain(size, **options)

    blocks._tell_of_little_memory.cache_clear()
    monkeypatch.setattr("mdpf.ops.blocks.torch.empty", empty)
    with pytest.warns(MdpfWarning, match="little memory on cpu") as caught:
        found = outcome_and_gradients("blockwise", *arguments)
    assert refused
    assert len(caught) == 1
    assert_agreement(found, expected, 1e-12)
    monkeypatch.setattr("mdpf.ops.blocks.torch.empty", lambda size, **options: plain(-1))
    with pytest.raises(RuntimeError, match="negative"):
        outcome_and_gradients("blockwise", *arguments)


def test_a_device_too_old_for_triton_is_told(monkeypatch):
    monkeypatch.setattr(availability.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 0))
    with pytest.warns(MdpfWarning, match=r"compute capability 7\.0"):
        assert not availability.fused_is_available(torch.device("cuda", 62))


def test_the_compiler_takes_the_answer_for_a_constant_and_is_not_imported_for_it():
    def other(device):
        return False

    assert vars(torch.compiler.assume_constant_result(other)) == vars(availability.fused_is_available)
    command = "import sys, mdpf; print('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True).stdout.strip() == "False"


def test_operators_are_declared_as_they_behave(generator):
    kernel = Product((Gaussian(torch.ones(2)), VonMises(torch.ones(1))))
    x, locs, log_weights = make(generator, kernel, (2,), dtype=torch.float32)
    parameters = torch.ones(2, 3, requires_grad=True)
    for with_x in (True, False):
        inputs = (x if with_x else x.detach(), locs, log_weights, parameters, "ggv")
        torch.library.opcheck(torch.ops.mdpf.mixture_blockwise, inputs)


@pytest.mark.compile
def test_compiles_without_a_break(generator):
    scale, concentration = _positive(generator, 2, dtype=torch.float32), _positive(generator, 1, dtype=torch.float32)

    def evaluate(x, locs, log_weights, scale, concentration):
        return mixture_log_prob(x, locs, log_weights, Product((Gaussian(scale), VonMises(concentration))))

    compiled = torch.compile(evaluate, fullgraph=True, backend="aot_eager")
    arguments = (
        *make(generator, Product((Gaussian(scale), VonMises(concentration))), (2,), dtype=torch.float32),
        scale,
        concentration,
    )
    outcomes = [each(*arguments) for each in (evaluate, compiled)]
    torch.testing.assert_close(*outcomes)
    gradients = [torch.autograd.grad(outcome.sum(), arguments) for outcome in outcomes]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


PEAK = """
import re, torch
from mdpf.kernels import Gaussian, Product, VonMises
from mdpf.ops import mixture_log_prob

torch.set_num_threads(1)

def peak_after(n, implementation):
    kernel = Product((Gaussian(torch.ones(2, requires_grad=True)), VonMises(torch.ones(1, requires_grad=True))))
    locs, logits = torch.randn(2, n, 3, requires_grad=True), torch.randn(2, n, requires_grad=True)
    mixture_log_prob(locs.detach(), locs, logits, kernel, implementation=implementation).sum().backward()
    # Of this program alone: what getrusage says begins at the size of the process that started it.
    return 1024 * int(re.search("VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])

sizes = [(100, "reference"), (100, "blockwise"), (2000, "blockwise"), (2000, "reference")]
print([peak_after(*size) for size in sizes])
"""


def test_memory_is_bounded():
    """The peak of a process only rises: the blockwise form first, then the reference."""
    run = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True)
    _, before, blockwise, reference = json.loads(run.stdout)
    one_matrix = 4 * 2 * 2000**2
    assert blockwise - before < one_matrix / 4
    assert reference - blockwise > 3 * one_matrix


def test_reference_is_the_sum_written_out(generator):
    kernel = Product((Gaussian(_positive(generator, 2).detach()), VonMises(_positive(generator, 1).detach())))
    x, locs, log_weights = (each.detach() for each in make(generator, kernel, m=2, n=3))
    outcome = mixture_log_prob(x, locs, log_weights, kernel, implementation="reference")
    for i, point in enumerate(x):
        terms = [math.exp(weight) * math.exp(kernel.log_prob(point, loc)) for weight, loc in zip(log_weights, locs, strict=True)]
        assert outcome[i].item() == pytest.approx(math.log(sum(terms)), rel=1e-12)


def test_responsibilities_that_cannot_count_are_exactly_zero(generator):
    """Otherwise they are denormal numbers, which slow a processor down; the others keep their digits."""
    locs = torch.tensor([[0.0], [1.0], [12.0], [12.5]], requires_grad=True)
    log_weights = torch.zeros(4).log_softmax(-1).requires_grad_()
    kernel = Gaussian(torch.ones(1))
    x = torch.zeros(1, 1)
    blockwise, reference = (
        torch.autograd.grad(mixture_log_prob(x, locs, log_weights, kernel, implementation=each), [locs, log_weights])
        for each in ("blockwise", "reference")
    )
    assert (reference[1][2:] > 0).all()
    assert (blockwise[1][2:] == 0).all()
    assert_agreement(blockwise, reference, 1e-6)
