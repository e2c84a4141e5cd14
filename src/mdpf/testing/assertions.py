r"""Assertions about random quantities, with tolerances that are computed and power that is demanded.

A statistical test goes wrong in two ways: it rejects what is right, or it accepts what is wrong. Against the first, the tolerance
is a quantile: all comparisons of one assertion together reject a correct mean with probability ``alpha``. Against the second, every
assertion takes ``max_se``, the largest standard error with which its answer would still mean something.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

MIN_REPLICATES = 30


def critical_value(num_comparisons: int, num_replicates: int, alpha: float = 1e-6) -> float:
    r"""Bound every one of ``num_comparisons`` z-scores such that correct means exceed it with probability ``alpha`` in all.

    This is Student's quantile at :math:`1 - \alpha / 2K` (Bonferroni), by its expansion around the normal quantile: the standard
    error is itself estimated, and far in the tail that matters even for hundreds of replicates.

    Example:
        >>> round(critical_value(1, 10**9), 3), round(critical_value(100, 200), 3)
        (4.892, 5.984)
    """
    z = -float(torch.special.ndtri(torch.tensor(alpha / (2 * num_comparisons), dtype=torch.float64)))
    freedom = num_replicates - 1
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )


def assert_mean(
    samples: Tensor,
    expected: Tensor | float,
    *,
    max_se: Tensor | float,
    sigmas: float | None = None,
    alpha: float = 1e-6,
    what: str = "mean",
) -> None:
    """Reject unless the mean over replicates agrees with ``expected`` and the test had the power to tell.

    Args:
        samples: Independent replicates along the first axis, ``[replicate, ...]``; at least 30, with finite variance.
        expected: The true mean, ``[...]`` or broadcastable to it.
        max_se: The largest standard error allowed; an effect a few times as large cannot hide.
        sigmas: The bound on the z-scores, in place of the quantile that ``alpha`` and the number of comparisons give.
        alpha: Probability that any of the comparisons rejects a correct mean.
        what: What is compared, for the message.
    """
    num_replicates = len(samples) if samples.ndim else 0
    if num_replicates < MIN_REPLICATES:
        raise ValueError(
            f"assert_mean needs at least {MIN_REPLICATES} replicates along the first axis, got {num_replicates}. "
            "A standard error from fewer is a guess; draw more replicates in one batched call."
        )
    values = samples.detach().to(torch.float64)
    truth = torch.as_tensor(expected, dtype=torch.float64, device=values.device).detach()
    mean, se = values.mean(0), values.std(0) / math.sqrt(num_replicates)
    bound = critical_value(max(mean.numel(), 1), num_replicates, alpha) if sigmas is None else sigmas
    rounding = 8 * torch.finfo(samples.dtype).eps * (truth.abs() + values.abs().mean(0))
    excess = (mean - truth).abs() - rounding
    # Written as "not all within" because every comparison with NaN is false.
    powerless, rejected = (not bool(within.all()) for within in (se <= max_se, excess <= bound * se))
    if not (powerless or rejected):
        return
    z = (excess / se).nan_to_num(math.inf)
    place = z.flatten().argmax()
    got, want = mean.flatten()[place], truth.expand_as(mean).flatten()[place]
    index = [int(i) for i in torch.unravel_index(place, mean.shape)]
    found = f"got {float(got):.6g} at index {index}, expected {float(want):.6g}"
    if powerless:
        reason = f"no power, standard error {_worst(se)} > {max_se}; use more replicates or a tamer quantity"
        # Whoever is far off should look there first: what is wrong often varies too much as well.
        raise AssertionError(f"{what}: {reason}" + (f", or mend the mean: {found} (z = {float(z.max()):.3g})" if rejected else ""))
    raise AssertionError(
        f"{what}: {found} (z = {float(z.max()):.3g} > {bound:.3g}, standard error {float(se.flatten()[place]):.2g})"
    )


def assert_decays(
    sizes: Sequence[float],
    errors: Tensor,
    rate: float,
    *,
    max_se: float,
    sigmas: float | None = None,
    alpha: float = 1e-6,
) -> None:
    r"""Reject unless the mean error falls like ``size ** -rate``.

    The slope of log mean error against log size is fitted by least squares. Its standard error comes from the replicates by the
    delta method, in a way that holds also if one replicate uses the same random numbers for every size.

    Args:
        sizes: The sizes, such as numbers of particles; at least three.
        errors: Non-negative errors ``[replicate, size]``. For absolute errors of a Monte Carlo mean the rate is 0.5, for squared
            ones 1.
        rate: The exponent that theory promises.
        max_se: The largest standard error of the slope allowed.
        sigmas: The bound on the z-score, in place of the quantile that ``alpha`` gives.
        alpha: Probability of rejecting a correct rate.
    """
    if len(sizes) < 3 or errors.ndim != 2 or errors.shape[1] != len(sizes):
        raise ValueError(
            f"assert_decays needs at least three sizes and errors of shape [replicate, {len(sizes)}], got {len(sizes)} sizes and "
            f"errors of shape {list(errors.shape)}. Put replicates on the first axis, one column per size."
        )
    values = errors.detach().to(torch.float64)
    mean = values.mean(0)
    centred = torch.tensor(sizes, dtype=torch.float64, device=values.device).log()
    centred = centred - centred.mean()
    contrast = centred / centred.square().sum()
    slope = (contrast * mean.log()).sum()
    influence = ((values / mean - 1) * contrast).sum(-1)
    assert_mean(slope + influence, -rate, max_se=max_se, sigmas=sigmas, alpha=alpha, what="slope of log error")


def gradients(function: Callable[..., Tensor], inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Differentiate ``function(**inputs).sum()`` with respect to every input; zero where it does not depend on one.

    Example:
        >>> gradients(lambda a, b: a**2, {"a": torch.tensor([3.0]), "b": torch.tensor([1.0])})
        {'a': tensor([6.]), 'b': tensor([0.])}
    """
    leaves = {name: value.detach().clone().requires_grad_() for name, value in inputs.items()}
    output = function(**leaves).sum()
    if not output.requires_grad:
        return {name: torch.zeros_like(value) for name, value in inputs.items()}
    found = torch.autograd.grad(output, list(leaves.values()), materialize_grads=True)
    return dict(zip(leaves, found, strict=True))


def assert_gradient(
    function: Callable[..., Tensor],
    inputs: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    *,
    num_replicates: int,
    max_se: float | Mapping[str, float],
    alpha: float = 1e-6,
) -> None:
    """Reject unless the gradient of a random function is, on average, the expected one.

    Every replicate gets its own copy of the inputs, so one backward pass yields one gradient per replicate.

    Args:
        function: ``function(**inputs)`` maps inputs with a leading replicate axis to one value per replicate, ``[replicate]``.
        inputs: The point at which to differentiate, without the replicate axis.
        expected: The true gradient for each input to be compared; ``gradients`` of a quadrature, for example.
        num_replicates: How many independent gradients to average.
        max_se: The largest standard error allowed, one for all or one per input.
        alpha: Probability that any of the comparisons rejects a correct gradient.

    Example:
        >>> inputs = {"loc": torch.tensor(1.0)}
        >>> generator = torch.Generator().manual_seed(0)
        >>> def square(loc):
        ...     return (loc + torch.randn(loc.shape, generator=generator)) ** 2
        >>> assert_gradient(square, inputs, {"loc": torch.tensor(2.0)}, num_replicates=1000, max_se=0.1)
    """
    repeated = {name: value.detach().expand(num_replicates, *value.shape) for name, value in inputs.items()}
    found = gradients(function, repeated)
    share = alpha / max(len(expected), 1)
    for name, truth in expected.items():
        allowed = max_se[name] if isinstance(max_se, Mapping) else max_se
        assert_mean(found[name], truth, max_se=allowed, alpha=share, what=f"gradient to {name}")


def _worst(values: Tensor) -> str:
    return f"{float(values.nan_to_num(math.inf).max()):.2g}"
