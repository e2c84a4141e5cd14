r"""The Triton programs behind ``fused``.

A program owns ``OWN`` points, laid out along the last axis so that every thread owns some of them, and walks over the points of
the other side in groups of ``GROUP`` along the first axis, which lies within a thread: no sum or maximum over a group crosses
threads, no two programs write to one place, and the order of every sum is fixed.

Everything is to base two (see ``binary``). Deviations are differences of the coordinates as they came, so a cloud may lie or reach
far; half angles are kept as sine and cosine, of which :math:`\sin\frac{x - \mu}{2}` is made without trigonometry in the loop.

``KINDS`` holds two bits per coordinate, in the order of ``CODES``. Points are packed as rows ``[b, 2 d + 2, padded]``: coordinates
or the sines of half angles, then their cosines, then two rows of the side's own: log-weight and nothing, or outcome and gradient.
"""

# Triton's language has no annotations for values and no unpacking.
# ruff: noqa: ANN001, ANN201, ANN202, RUF005
# pyright: basic, reportMissingImports=false, reportInvalidTypeForm=false, reportOperatorIssue=false, reportIndexIssue=false

from types import SimpleNamespace

try:
    import triton
    import triton.language as tl
except ModuleNotFoundError:
    # Nobody runs them then (see ``availability``), but they can be imported, described and checked.
    triton, tl = SimpleNamespace(jit=lambda program: program), SimpleNamespace(constexpr=float)

CODES = {"g": 0, "v": 1, "e": 2, "b": 3}
LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def pack(points, first, second, rows, count, padded, first_default, D: tl.constexpr, KINDS: tl.constexpr, BLOCK: tl.constexpr):
    """Lay points out by coordinate; what is beyond their count gets coordinate zero and the default of the first own row."""
    blocks = tl.cdiv(padded, BLOCK)
    batch, index = (tl.program_id(0) // blocks).to(tl.int64), (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    there, room = index < count, index < padded
    rows += batch * (2 * D + 2) * padded + index
    for k in tl.static_range(D):
        value = tl.load(points + (batch * count + index) * D + k, mask=there, other=0.0)
        if (KINDS >> (2 * k)) & 3 == 1:
            tl.store(rows + k * padded, tl.sin(value * 0.5), mask=room)
            tl.store(rows + (D + k) * padded, tl.cos(value * 0.5), mask=room)
        else:
            tl.store(rows + k * padded, value, mask=room)
    tl.store(rows + 2 * D * padded, tl.load(first + batch * count + index, mask=there, other=first_default), mask=room)
    tl.store(rows + (2 * D + 1) * padded, tl.load(second + batch * count + index, mask=there, other=0.0), mask=room)


@triton.jit
def _coordinates(rows, index, padded, D: tl.constexpr, KINDS: tl.constexpr):
    """Load some points: for every coordinate itself, or sine and cosine of its half."""
    values = ()
    for k in tl.static_range(D):
        value = tl.load(rows + k * padded + index)
        if (KINDS >> (2 * k)) & 3 == 1:
            values = values + ((value, tl.load(rows + (D + k) * padded + index)),)
        else:
            values = values + ((value, value),)
    return values


@triton.jit
def _parameters(parameters, D: tl.constexpr):
    values = ()
    for k in tl.static_range(D):
        values = values + (tl.load(parameters + k),)
    return values


@triton.jit
def _difference(x, loc, KIND: tl.constexpr):
    """The deviation, or the sine of half of it."""
    if KIND == 1:
        return x[0] * loc[1] - x[1] * loc[0]
    else:
        return x[0] - loc[0]


@triton.jit
def _score(x, loc, parameters, D: tl.constexpr, KINDS: tl.constexpr):
    """The sum of the factors' logarithms, relative to the peak."""
    score = 0.0
    for k in tl.static_range(D):
        parameter, t = parameters[k], _difference(x[k], loc[k], (KINDS >> (2 * k)) & 3)
        if (KINDS >> (2 * k)) & 3 == 0:
            score += t * t * (-0.5 / (parameter * parameter))
        elif (KINDS >> (2 * k)) & 3 == 1:
            score += t * t * (-2 * parameter)
        else:
            # Differences from the edge are exact near it.
            below = tl.maximum((parameter - t) * (parameter + t) * (1 / (parameter * parameter)), 0.0)
            score += tl.log2(below) * (((KINDS >> (2 * k)) & 3) - 1)
    return score


@triton.jit
def _derivatives(share, x, loc, parameter, KIND: tl.constexpr):
    """The derivatives of one factor, weighted by ``share``, to the deviation and to the parameter; see ``_unit`` for the rest."""
    t = _difference(x, loc, KIND)
    if KIND == 0:
        return share * t, share * t * t
    elif KIND == 1:
        return share * t * (x[0] * loc[0] + x[1] * loc[1]), share * t * t
    else:
        below = (parameter - t) * (parameter + t)
        slope = tl.where(below > 0, share * t * parameter / below, 0.0)
        return slope, slope * t


@triton.jit
def _unit(parameter, KIND: tl.constexpr):
    """What to multiply the outcomes of ``_derivatives`` with."""
    if KIND == 0:
        precision = 1 / (parameter * parameter)
        return -precision, precision / parameter
    elif KIND == 1:
        return -2 * parameter, -2.0
    else:
        precision = 2 * LOG2_E * (KIND - 1) / parameter
        return -precision, precision / parameter


@triton.jit
def _zeros(like, COUNT: tl.constexpr):
    values = ()
    for _ in tl.static_range(COUNT):
        values = values + (tl.zeros_like(like),)
    return values


@triton.jit
def log_prob(
    queries, components, parameters, out, m, m_padded, n_padded,
    D: tl.constexpr, KINDS: tl.constexpr, OWN: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One pass over the components with a running maximum."""
    blocks = tl.cdiv(m_padded, OWN)
    batch, first = (tl.program_id(0) // blocks).to(tl.int64), (tl.program_id(0) % blocks) * OWN
    queries += batch * (2 * D + 2) * m_padded
    components += batch * (2 * D + 2) * n_padded
    scales = _parameters(parameters + batch * D, D)
    own = first + tl.arange(0, OWN)
    x = _coordinates(queries, own[None, :], m_padded, D, KINDS)
    peak = tl.full([OWN], -float("inf"), queries.dtype.element_ty)
    total = tl.zeros_like(peak)
    for start in range(0, n_padded, GROUP):
        group = start + tl.arange(0, GROUP)[:, None]
        loc = _coordinates(components, group, n_padded, D, KINDS)
        score = _score(x, loc, scales, D, KINDS) + tl.load(components + 2 * D * n_padded + group)
        highest = tl.maximum(peak, tl.max(score, 0))
        # Subtracting minus infinity would leave NaN where no kernel covers the query.
        base = tl.where(highest == -float("inf"), 0.0, highest)
        total = total * tl.exp2(peak - base) + tl.sum(tl.exp2(score - base[None, :]), 0)
        peak = highest
    tl.store(out + batch * m + own, (tl.log2(total) + tl.where(peak == -float("inf"), 0.0, peak)) / LOG2_E, mask=own < m)


@triton.jit
def to_components(
    queries, components, parameters, to_locs, to_log_weights, to_parameters, n, m_padded, n_padded,
    D: tl.constexpr, KINDS: tl.constexpr, OWN: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One pass over the queries: the gradients of the components, and this program's part of those of the parameters."""
    blocks = tl.cdiv(n_padded, OWN)
    batch, first = (tl.program_id(0) // blocks).to(tl.int64), (tl.program_id(0) % blocks) * OWN
    queries += batch * (2 * D + 2) * m_padded
    components += batch * (2 * D + 2) * n_padded
    scales = _parameters(parameters + batch * D, D)
    own = first + tl.arange(0, OWN)
    loc = _coordinates(components, own[None, :], n_padded, D, KINDS)
    log_weight = tl.load(components + 2 * D * n_padded + own)
    mass = tl.zeros_like(log_weight)
    slopes, widths = _zeros(mass, D), _zeros(mass, D)
    for start in range(0, m_padded, GROUP):
        group = start + tl.arange(0, GROUP)[:, None]
        x = _coordinates(queries, group, m_padded, D, KINDS)
        outcome, grad = tl.load(queries + 2 * D * m_padded + group), tl.load(queries + (2 * D + 1) * m_padded + group)
        share = tl.exp2(_score(x, loc, scales, D, KINDS) + (log_weight[None, :] - outcome)) * grad
        mass += tl.sum(share, 0)
        more_slopes, more_widths = (), ()
        for k in tl.static_range(D):
            slope, width = _derivatives(share, x[k], loc[k], scales[k], (KINDS >> (2 * k)) & 3)
            more_slopes = more_slopes + (slopes[k] + tl.sum(slope, 0),)
            more_widths = more_widths + (widths[k] + tl.sum(width, 0),)
        slopes, widths = more_slopes, more_widths
    there = own < n
    tl.store(to_log_weights + batch * n + own, mass, mask=there)
    for k in tl.static_range(D):
        unit = _unit(scales[k], (KINDS >> (2 * k)) & 3)
        # A location moves the deviation backwards.
        tl.store(to_locs + (batch * n + own) * D + k, -slopes[k] * unit[0], mask=there)
        tl.store(to_parameters + tl.program_id(0).to(tl.int64) * D + k, tl.sum(tl.where(there, widths[k], 0.0), 0) * unit[1])


@triton.jit
def to_queries(
    queries, components, parameters, to_x, m, m_padded, n_padded,
    D: tl.constexpr, KINDS: tl.constexpr, OWN: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One pass over the components: the gradients of the queries."""
    blocks = tl.cdiv(m_padded, OWN)
    batch, first = (tl.program_id(0) // blocks).to(tl.int64), (tl.program_id(0) % blocks) * OWN
    queries += batch * (2 * D + 2) * m_padded
    components += batch * (2 * D + 2) * n_padded
    scales = _parameters(parameters + batch * D, D)
    own = first + tl.arange(0, OWN)
    x = _coordinates(queries, own[None, :], m_padded, D, KINDS)
    outcome, grad = tl.load(queries + 2 * D * m_padded + own), tl.load(queries + (2 * D + 1) * m_padded + own)
    slopes = _zeros(grad, D)
    for start in range(0, n_padded, GROUP):
        group = start + tl.arange(0, GROUP)[:, None]
        loc = _coordinates(components, group, n_padded, D, KINDS)
        log_weight = tl.load(components + 2 * D * n_padded + group)
        share = tl.exp2(_score(x, loc, scales, D, KINDS) + (log_weight - outcome[None, :]))
        more_slopes = ()
        for k in tl.static_range(D):
            slope, _ = _derivatives(share, x[k], loc[k], scales[k], (KINDS >> (2 * k)) & 3)
            more_slopes = more_slopes + (slopes[k] + tl.sum(slope, 0),)
        slopes = more_slopes
    for k in tl.static_range(D):
        unit = _unit(scales[k], (KINDS >> (2 * k)) & 3)
        tl.store(to_x + (batch * m + own) * D + k, slopes[k] * unit[0] * grad, mask=own < m)
