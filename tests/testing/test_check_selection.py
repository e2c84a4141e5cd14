"""The check of selection rules accepts those of the library and rejects rules that are subtly wrong, each for its own reason."""

import pytest
import torch

from mdpf import noise, selection
from mdpf.testing import check_selection

pytestmark = pytest.mark.statistical


@pytest.mark.parametrize("name", ["multinomial", "stratified", "systematic", "residual"])
def test_every_rule_of_the_library_passes(name):
    check_selection(getattr(selection, name))


def off_by_one(log_weights, num_samples, *, generator=None):
    return (selection.multinomial(log_weights, num_samples, generator=generator) + 1) % log_weights.shape[-1]


def weights_ignored(log_weights, num_samples, *, generator=None):
    return selection.multinomial(log_weights.clamp_min(-1e9) * 0, num_samples, generator=generator)


def slightly_flattened(log_weights, num_samples, *, generator=None):
    return selection.multinomial(0.9 * log_weights, num_samples, generator=generator)


def strata_without_noise(log_weights, num_samples, *, generator=None):
    """Right for many samples, wrong for one: the middle of the cumulative weights every time."""
    middle = noise.uniform((*log_weights.shape[:-1], 1), log_weights, generator) * 0 + 0.5
    return selection.systematic(log_weights, num_samples, generator=noise.Noise((middle,)))


def falls_back_to_the_first(log_weights, num_samples, *, generator=None):
    """Inverts a cumulative sum that rounding leaves below one, and takes component zero beyond its end."""
    levels = noise.uniform((*log_weights.shape[:-1], num_samples), log_weights, generator)
    index = torch.searchsorted(0.999 * log_weights.exp().cumsum(-1), levels, right=True)
    return torch.where(index < log_weights.shape[-1], index, 0)


def one_number_for_the_batch(log_weights, num_samples, *, generator=None):
    level = noise.uniform((num_samples,), log_weights, generator).expand(*log_weights.shape[:-1], num_samples)
    return selection.multinomial(log_weights, num_samples, generator=noise.Noise((level,)))


def global_stream(log_weights, num_samples, *, generator=None):
    return selection.multinomial(log_weights, num_samples)


def in_place(log_weights, num_samples, *, generator=None):
    indices = selection.multinomial(log_weights, num_samples, generator=generator)
    log_weights.detach().add_(1.0)
    return indices


def small_integers(log_weights, num_samples, *, generator=None):
    return selection.multinomial(log_weights, num_samples, generator=generator).int()


def sorted_and_cut(log_weights, num_samples, *, generator=None):
    """Draws twice as many and keeps the first half of the sorted: light components at the end lose."""
    return selection.multinomial(log_weights, 2 * num_samples, generator=generator).sort(-1).values[..., :num_samples]


MUTANTS = [
    (off_by_one, "certain component|share of every component|impossible|one component"),
    (weights_ignored, "certain component"),
    (slightly_flattened, "share of every component"),
    (strata_without_noise, "share of every component"),
    (falls_back_to_the_first, "certain component|impossible"),
    (one_number_for_the_batch, "has noise of its own"),
    (global_stream, "global stream"),
    (in_place, "as they were handed in"),
    (small_integers, "int64"),
    (sorted_and_cut, "share of every component"),
]


@pytest.mark.parametrize(("mutant", "reason"), MUTANTS, ids=lambda value: getattr(value, "__name__", ""))
def test_check_rejects_a_mutant(mutant, reason):
    with pytest.raises(AssertionError, match=reason):
        check_selection(mutant)
