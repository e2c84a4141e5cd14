r"""The Triton programs behind ``fused``.

A program owns ``OWN`` points, laid out along the last axis so that every thread owns some of them, and walks over the points of
the other side, or over one of ``splits`` equal parts of them, in groups of ``GROUP`` along the first axis, which lies within a
thread: no sum or maximum over a group crosses threads, no two programs write to one place, and the order of every sum is fixed.

Everything is to base two (see ``binary``). What bounds a walk is the number of instructions for each pair, so whatever depends on
one side alone is done in ``pack``. Deviations are differences of the coordinates as they came, so a cloud may lie or reach far;
half angles are kept as sine and cosine, of which :math:`\sin\frac{x - \mu}{2}` is made without trigonometry in the loop. Those
of the components are scaled by :math:`\sqrt{2 a'}`, so that a score loses the square of what comes out.

``KINDS`` holds two bits per coordinate, in the order of ``CODES``. Points are packed as rows ``[b, 2 d + 2, padded]``: coordinates
or the sines of half angles, then their cosines, then two rows of the side's own: the log-weight and nothing, or outcome and
gradient.
"""

# Triton's language has no annotations for values and no unpacking.
# ruff: noqa: ANN001, ANN201, ANN202, RUF005
# pyright: basic, reportMissingImports=false, reportInvalidTypeForm=false, reportOperatorIssue=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false

from types import SimpleNamespace

try:
    import triton
    import triton.language as tl
except ModuleNotFoundError:
    # Nobody runs them then (see ``availability``), but they can be imported, described and checked.
    triton, tl = SimpleNamespace(jit=lambda program: program), SimpleNamespace(constexpr=float)

CODES = {"g": 0, "v": 1, "e": 2, "b": 3}
LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
# Below every score that counts; minus infinity itself would leave NaN where no kernel covers a query.
LOWEST = tl.constexpr(-3e38)
HIGHEST = tl.constexpr(120.0)


@triton.jit
def pack(
    x, locs, log_weights, parameters, outcome, grad, queries, components, batches, m, n, m_padded, n_padded,
    D: tl.constexpr, KINDS: tl.constexpr, BLOCK: tl.constexpr, WITH_OUTCOME: tl.constexpr,
):  # fmt: skip
    """Lay both sides out by coordinate; what is beyond a count has coordinate zero and weighs nothing."""
    program, query_blocks, component_blocks = tl.program_id(0), tl.cdiv(m_padded, BLOCK), tl.cdiv(n_padded, BLOCK)
    if program < batches * query_blocks:
        batch, index = (program // query_blocks).to(tl.int64), (program % query_blocks) * BLOCK + tl.arange(0, BLOCK)
        there, room = index < m, index < m_padded
        rows = queries + batch * (2 * D + 2) * m_padded + index
        _lay_out(x + (batch * m + index) * D, rows, m_padded, parameters, there, room, D, KINDS, False)
        if WITH_OUTCOME:
            value = tl.load(outcome + batch * m + index, mask=there, other=float("inf"))
            slope = tl.load(grad + batch * m + index, mask=there, other=0.0)
            # The share of minus infinity: queries without a density, and those that only fill the last group, weigh nothing.
            defined = tl.abs(value) < float("inf")
            tl.store(rows + 2 * D * m_padded, tl.where(defined, value * LOG2_E, float("inf")), mask=room)
            tl.store(rows + (2 * D + 1) * m_padded, tl.where(defined, slope, 0.0), mask=room)
    else:
        program -= batches * query_blocks
        batch, index = (program // component_blocks).to(tl.int64), (program % component_blocks) * BLOCK + tl.arange(0, BLOCK)
        there, room = index < n, index < n_padded
        rows = components + batch * (2 * D + 2) * n_padded + index
        _lay_out(locs + (batch * n + index) * D, rows, n_padded, parameters + batch * D, there, room, D, KINDS, True)
        weight = tl.load(log_weights + batch * n + index, mask=there, other=-float("inf"))
        tl.store(rows + 2 * D * n_padded, weight * LOG2_E, mask=room)


@triton.jit
def _lay_out(
    points, rows, padded, parameters, there, room,
    D: tl.constexpr, KINDS: tl.constexpr, SCALED: tl.constexpr,
):  # fmt: skip
    """Write the coordinates of some points, angles as sine and cosine of their half."""
    for k in tl.static_range(D):
        value = tl.load(points + k, mask=there, other=0.0)
        if (KINDS >> (2 * k)) & 3 == 1:
            sine, cosine = tl.sin(value * 0.5), tl.cos(value * 0.5)
            if SCALED:
                size = tl.sqrt(tl.load(parameters + k) * (2 * LOG2_E))
                sine, cosine = sine * size, cosine * size
            tl.store(rows + k * padded, sine, mask=room)
            tl.store(rows + (D + k) * padded, cosine, mask=room)
        else:
            tl.store(rows + k * padded, value, mask=room)


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
def _parameters(parameters, D: tl.constexpr, KINDS: tl.constexpr):
    """For every coordinate its parameter as it came, and what a squared deviation is multiplied with in the score."""
    values = ()
    for k in tl.static_range(D):
        parameter = tl.load(parameters + k)
        precision = 1 / (parameter * parameter)
        if (KINDS >> (2 * k)) & 3 == 0:
            precision = precision * (-0.5 * LOG2_E)
        values = values + ((parameter, precision),)
    return values


@triton.jit
def _difference(x, loc, KIND: tl.constexpr):
    """The deviation, or the scaled sine of half of it."""
    if KIND == 1:
        return x[0] * loc[1] - x[1] * loc[0]
    else:
        return x[0] - loc[0]


@triton.jit
def _terms(start, x, loc, parameters, D: tl.constexpr, KINDS: tl.constexpr):
    """The logarithm of the smooth factors, relative to the peak, added to ``start``; the product of the compact ones.

    A logarithm for each pair would cost more than all the rest. Where the product vanishes, so does the pair, by its score.
    """
    score, covered = start, tl.full([1, 1], 1.0, start.dtype)
    for k in tl.static_range(D):
        t = _difference(x[k], loc[k], (KINDS >> (2 * k)) & 3)
        if (KINDS >> (2 * k)) & 3 == 0:
            score += (t * t) * parameters[k][1]
        elif (KINDS >> (2 * k)) & 3 == 1:
            score -= t * t
        else:
            # Differences from the edge are exact near it.
            below = tl.maximum((parameters[k][0] - t) * (parameters[k][0] + t) * parameters[k][1], 0.0)
            covered *= below
            if (KINDS >> (2 * k)) & 3 == 3:
                covered *= below
    if KINDS & 0xAAAA:  # A compact kind: the higher bit of its code.
        score = tl.where(covered > 0, score, LOWEST)
    return score, covered


@triton.jit
def _share(score, covered, KINDS: tl.constexpr):
    """The responsibility: at most one, though a score alone may be large where the compact factors almost vanish."""
    if KINDS & 0xAAAA:  # A compact kind: the higher bit of its code.
        return tl.exp2(tl.minimum(score, HIGHEST)) * covered
    else:
        return tl.exp2(score)


@triton.jit
def _derivatives(share, x, loc, parameter, KIND: tl.constexpr):
    """The derivatives of one factor, weighted by ``share``, to the deviation and to the parameter; see ``_unit`` for the rest."""
    t = _difference(x, loc, KIND)
    if KIND == 0:
        return share * t, share * (t * t)
    elif KIND == 1:
        width = share * t
        return width * (x[0] * loc[0] + x[1] * loc[1]), width * t
    else:
        below = (parameter - t) * (parameter + t)
        # The device has an instruction for the inverse of a root; a division takes it a dozen. Outside, the share is zero anyway.
        inverse = tl.rsqrt(tl.where(below > 0, below, 1.0))
        slope = share * t * parameter * inverse * inverse
        return slope, slope * t


@triton.jit
def _unit(parameter, KIND: tl.constexpr):
    """What to multiply outcomes of ``_derivatives`` with; shares are of the natural logarithm, scores and angles to base two."""
    if KIND == 0:
        precision = 1 / (parameter * parameter)
        return -precision, precision / parameter
    elif KIND == 1:
        slope = parameter * 0 - LN_2
        return slope, slope / parameter
    else:
        precision = (KIND - 1) * 2.0 / parameter
        return -precision, precision / parameter


@triton.jit
def _zeros(like, COUNT: tl.constexpr):
    values = ()
    for _ in tl.static_range(COUNT):
        values = values + (tl.zeros_like(like),)
    return values


@triton.jit
def _place(own_padded, other_padded, splits, OWN: tl.constexpr, GROUP: tl.constexpr):
    """Which batch element, which block and which part of the other side are this program's; the part from where to where."""
    blocks = own_padded // OWN
    program = tl.program_id(0)
    batch, rest = (program // (blocks * splits)).to(tl.int64), program % (blocks * splits)
    block, split = rest // splits, rest % splits
    span = tl.cdiv(other_padded // GROUP, splits) * GROUP
    return batch, block, split, split * span, tl.minimum(split * span + span, other_padded)


@triton.jit
def log_prob(
    queries, components, parameters, out, m, m_padded, n_padded, splits,
    D: tl.constexpr, KINDS: tl.constexpr, OWN: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One pass over the components with a running maximum; each part's logarithm, ``[b, splits, m]``."""
    batch, block, split, start, stop = _place(m_padded, n_padded, splits, OWN, GROUP)
    queries += batch * (2 * D + 2) * m_padded
    components += batch * (2 * D + 2) * n_padded
    scales = _parameters(parameters + batch * D, D, KINDS)
    own = block * OWN + tl.arange(0, OWN)
    x = _coordinates(queries, own[None, :], m_padded, D, KINDS)
    peak = tl.full([OWN], LOWEST, queries.dtype.element_ty)
    total = tl.zeros_like(peak)
    for first in range(start, stop, GROUP):
        group = first + tl.arange(0, GROUP)[:, None]
        loc = _coordinates(components, group, n_padded, D, KINDS)
        score, covered = _terms(tl.load(components + 2 * D * n_padded + group), x, loc, scales, D, KINDS)
        highest = tl.maximum(peak, tl.max(score, 0))
        total = total * tl.exp2(peak - highest) + tl.sum(tl.exp2(score - highest[None, :]) * covered, 0)
        peak = highest
    tl.store(out + (batch * splits + split) * m + own, (tl.log2(total) + peak) * LN_2, mask=own < m)


@triton.jit
def to_components(
    queries, components, parameters, to_locs, to_log_weights, to_parameters, n, m_padded, n_padded, splits,
    D: tl.constexpr, KINDS: tl.constexpr, OWN: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One pass over the queries: the gradients of the components and those of the parameters, in this program's part."""
    batch, block, split, start, stop = _place(n_padded, m_padded, splits, OWN, GROUP)
    queries += batch * (2 * D + 2) * m_padded
    components += batch * (2 * D + 2) * n_padded
    scales = _parameters(parameters + batch * D, D, KINDS)
    own = block * OWN + tl.arange(0, OWN)
    loc = _coordinates(components, own[None, :], n_padded, D, KINDS)
    log_weight = tl.load(components + 2 * D * n_padded + own)
    mass = tl.zeros_like(log_weight)
    slopes, widths = _zeros(mass, D), _zeros(mass, D)
    for first in range(start, stop, GROUP):
        group = first + tl.arange(0, GROUP)[:, None]
        x = _coordinates(queries, group, m_padded, D, KINDS)
        outcome, grad = tl.load(queries + 2 * D * m_padded + group), tl.load(queries + (2 * D + 1) * m_padded + group)
        score, covered = _terms(log_weight[None, :] - outcome, x, loc, scales, D, KINDS)
        share = _share(score, covered, KINDS) * grad
        mass += tl.sum(share, 0)
        more_slopes, more_widths = (), ()
        for k in tl.static_range(D):
            slope, width = _derivatives(share, x[k], loc[k], scales[k][0], (KINDS >> (2 * k)) & 3)
            more_slopes = more_slopes + (slopes[k] + tl.sum(slope, 0),)
            more_widths = more_widths + (widths[k] + tl.sum(width, 0),)
        slopes, widths = more_slopes, more_widths
    there = own < n
    row = (batch * splits + split) * n + own
    tl.store(to_log_weights + row, mass, mask=there)
    for k in tl.static_range(D):
        unit = _unit(scales[k][0], (KINDS >> (2 * k)) & 3)
        # A location moves the deviation backwards.
        tl.store(to_locs + row * D + k, -slopes[k] * unit[0], mask=there)
        tl.store(to_parameters + tl.program_id(0).to(tl.int64) * D + k, tl.sum(tl.where(there, widths[k], 0.0), 0) * unit[1])


@triton.jit
def to_queries(
    queries, components, parameters, to_x, m, m_padded, n_padded, splits,
    D: tl.constexpr, KINDS: tl.constexpr, OWN: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One pass over the components: the gradients of the queries, in this program's part."""
    batch, block, split, start, stop = _place(m_padded, n_padded, splits, OWN, GROUP)
    queries += batch * (2 * D + 2) * m_padded
    components += batch * (2 * D + 2) * n_padded
    scales = _parameters(parameters + batch * D, D, KINDS)
    own = block * OWN + tl.arange(0, OWN)
    x = _coordinates(queries, own[None, :], m_padded, D, KINDS)
    outcome, grad = tl.load(queries + 2 * D * m_padded + own), tl.load(queries + (2 * D + 1) * m_padded + own)
    slopes = _zeros(grad, D)
    for first in range(start, stop, GROUP):
        group = first + tl.arange(0, GROUP)[:, None]
        loc = _coordinates(components, group, n_padded, D, KINDS)
        log_weight = tl.load(components + 2 * D * n_padded + group)
        score, covered = _terms(log_weight - outcome[None, :], x, loc, scales, D, KINDS)
        share = _share(score, covered, KINDS)
        more_slopes = ()
        for k in tl.static_range(D):
            slope, _ = _derivatives(share, x[k], loc[k], scales[k][0], (KINDS >> (2 * k)) & 3)
            more_slopes = more_slopes + (slopes[k] + tl.sum(slope, 0),)
        slopes = more_slopes
    for k in tl.static_range(D):
        unit = _unit(scales[k][0], (KINDS >> (2 * k)) & 3)
        tl.store(to_x + ((batch * splits + split) * m + own) * D + k, slopes[k] * unit[0] * grad, mask=own < m)
