"""The conformance check of selection rules: how often every component is drawn, and good manners."""

import torch
from torch import Generator, Tensor

from mdpf import noise
from mdpf.selection import Selection
from mdpf.testing.assertions import assert_mean

WEIGHTS = (0.10, 0.55, 0.03, 0.25, 0.07)


def check_selection(rule: Selection, *, num_replicates: int = 20_000, max_se: float = 0.005, seed: int = 0) -> None:
    """Reject a rule that does not draw every component as often, on average, as its weight says.

    Checked are: expected counts for few and for many samples; that impossible components are never drawn and a certain one always;
    indices in range for weights that vanish altogether or are not numbers; every batch shape and precision; that the generator
    alone decides, also when recorded, replayed and sliced; that inputs stay as they are and no gradient is attached.

    Args:
        rule: What to check.
        num_replicates: Independent draws behind every expected count.
        max_se: The largest standard error of a count, as a share of the samples.
        seed: Seed of all random numbers.

    Example:
        >>> from mdpf import selection
        >>> check_selection(selection.systematic)
    """
    generator = torch.Generator().manual_seed(seed)
    _check_shapes(rule, generator)
    _check_randomness(rule, seed)
    _check_slices(rule, generator)
    _check_extremes(rule, generator)
    _check_counts(rule, num_replicates, max_se, generator)


def _log_weights(dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(WEIGHTS, dtype=dtype).log()


def _check_counts(rule: Selection, num_replicates: int, max_se: float, generator: Generator) -> None:
    log_weights = _log_weights()
    for num_samples in (1, 5, 16):
        indices = rule(log_weights.expand(num_replicates, -1), num_samples, generator=generator)
        shares = torch.nn.functional.one_hot(indices, len(WEIGHTS)).double().mean(-2)
        assert_mean(shares, log_weights.exp(), max_se=max_se, what=f"share of every component in {num_samples} samples")


def _check_shapes(rule: Selection, generator: Generator) -> None:
    for dtype in (torch.float32, torch.float64):
        for batch in ((), (3,), (2, 3), (0,)):
            log_weights = _log_weights(dtype).expand(*batch, -1).clone().requires_grad_()
            before = log_weights.detach().clone()
            for num_samples in (1, 5, 9):
                indices = rule(log_weights, num_samples, generator=generator)
                shape = (*batch, num_samples)
                _require(tuple(indices.shape) == shape, f"indices of shape {list(shape)}, got {list(indices.shape)}")
                _require(indices.dtype == torch.int64, f"indices of type int64, got {indices.dtype}")
            _require(torch.equal(log_weights.detach(), before), "weights stay as they were handed in")


def _check_extremes(rule: Selection, generator: Generator) -> None:
    inf, nan = torch.inf, torch.nan
    cases = {
        "one component": ([0.0], {0}),
        "one certain component": ([-200.0, 0.0, -200.0], {1}),
        "impossible components": ([-inf, 0.0, -inf, 1.0, -inf], {1, 3}),
        "nothing possible": ([-inf] * 3, {0, 1, 2}),
        "not a number": ([nan] * 3, {0, 1, 2}),
    }
    for dtype in (torch.float32, torch.float64):
        for name, (weights, allowed) in cases.items():
            log_weights = torch.tensor(weights, dtype=dtype).log_softmax(-1).expand(200, -1)
            for num_samples in (1, 4, 9):
                drawn = set(rule(log_weights, num_samples, generator=generator).unique().tolist())
                _require(drawn <= allowed, f"{name}: components {sorted(allowed)} alone, got {sorted(drawn)}")


def _check_randomness(rule: Selection, seed: int) -> None:
    log_weights, before = _log_weights().expand(50, -1), torch.get_rng_state()

    def draw(generator: noise.Source) -> Tensor:
        return rule(log_weights, 7, generator=generator)

    first, again = (draw(torch.Generator().manual_seed(seed)) for _ in range(2))
    recorder = noise.Recorder(torch.Generator().manual_seed(seed))
    recorded = draw(recorder)
    _require(torch.equal(before, torch.get_rng_state()), "the global stream stays untouched when a generator is given")
    for name, indices in (("again", again), ("recorded", recorded), ("replayed", draw(recorder.noise))):
        _require(torch.equal(indices, first), f"the same generator state gives the same indices, {name}")


def _check_slices(rule: Selection, generator: Generator) -> None:
    log_weights = (_log_weights() + torch.arange(4.0)[:, None] * torch.arange(5.0)).log_softmax(-1)
    recorder = noise.Recorder(generator)
    whole = rule(log_weights, 7, generator=recorder)
    shapes = [tuple(draw.shape) for draw in recorder.noise.draws]
    _require(all(shape[:1] == (4,) for shape in shapes), f"every batch element has noise of its own, got draws of shape {shapes}")
    for index, indices in enumerate(whole):
        alone = rule(log_weights[index], 7, generator=noise.Noise(tuple(draw[index] for draw in recorder.noise.draws)))
        _require(torch.equal(alone, indices), f"batch element {index} with its own noise gives what it gives in the batch")


def _require(holds: bool, law: str) -> None:
    if not holds:
        raise AssertionError(f"violated: {law}")
