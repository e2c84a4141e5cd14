r"""The expanded form of the smooth factors: a log-density as an inner product.

.. math:: -\tfrac12 (q - c)^2 = q c - \tfrac12 q^2 - \tfrac12 c^2, \qquad
          a \cos(x - \mu) = \cos x \, (a \cos \mu) + \sin x \, (a \sin \mu)

With :math:`q = (x - o)/a` and :math:`c = (\mu - o)/a` around a common centre :math:`o`, all pairs cost one matrix product with one
or two rows per coordinate, and the gradient needs only the moments of the same rows under the responsibilities.

The expansion cancels: its error is the square of the cloud's radius in bandwidths, times the rounding error. Up to ``WIDEST`` that
is below 1e-3 in single and 1e-12 in double precision (the radius of an angle is the root of its concentration). What is wider in
single precision is expanded in double; what is too wide for that, or wider in double precision, is left to ``deviations``. The
terms of one side alone are as large as what cancels, so one look at them settles the usual case.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

WIDEST = 50.0
WIDEST_IN_DOUBLE = WIDEST * math.sqrt(torch.finfo(torch.float32).eps / torch.finfo(torch.float64).eps)


class Features(NamedTuple):
    """The rows of the inner product: those of the coordinates in order, then what depends on one side alone.

    Args:
        dims: The coordinates that are expanded.
        query: ``[b, k, m]``; its last rows are the query's own term and one.
        component: ``[b, k, n]``; its last rows are one and the component's own term, the log-weight included.
    """

    dims: tuple[int, ...]
    query: Tensor
    component: Tensor


class Plan(NamedTuple):
    """Which coordinates are expanded, and in which precision."""

    dims: tuple[int, ...]
    dtype: torch.dtype


def expand(x: Tensor, locs: Tensor, log_weights: Tensor, parameters: Tensor, kinds: str) -> Features:
    """Expand what can be expanded of ``x [b, d, m]`` and ``locs [b, d, n]``; nothing where looking would wait for a device."""
    smooth = tuple(dim for dim, kind in enumerate(kinds) if kind in "gv")
    if x.device.type != "cpu" or x.numel() == 0:
        smooth = ()
    features = _rows(x, locs, parameters, kinds, Plan(smooth, x.dtype))
    if not _is_narrow(features):
        features = _rows(x, locs, parameters, kinds, _plan(x, locs, parameters, kinds))
    features.component[:, -1] += log_weights
    return features


def _is_narrow(features: Features) -> bool:
    """Whether all coordinates together are so narrow that they need no closer look. A NaN is not."""
    if not features.dims:
        return True
    lowest = torch.minimum(features.query[:, -2].amin(), features.component[:, -1].amin())
    return lowest.item() >= -0.5 * WIDEST**2


def _plan(x: Tensor, locs: Tensor, parameters: Tensor, kinds: str) -> Plan:
    """Decide coordinate by coordinate."""
    radii, single = _radii(x, locs, parameters, kinds), x.dtype == torch.float32
    widest = WIDEST_IN_DOUBLE if single else WIDEST
    dims = tuple(dim for dim, kind in enumerate(kinds) if kind in "gv" and radii[dim] <= widest)
    return Plan(dims, torch.float64 if single and any(radii[dim] > WIDEST for dim in dims) else x.dtype)


def _radii(x: Tensor, locs: Tensor, parameters: Tensor, kinds: str) -> list[float]:
    """The largest radius of each coordinate, in bandwidths."""
    centre = locs.mean(-1, keepdim=True)
    radius = torch.maximum((x - centre).abs().amax(-1), (locs - centre).abs().amax(-1))
    linear, angular = (radius / parameters).amax(0).tolist(), parameters.amax(0).sqrt().tolist()
    return [angular[dim] if kind == "v" else linear[dim] for dim, kind in enumerate(kinds)]


def _rows(x: Tensor, locs: Tensor, parameters: Tensor, kinds: str, plan: Plan) -> Features:
    """Compute the rows once for all pairs, but for the log-weights."""
    x, locs, parameters = x.to(plan.dtype), locs.to(plan.dtype), parameters.to(plan.dtype)
    size = sum(1 if kinds[dim] == "g" else 2 for dim in plan.dims) + 2
    query, component = x.new_empty(len(x), size, x.shape[-1]), x.new_empty(len(x), size, locs.shape[-1])
    *queries, query_term, one = query.unbind(1)
    *components, other_one, component_term = component.unbind(1)
    for term, value in ((query_term, 0), (component_term, 0), (one, 1), (other_one, 1)):
        term.fill_(value)
    row = 0
    for dim in plan.dims:
        points, centres, parameter = x[:, dim], locs[:, dim], parameters[:, dim, None]
        if kinds[dim] == "g":
            origin, own, other = centres.mean(-1, keepdim=True), queries[row], components[row]
            torch.sub(points, origin, out=own).div_(parameter)
            torch.sub(centres, origin, out=other).div_(parameter)
            query_term.addcmul_(own, own, value=-0.5)
            component_term.addcmul_(other, other, value=-0.5)
            row += 1
        else:
            torch.cos(points, out=queries[row])
            torch.sin(points, out=queries[row + 1])
            torch.cos(centres, out=components[row]).mul_(parameter)
            torch.sin(centres, out=components[row + 1]).mul_(parameter)
            query_term.sub_(parameter)
            row += 2
    return Features(plan.dims, query, component)


def pull_back(
    features: Features, moments: Tensor, squares: Tensor, parameters: Tensor, kinds: str
) -> dict[int, tuple[Tensor, Tensor]]:
    """Turn moments into gradients.

    Args:
        features: The rows.
        moments: The sum over queries of gradient times responsibility times the query's rows, ``[b, k, n]``.
        squares: The sum over queries of gradient times the squares of the query's rows, ``[b, k]``.
        parameters: The kernel's parameters.
        kinds: The kinds of the coordinates.

    Returns:
        For every expanded coordinate the gradients of the locations, ``[b, n]``, and of the parameter, ``[b]``.
    """
    gradients, mass, row = {}, moments[:, -1], 0
    for dim in features.dims:
        parameter = parameters[:, dim, None]
        own, moment = features.component[:, row], moments[:, row]
        if kinds[dim] == "g":
            shift = moment - own * mass
            # The responsibilities of a query sum to one, so its own square needs no moment.
            gradients[dim] = shift / parameter, (squares[:, row] - (own * (moment + shift)).sum(-1)) / parameter[:, 0]
            row += 1
        else:
            other, cross = features.component[:, row + 1], moments[:, row + 1]
            cosines = (own * moment + other * cross).sum(-1) / parameter[:, 0]
            gradients[dim] = own * cross - other * moment, cosines - squares[:, -1]
            row += 2
    return gradients


def pull_back_to_queries(features: Features, means: Tensor, grad: Tensor, parameters: Tensor, kinds: str) -> dict[int, Tensor]:
    """Turn the mean component rows of each query, ``means [b, m, k]``, into the gradients ``[b, m]`` of its coordinates."""
    gradients, row = {}, 0
    for dim in features.dims:
        own, mean = features.query[:, row], means[..., row]
        if kinds[dim] == "g":
            # The mean of one is what the responsibilities sum to after rounding.
            gradients[dim] = grad * (mean - own * means[..., -2]) / parameters[:, dim, None]
            row += 1
        else:
            gradients[dim] = grad * (own * means[..., row + 1] - features.query[:, row + 1] * mean)
            row += 2
    return gradients
