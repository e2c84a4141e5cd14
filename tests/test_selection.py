"""Counts of every selection rule: exact where the rule fixes them, z-tests where it does not."""

import pytest
import torch

from mdpf import noise, selection
from mdpf.testing import assert_mean

RULES = {name: getattr(selection, name) for name in ("multinomial", "stratified", "systematic", "residual")}
LOW_VARIANCE = ("stratified", "systematic", "residual")


@pytest.fixture(params=RULES.values(), ids=RULES.keys())
def rule(request):
    return request.param


def counts(indices, num_components):
    return torch.nn.functional.one_hot(indices, num_components).sum(-2)


def mixed_weights(*batch, num_components, generator, dtype=torch.float64):
    return torch.randn((*batch, num_components), generator=generator, dtype=dtype).log_softmax(-1)


def levels(value, shape):
    """Noise whose every uniform number is ``value``."""
    return noise.Noise((torch.full(shape, value),))


@pytest.mark.statistical
@pytest.mark.parametrize("num_samples", [1, 5, 16])
def test_expected_counts_are_the_weights(rule, num_samples, dtype, generator):
    log_weights = mixed_weights(num_components=5, generator=generator).to(dtype)
    drawn = counts(rule(log_weights.expand(20_000, 5), num_samples, generator=generator), 5).to(dtype)
    assert_mean(drawn / num_samples, log_weights.exp(), max_se=0.005)


@pytest.mark.statistical
def test_expected_counts_reject_an_index_off_by_one(generator):
    log_weights = mixed_weights(num_components=5, generator=generator)
    drawn = counts((selection.multinomial(log_weights.expand(20_000, 5), 16, generator=generator) + 1) % 5, 5)
    with pytest.raises(AssertionError, match="z = "):
        assert_mean(drawn.double() / 16, log_weights.exp(), max_se=0.005)


@pytest.mark.statistical
def test_multinomial_counts_have_multinomial_variance(generator):
    log_weights = mixed_weights(num_components=4, generator=generator)
    weights, num_samples = log_weights.exp(), 8
    drawn = counts(selection.multinomial(log_weights.expand(40_000, 4), num_samples, generator=generator), 4).double()
    squared = (drawn - num_samples * weights).square()
    assert_mean(squared, num_samples * weights * (1 - weights), max_se=0.02)


@pytest.mark.parametrize("name", LOW_VARIANCE)
@pytest.mark.parametrize("num_samples", [3, 7, 40])
def test_low_variance_counts_are_near_their_expectation(name, num_samples, dtype, generator):
    log_weights = mixed_weights(500, num_components=7, generator=generator).to(dtype)
    drawn = counts(RULES[name](log_weights, num_samples, generator=generator), 7)
    expected = num_samples * log_weights.exp()
    below, above = {"systematic": (1, 1), "stratified": (2, 2), "residual": (1, num_samples)}[name]
    assert (drawn > expected - below - 1e-4).all()
    assert (drawn < expected + above + 1e-4).all()


@pytest.mark.parametrize("num_samples", [2, 7, 100])
def test_residual_keeps_the_whole_part_of_every_count(num_samples, dtype, generator):
    log_weights = mixed_weights(200, num_components=6, generator=generator).to(dtype)
    drawn = counts(selection.residual(log_weights, num_samples, generator=generator), 6)
    assert (drawn >= (num_samples * log_weights.exp() - 1e-5).floor()).all()


@pytest.mark.parametrize("num_components", [1, 3, 10, 100, 1000])
@pytest.mark.parametrize("name", ["residual", "systematic"])
def test_whole_counts_leave_nothing_to_chance(name, num_components, dtype, generator):
    multiples = torch.randint(0, 5, (20, num_components), generator=generator)
    multiples[:, 0] += 1
    for row in multiples:
        log_weights = (row.to(dtype) / row.sum()).log()
        source = generator if name == "residual" else levels(0.5, (1,))
        indices = RULES[name](log_weights, int(row.sum()), generator=source)
        assert torch.equal(counts(indices, num_components), row)


def test_residual_is_exact_for_many_samples(generator):
    """A tolerance that grew with the number of samples would hand out copies that nobody earned."""
    log_weights = torch.full((3,), 1 / 3).log()
    drawn = counts(selection.residual(log_weights, 1_000_001, generator=generator), 3)
    assert drawn.sum() == 1_000_001
    assert (drawn >= 333_333).all()


@pytest.mark.parametrize("dead", [[0], [3], [0, 3], [1, 2], [0, 1, 2]], ids=str)
@pytest.mark.parametrize("level", [0.0, 0.25, 0.5, 1 - 2.0**-24])
def test_impossible_components_are_never_drawn(rule, dead, level, dtype, generator):
    log_weights = torch.zeros(4, dtype=dtype)
    log_weights[dead] = -torch.inf
    num_uniform = 1 if rule is selection.systematic else 9
    for source in (levels(level, (num_uniform,)), generator):
        indices = rule(log_weights.log_softmax(-1), 9, generator=source)
        assert not torch.isin(indices, torch.tensor(dead)).any()
        assert ((indices >= 0) & (indices < 4)).all()


@pytest.mark.parametrize("num_components", [3, 1000, 100_000])
def test_level_just_below_one_draws_the_last_possible_component(rule, num_components, generator):
    log_weights = mixed_weights(num_components=num_components, generator=generator, dtype=torch.float32)
    log_weights[-1] = -torch.inf
    below_one = levels(1 - 2.0**-24, (1,))
    assert rule(log_weights, 1, generator=below_one).item() == num_components - 2


def test_smallest_level_draws_the_first_possible_component(rule):
    log_weights = torch.tensor([-torch.inf, -torch.inf, 0.0, 0.0]).log_softmax(-1)
    assert rule(log_weights, 1, generator=levels(0.0, (1,))).item() == 2


def test_one_dominant_component_is_always_drawn(rule, dtype, generator):
    log_weights = torch.tensor([-200.0, 0.0, -200.0], dtype=dtype)
    assert (rule(log_weights, 50, generator=generator) == 1).all()


@pytest.mark.parametrize(("num_components", "num_samples"), [(1, 1), (1, 6), (6, 1), (4, 9), (9, 4)])
def test_shapes_for_any_batch(rule, batch, num_components, num_samples, dtype, generator):
    log_weights = mixed_weights(*batch, num_components=num_components, generator=generator, dtype=dtype)
    indices = rule(log_weights, num_samples, generator=generator)
    assert indices.shape == (*batch, num_samples)
    assert indices.dtype == torch.int64
    assert ((indices >= 0) & (indices < num_components)).all()


def test_empty_batch_gives_empty_indices(rule, generator):
    assert rule(torch.zeros(0, 3), 5, generator=generator).shape == (0, 5)


def test_batch_elements_are_drawn_as_if_alone(rule, generator):
    log_weights = mixed_weights(2, 3, num_components=5, generator=generator)
    recorder = noise.Recorder(generator)
    whole = rule(log_weights, 7, generator=recorder)
    alone = noise.Noise(tuple(draw[1, 2] for draw in recorder.noise.draws))
    assert torch.equal(rule(log_weights[1, 2], 7, generator=alone), whole[1, 2])


def test_weights_need_not_be_normalised_or_contiguous(rule):
    source = noise.Recorder(torch.Generator().manual_seed(0))
    log_weights = torch.randn(5, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64).T
    indices = rule(log_weights, 6, generator=source)
    assert torch.equal(indices, rule((log_weights + 4).contiguous(), 6, generator=source.noise))


def test_equal_streams_draw_equal_indices_and_leave_inputs_alone(rule):
    log_weights = mixed_weights(3, num_components=5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    before, state = log_weights.detach().clone(), torch.get_rng_state()
    first, second = (rule(log_weights, 6, generator=torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(log_weights, before)
    assert torch.equal(torch.get_rng_state(), state)
    assert not first.requires_grad


def test_degenerate_weights_give_indices_in_range(rule, generator):
    for value in (-torch.inf, torch.nan):
        indices = rule(torch.full((2, 4), value), 6, generator=generator)
        assert ((indices >= 0) & (indices < 4)).all()


def test_rules_refuse_wrong_input(rule):
    name = rule.__name__
    with pytest.raises(TypeError, match=rf"selection.{name} .* got a int64 tensor of shape \[3\]. Convert it with .float\(\)."):
        rule(torch.zeros(3, dtype=torch.int64), 2)
    with pytest.raises(ValueError, match=r"\[\*batch, component\], got a float32 tensor of shape \[\]"):
        rule(torch.zeros(()), 2)
    for bad in (0, 2.0, True):
        with pytest.raises(ValueError, match=r"num_samples to be an integer of at least 1, got "):
            rule(torch.zeros(3), bad)
