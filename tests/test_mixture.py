"""Laws of the mixture density, by quadrature and by sums written out."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from mdpf import Mixture, selection
from mdpf.kernels import Biweight, Epanechnikov, Gaussian, Product, VonMises
from mdpf.mixture import gather
from mdpf.testing import assert_mean

SELECTIONS = {name: getattr(selection, name) for name in ("multinomial", "stratified", "systematic", "residual")}
LINEAR = {"gaussian": Gaussian, "epanechnikov": Epanechnikov, "biweight": Biweight}
KERNELS = {**LINEAR, "von_mises": VonMises}
WIDTH = {"gaussian": 0.6, "epanechnikov": 1.3, "biweight": 1.5, "von_mises": 3.0}


@pytest.fixture(params=KERNELS)
def scalar(request, generator):
    """A mixture of six components over one coordinate, batch of two; smooth enough for a grid, wide enough to be seen whole."""
    kernel = KERNELS[request.param](torch.full((1,), WIDTH[request.param], dtype=torch.float64))
    return mixture_of(kernel, 2, num_components=6, generator=generator)


def mixture_of(kernel, *batch, num_components, generator, spread=1.5):
    locs = spread * (2 * torch.rand(*batch, num_components, kernel.state_dim, generator=generator, dtype=torch.float64) - 1)
    weights = torch.randn(*batch, num_components, generator=generator, dtype=torch.float64).log_softmax(-1)
    return Mixture(locs, weights, kernel)


def pose_kernel(scale=0.7, concentration=3.0, dtype=torch.float64):
    return Product(
        (Gaussian(torch.tensor([scale, 1.3 * scale], dtype=dtype)), VonMises(torch.tensor([concentration], dtype=dtype)))
    )


def line_kernel(scale=0.7, concentration=3.0):
    return Product(
        (Gaussian(torch.tensor([scale], dtype=torch.float64)), VonMises(torch.tensor([concentration], dtype=torch.float64)))
    )


def grid_of(mixture, num_points=4001, reach=7.0):
    """A grid ``[m]`` over a scalar mixture and the trapezoid rule's weight of every point."""
    end = math.pi if mixture.space.angular else reach
    grid = torch.linspace(-end, end, num_points, dtype=torch.float64)
    weights = torch.full_like(grid, float(grid[1] - grid[0]))
    weights[[0, -1]] /= 2
    return grid, weights


def integrate(mixture, function):
    grid, weights = grid_of(mixture)
    density = mixture.log_prob(grid[:, None].expand(*mixture.batch_shape, -1, 1)).exp()
    return (density * weights * function(grid)).sum(-1)


# --- Density --------------------------------------------------------------------------------------------------------------------


def test_density_integrates_to_one(scalar):
    smooth = type(scalar.kernel) is not Epanechnikov
    assert_close(integrate(scalar, torch.ones_like), torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-9 if smooth else 1e-6)


def test_pose_density_integrates_to_one(generator):
    mixture = mixture_of(pose_kernel(), num_components=4, generator=generator)
    line, turn = torch.linspace(-8, 8, 61, dtype=torch.float64), torch.arange(32, dtype=torch.float64) / 32 * 2 * math.pi
    points = torch.cartesian_prod(line, line, turn)
    cell = float(line[1] - line[0]) ** 2 * float(turn[1])
    assert_close(mixture.log_prob(points).exp().sum() * cell, torch.tensor(1.0, dtype=torch.float64), rtol=0, atol=1e-9)


def test_density_is_the_sum_written_out(generator):
    mixture = mixture_of(pose_kernel(), num_components=3, generator=generator)
    x = torch.tensor([0.3, -0.8, 2.9], dtype=torch.float64)
    scale, (concentration,) = (0.7, 0.91), (3.0,)
    bessel = float(torch.special.i0(torch.tensor(concentration, dtype=torch.float64)))
    total = 0.0
    for (a, b, c), weight in zip(mixture.locs.tolist(), mixture.log_weights.exp().tolist(), strict=True):
        along = math.exp(-0.5 * ((x[0] - a) / scale[0]) ** 2) / scale[0] / math.sqrt(2 * math.pi)
        across = math.exp(-0.5 * ((x[1] - b) / scale[1]) ** 2) / scale[1] / math.sqrt(2 * math.pi)
        total += weight * along * across * math.exp(concentration * math.cos(x[2] - c)) / (2 * math.pi * bessel)
    assert_close(float(mixture.log_prob(x[None])[0].exp()), total, rtol=1e-12, atol=0)


def test_density_ignores_the_order_of_components(scalar, generator):
    order = torch.randperm(6, generator=generator)
    shuffled = Mixture(scalar.locs[:, order], scalar.log_weights[:, order], scalar.kernel)
    x = scalar.sample(20, generator=generator)
    assert_close(shuffled.log_prob(x), scalar.log_prob(x), rtol=1e-12, atol=1e-12)


def test_density_ignores_full_turns(generator):
    mixture = mixture_of(pose_kernel(), num_components=5, generator=generator)
    x = mixture.sample(20, generator=generator)
    turn = torch.tensor([0.0, 0.0, 2 * math.pi], dtype=torch.float64)
    turned = mixture._replace(locs=mixture.locs - 3 * turn)
    assert_close(turned.log_prob(x + turn), mixture.log_prob(x), rtol=1e-12, atol=1e-12)


def test_density_moves_with_its_components(scalar, generator):
    x = scalar.sample(20, generator=generator)
    assert_close(scalar._replace(locs=scalar.locs + 0.7).log_prob(x + 0.7), scalar.log_prob(x), rtol=1e-8, atol=1e-8)


def test_density_of_a_batch_is_that_of_its_elements(batch, dtype, generator):
    scale = 0.5 + torch.rand(*batch, 2, generator=generator, dtype=dtype)
    locs = torch.randn(*batch, 4, 2, generator=generator, dtype=dtype)
    weights = torch.randn(*batch, 4, generator=generator, dtype=dtype).log_softmax(-1)
    x = torch.randn(*batch, 3, 2, generator=generator, dtype=dtype)
    whole = Mixture(locs, weights, Gaussian(scale)).log_prob(x)
    assert whole.shape == (*batch, 3)
    assert whole.dtype == dtype
    flat = [tensor.reshape(-1, *tensor.shape[len(batch) :]) for tensor in (locs, weights, scale, x)]
    alone = [Mixture(loc, weight, Gaussian(width)).log_prob(point) for loc, weight, width, point in zip(*flat, strict=True)]
    assert_close(whole, torch.stack(alone).reshape(whole.shape))


@settings(derandomize=True, deadline=None, max_examples=30)
@given(num_components=st.integers(1, 6), impossible=st.integers(0, 5), seed=st.integers(0, 1000))
def test_a_component_of_weight_zero_changes_nothing(num_components, impossible, seed):
    generator = torch.Generator().manual_seed(seed)
    mixture = mixture_of(line_kernel(), num_components=num_components, generator=generator)
    place = min(impossible, num_components)
    locs = torch.cat([mixture.locs[:place], torch.full((1, 2), 0.1, dtype=torch.float64), mixture.locs[place:]])
    log_weights = torch.cat([mixture.log_weights[:place], torch.tensor([-torch.inf]).double(), mixture.log_weights[place:]])
    padded = Mixture(locs, log_weights, mixture.kernel)
    x = mixture.sample(5, generator=generator)
    assert_close(padded.log_prob(x), mixture.log_prob(x), rtol=1e-12, atol=1e-12)
    assert_close(padded.mean(), mixture.mean())


def test_density_gradients_match_finite_differences(generator):
    mixture = mixture_of(pose_kernel(), 2, num_components=3, generator=generator)
    x = mixture.sample(4, generator=generator)
    scale, concentration = (part[0].expand(2, -1).clone() for part in mixture.kernel.parts)

    def log_prob(x, locs, logits, scale, concentration):
        return Mixture(locs, logits.log_softmax(-1), Product((Gaussian(scale), VonMises(concentration)))).log_prob(x)

    inputs = [tensor.detach().clone().requires_grad_() for tensor in (x, mixture.locs, mixture.log_weights, scale, concentration)]
    assert torch.autograd.gradcheck(log_prob, inputs)


@pytest.mark.parametrize("kernel", [Epanechnikov, Biweight])
def test_compact_density_outside_the_support_is_zero_with_zero_gradient(kernel, dtype):
    locs = torch.tensor([[0.0], [1.0]], dtype=dtype, requires_grad=True)
    logits = torch.zeros(2, dtype=dtype, requires_grad=True)
    width = torch.full((1,), 0.5, dtype=dtype, requires_grad=True)
    x = torch.tensor([[9.0], [-0.5], [0.5], [-40.0]], dtype=dtype, requires_grad=True)
    log_prob = Mixture(locs, logits.log_softmax(-1), kernel(width)).log_prob(x)
    assert log_prob.tolist() == [-math.inf] * 4
    log_prob.sum().backward()
    for tensor in (locs, logits, width, x):
        assert torch.equal(tensor.grad, torch.zeros_like(tensor))


# --- Moments --------------------------------------------------------------------------------------------------------------------


def test_mean_is_the_integral(scalar):
    if scalar.space.angular:
        sine, cosine = integrate(scalar, torch.sin), integrate(scalar, torch.cos)
        expected = torch.atan2(sine, cosine)
    else:
        expected = integrate(scalar, lambda x: x)
    assert_close(scalar.mean().squeeze(-1), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", LINEAR)
def test_covariance_of_linear_coordinates_is_the_integral(name, generator):
    kernel = LINEAR[name](torch.tensor([WIDTH[name]], dtype=torch.float64))
    mixture = mixture_of(kernel, 2, num_components=6, generator=generator)
    mean = integrate(mixture, lambda x: x)
    assert_close(mixture.covariance().flatten(), integrate(mixture, lambda x: x**2) - mean**2, rtol=0, atol=1e-5)


def test_covariance_between_coordinates_is_the_weighted_product(generator):
    mixture = mixture_of(Gaussian(torch.tensor([0.5, 0.7], dtype=torch.float64)), num_components=5, generator=generator)
    weights, locs = mixture.log_weights.exp(), mixture.locs
    centred = locs - (weights[:, None] * locs).sum(0)
    expected = torch.einsum("n,nd,ne->de", weights, centred, centred) + torch.diag(torch.tensor([0.25, 0.49], dtype=torch.float64))
    assert_close(mixture.covariance(), expected)


def test_covariance_of_concentrated_angles_is_the_integral_across_the_seam():
    kernel = VonMises(torch.tensor([60.0], dtype=torch.float64))
    locs = torch.tensor([[3.1], [-3.1], [3.0]], dtype=torch.float64)
    mixture = Mixture(locs, torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64).log(), kernel)
    mean = mixture.mean()
    variance = integrate(mixture, lambda x: mixture.space.difference(x[:, None], mean.expand(len(x), 1)).squeeze(-1) ** 2)
    assert_close(mixture.covariance().squeeze(), variance, rtol=2e-3, atol=0)


def test_covariance_and_mean_accept_shared_and_own_bandwidths(batch):
    locs, log_weights = torch.zeros(*batch, 3, 2), torch.full((*batch, 3), -math.log(3))
    for parameter in (torch.ones(2), torch.ones(*batch, 2)):
        mixture = Mixture(locs, log_weights, Gaussian(parameter))
        assert mixture.mean().shape == (*batch, 2)
        assert_close(mixture.covariance(), torch.eye(2).expand(*batch, 2, 2))


# --- Marginals and conditionals -------------------------------------------------------------------------------------------------


def joint_on_grid(mixture, num_points=241):
    """The density of a mixture over a line and a circle on a grid: ``[line, circle]``, both axes, both spacings."""
    line = torch.linspace(-7, 7, num_points, dtype=torch.float64)
    turn = torch.arange(num_points, dtype=torch.float64) / num_points * 2 * math.pi - math.pi
    density = mixture.log_prob(torch.cartesian_prod(line, turn)).exp().reshape(num_points, num_points)
    return density, line, turn


def test_marginals_are_integrals_over_the_rest(generator):
    mixture = mixture_of(line_kernel(), num_components=4, generator=generator)
    density, line, turn = joint_on_grid(mixture)
    assert_close(mixture.marginal((0,)).log_prob(line[:, None]).exp(), density.sum(1) * (turn[1] - turn[0]), rtol=0, atol=1e-10)
    assert_close(mixture.marginal((1,)).log_prob(turn[:, None]).exp(), density.sum(0) * (line[1] - line[0]), rtol=0, atol=1e-10)


def test_conditionals_are_joint_over_marginal(generator):
    mixture = mixture_of(line_kernel(), num_components=4, generator=generator)
    density, line, turn = joint_on_grid(mixture)
    for row in (100, 130):
        expected = density[row] / (density[row].sum() * (turn[1] - turn[0]))
        conditional = mixture.conditional((0,), line[row, None])
        assert conditional.space.angular == (0,)
        assert_close(conditional.log_prob(turn[:, None]).exp(), expected, rtol=1e-9, atol=1e-9)


def test_marginal_reorders_coordinates(generator):
    mixture = mixture_of(pose_kernel(), 2, num_components=4, generator=generator)
    x = mixture.sample(5, generator=generator)
    assert_close(mixture.marginal((2, 0, 1)).log_prob(x[..., [2, 0, 1]]), mixture.log_prob(x))
    assert mixture.marginal((2, 0)).space.angular == (0,)


def test_marginal_and_conditional_make_the_joint(batch, generator):
    mixture = mixture_of(pose_kernel(), *batch, num_components=4, generator=generator)
    x = mixture.sample(1, generator=generator)
    given, rest = mixture.marginal((1, 2)), mixture.conditional((1, 2), x[..., 0, 1:])
    assert_close(given.log_prob(x[..., 1:]) + rest.log_prob(x[..., :1]), mixture.log_prob(x))


def test_conditional_on_what_no_component_covers_keeps_the_weights():
    kernel = Product((Biweight(torch.ones(1)), Gaussian(torch.ones(1))))
    mixture = Mixture(torch.zeros(2, 2), torch.tensor([0.25, 0.75]).log(), kernel)
    conditional = mixture.conditional((0,), torch.tensor([5.0]))
    assert_close(conditional.log_weights.exp(), torch.tensor([0.25, 0.75]))


@pytest.mark.parametrize("dims", [(), (-1,), (3,), (0, 0)])
def test_marginal_and_conditional_refuse_coordinates_that_are_not_there(dims, generator):
    mixture = mixture_of(pose_kernel(), num_components=4, generator=generator)
    with pytest.raises(ValueError, match="Mixture.marginal needs dims"):
        mixture.marginal(dims)
    with pytest.raises(ValueError, match="Mixture.conditional needs dims"):
        mixture.conditional(dims, torch.zeros(len(dims), dtype=torch.float64))


def test_conditional_refuses_to_be_given_everything(generator):
    mixture = mixture_of(pose_kernel(), num_components=4, generator=generator)
    with pytest.raises(ValueError, match="leave at least one"):
        mixture.conditional((0, 1, 2), torch.zeros(3, dtype=torch.float64))


# --- Sampling -------------------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("select", SELECTIONS.values(), ids=SELECTIONS)
def test_samples_have_the_moments_of_the_mixture(select, generator):
    mixture = mixture_of(line_kernel(), num_components=5, generator=generator)
    density, line, turn = joint_on_grid(mixture)
    mass = density * (turn[1] - turn[0]) * (line[1] - line[0])
    x, angle = line[:, None].expand_as(mass), turn[None].expand_as(mass)

    def moments(x, angle):
        return torch.stack([x, x.square(), angle.cos(), angle.sin(), x * angle.sin()], -1)

    expected = (mass[..., None] * moments(x, angle)).sum((0, 1))
    repeated = Mixture(mixture.locs.expand(20_000, 5, 2), mixture.log_weights.expand(20_000, 5), mixture.kernel)
    points = repeated.sample(8, generator=generator, select=select)
    assert_mean(moments(*points.unbind(-1)).mean(-2), expected, max_se=0.01)


@pytest.mark.statistical
def test_samples_fill_the_density(scalar, generator):
    """The distributional transform of samples is uniform: every moment of it is that of a uniform number."""
    place = scalar.distributional_transform(scalar.sample(20_000, generator=generator))[..., 0].remainder(1)
    powers = torch.stack([place**k for k in (1, 2, 3)], -1).movedim(1, 0)
    assert_mean(powers, torch.tensor([1 / 2, 1 / 3, 1 / 4]), max_se=0.005)


def test_samples_of_compact_kernels_are_covered(generator, dtype):
    for kernel in (Epanechnikov, Biweight):
        locs = 1e3 * torch.randn(200, 4, 1, generator=generator, dtype=dtype)
        mixture = Mixture(locs, torch.full((200, 4), -math.log(4), dtype=dtype), kernel(torch.full((1,), 0.3, dtype=dtype)))
        assert mixture.log_prob(mixture.sample(50, generator=generator)).isfinite().all()


def test_sample_is_pathwise_within_the_drawn_component(generator):
    locs = torch.randn(4, 1, generator=generator, requires_grad=True)
    scale = torch.ones(1, requires_grad=True)
    points = Mixture(locs, torch.full((4,), -math.log(4)), Gaussian(scale)).sample(50, generator=generator)
    points.sum().backward()
    assert_close(locs.grad.sum(), torch.tensor(50.0))
    assert scale.grad.isfinite().all()


# --- Distributional transform ---------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_transform_makes_independent_uniforms(generator):
    mixture = mixture_of(pose_kernel(), num_components=5, generator=generator, spread=2.5)
    place = mixture.distributional_transform(mixture.sample(40_000, generator=generator)).remainder(1)
    centred = place - 0.5
    products = torch.cat([place, place.square(), centred * centred[:, [1, 2, 0]], centred.prod(-1, keepdim=True)], -1)
    assert_mean(products, torch.tensor([0.5] * 3 + [1 / 3] * 3 + [0.0] * 4), max_se=0.003)


def test_transform_has_the_conditional_densities_as_derivatives(generator):
    mixture = mixture_of(pose_kernel(), num_components=4, generator=generator)
    x = mixture.sample(6, generator=generator).requires_grad_()
    place = mixture.distributional_transform(x)
    for k in range(3):
        slopes = torch.autograd.grad(place[:, k].sum(), x, retain_graph=True)[0]
        assert not slopes[:, k + 1 :].any()
        for row in range(6):
            marginal = mixture.marginal(tuple(range(k + 1)))
            density = marginal if k == 0 else marginal.conditional(tuple(range(k)), x[row, :k].detach())
            assert_close(slopes[row, k], density.log_prob(x[row : row + 1, k : k + 1].detach())[0].exp(), rtol=1e-6, atol=1e-8)


def test_transform_in_one_dimension_is_the_distribution_function(scalar):
    grid, weights = grid_of(scalar)
    points = grid[:, None].expand(2, -1, 1)
    place = scalar.distributional_transform(points)[..., 0]
    mass = scalar.log_prob(points).exp() * weights
    expected = mass.cumsum(-1) - mass / 2
    assert_close(place - place[:, :1], expected - expected[:, :1], rtol=0, atol=1e-5)


def test_transform_runs_on_over_full_turns(generator):
    mixture = mixture_of(VonMises(torch.tensor([4.0], dtype=torch.float64)), num_components=4, generator=generator)
    x = mixture.sample(10, generator=generator)
    assert_close(mixture.distributional_transform(x + 2 * math.pi), mixture.distributional_transform(x) + 1, rtol=1e-10, atol=1e-10)


def test_transform_outside_every_support_is_finite_with_finite_gradient():
    locs = torch.zeros(2, 2, requires_grad=True)
    mixture = Mixture(locs, torch.tensor([0.5, 0.5]).log(), Biweight(torch.ones(2)))
    place = mixture.distributional_transform(torch.tensor([[5.0, 0.2], [0.1, 0.2]]))
    place.sum().backward()
    assert place.isfinite().all()
    assert locs.grad.isfinite().all()


class DensityOnly:
    """A kernel that meets the protocol and offers no more."""

    def __init__(self, kernel):
        self._kernel = kernel

    space = property(lambda self: self._kernel.space)
    state_dim = property(lambda self: self._kernel.state_dim)

    def log_prob(self, x, loc):
        return self._kernel.log_prob(x, loc)

    def sample(self, loc, *, generator=None):
        return self._kernel.sample(loc, generator=generator)

    def variance(self):
        return self._kernel.variance()

    def select(self, dims):
        return DensityOnly(self._kernel.select(dims))


def test_transform_refuses_a_kernel_without_cdf():
    mixture = Mixture(torch.zeros(1, 1), torch.zeros(1), DensityOnly(Gaussian(torch.ones(1))))
    with pytest.raises(TypeError, match="needs a kernel with a `cdf`, got DensityOnly"):
        mixture.distributional_transform(torch.zeros(1, 1))


# --- Entropy --------------------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_entropy_is_the_integral(scalar, generator):
    grid, weights = grid_of(scalar)
    log_density = scalar.log_prob(grid[:, None].expand(2, -1, 1))
    expected = -(log_density.exp() * weights * log_density.clamp_min(-1e3)).sum(-1)
    repeated = Mixture(scalar.locs.expand(2000, 2, 6, 1), scalar.log_weights.expand(2000, 2, 6), scalar.kernel)
    estimates = repeated.entropy(10, generator=generator)
    assert_mean(estimates, expected, max_se=0.01)


def test_entropy_carries_no_gradient(generator):
    locs = torch.zeros(3, 1, requires_grad=True)
    assert not Mixture(locs, torch.full((3,), -math.log(3)), Gaussian(torch.ones(1))).entropy(4, generator=generator).requires_grad


# --- Doors ----------------------------------------------------------------------------------------------------------------------


def plain(locs=(4, 2), log_weights=(4,), dtype=torch.float32):
    return Mixture(torch.zeros(locs), torch.full(log_weights, -math.log(4), dtype=dtype), Gaussian(torch.ones(2)))


@pytest.mark.parametrize(
    ("mixture", "error", "message"),
    [
        (plain(locs=(4, 3)), ValueError, r"shape \[\*batch, component, 2\], got a float32 tensor of shape \[4, 3\]"),
        (plain(log_weights=(5,)), ValueError, r"shape \[\*batch, 4\], got a float32 tensor of shape \[5\]"),
        (plain(locs=(3, 4, 2)), ValueError, r"log_weights with leading axes \[3, 4\]"),
        (plain(dtype=torch.float64), TypeError, "log_weights of the dtype of locs"),
        (plain()._replace(locs=torch.zeros(4, 2, dtype=torch.long)), TypeError, "floating-point"),
        (plain()._replace(locs=None), TypeError, "got None"),
    ],
)
def test_mixture_refuses_parts_that_do_not_fit(mixture, error, message):
    for call in (mixture.check, lambda: mixture.log_prob(torch.zeros(1, 2)), lambda: mixture.sample(3)):
        with pytest.raises(error, match=message):
            call()


def test_log_prob_refuses_points_that_do_not_fit():
    mixture = plain(locs=(3, 4, 2), log_weights=(3, 4))
    with pytest.raises(ValueError, match=r"Pass x\[..., None, :\] for a single point"):
        mixture.log_prob(torch.zeros(3, 5, 3))
    with pytest.raises(ValueError, match=r"x with leading axes \[3\], got a float32 tensor of shape \[2, 5, 2\]"):
        mixture.log_prob(torch.zeros(2, 5, 2))
    with pytest.raises(TypeError, match="x of the dtype of locs"):
        mixture.log_prob(torch.zeros(3, 5, 2, dtype=torch.float64))


@pytest.mark.parametrize("count", [0, -1, 2.0, True])
def test_sample_refuses_a_count_that_is_none(count):
    with pytest.raises(ValueError, match="num_samples to be an integer of at least 1"):
        plain().sample(count)


def test_check_values_refuses_weights_that_are_not_normalised():
    plain().check_values()
    with pytest.raises(ValueError, match=r"normalised log_weights, got weights that sum to exp\(1.39\)"):
        plain()._replace(log_weights=torch.zeros(4)).check_values()
    with pytest.raises(ValueError, match="normalised log_weights"):
        plain()._replace(log_weights=torch.full((4,), -math.inf)).check_values()
    with pytest.raises(ValueError, match="normalised log_weights"):
        plain()._replace(log_weights=torch.full((4,), math.nan)).check_values()


def test_check_values_refuses_locations_that_are_not_finite():
    locs = torch.zeros(4, 2)
    locs[2, 1] = math.nan
    with pytest.raises(ValueError, match=r"finite locs, got nan at index \[2, 1\]"):
        plain()._replace(locs=locs).check_values()


def test_gather_picks_along_the_particle_axis(batch, generator):
    values = torch.randn(*batch, 4, 3, generator=generator)
    indices = torch.randint(4, (*batch, 6), generator=generator)
    picked = gather(values, indices)
    assert picked.shape == (*batch, 6, 3)
    flat = zip(picked.reshape(-1, 6, 3), values.reshape(-1, 4, 3), indices.reshape(-1, 6), strict=True)
    assert all(torch.equal(got, source[index]) for got, source, index in flat)
