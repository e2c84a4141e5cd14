"""Grids over a plan: drawing lines, widening obstacles, joining cells that touch.

A cell ``[row, column]`` covers the square from ``(column, row)`` to ``(column + 1, row + 1)``, times the length of a cell.
"""

import math

import numpy as np


def draw(shape: tuple[int, int], cell: float, segments: np.ndarray, thickness: float) -> np.ndarray:
    """Mark the cells whose centres lie on segments drawn with a square pen.

    Args:
        shape: Rows and columns.
        cell: The length of a cell.
        segments: ``[K, 4]``: x and y of both ends.
        thickness: The width of the pen.

    Example:
        >>> draw((3, 5), 1.0, np.array([[1.5, 1.5, 3.5, 1.5]]), 1.0).astype(int)
        array([[0, 0, 0, 0, 0],
               [0, 1, 1, 1, 0],
               [0, 0, 0, 0, 0]])
    """
    drawn = np.zeros(shape, bool)
    half = thickness / 2 + 1e-9
    for x0, y0, x1, y1 in np.asarray(segments, float).reshape(-1, 4):
        rows = _window(min(y0, y1) - half, max(y0, y1) + half, cell, shape[0])
        columns = _window(min(x0, x1) - half, max(x0, x1) + half, cell, shape[1])
        y, x = ((np.arange(part.start, part.stop) + 0.5) * cell for part in (rows, columns))
        length = math.hypot(x1 - x0, y1 - y0)
        ahead_x, ahead_y = ((x1 - x0) / length, (y1 - y0) / length) if length > 0 else (1.0, 0.0)
        right, down = x[None, :] - x0, y[:, None] - y0
        along, across = right * ahead_x + down * ahead_y, down * ahead_x - right * ahead_y
        drawn[rows, columns] |= (along >= -half) & (along <= length + half) & (np.abs(across) <= half)
    return drawn


def fill(shape: tuple[int, int], cell: float, boxes: np.ndarray) -> np.ndarray:
    """Mark the cells whose centres lie in boxes ``[K, 4]``: x and y of two opposite corners, the smaller ones first."""
    filled = np.zeros(shape, bool)
    for x0, y0, x1, y1 in np.asarray(boxes, float).reshape(-1, 4):
        rows, columns = (
            slice(*(int(np.clip(math.ceil(end / cell - 0.5), 0, size)) for end in ends))
            for ends, size in (((y0, y1), shape[0]), ((x0, x1), shape[1]))
        )
        filled[rows, columns] = True
    return filled


def widen(marked: np.ndarray, radius: float) -> np.ndarray:
    """Mark every cell that lies within ``radius`` cells of a marked one, from centre to centre."""
    reach = math.floor(radius)
    rows, columns = marked.shape
    padded = np.pad(marked, reach).astype(np.int32)
    total = np.pad(padded.cumsum(1), ((0, 0), (1, 0)))
    wide = np.zeros_like(marked)
    for step in range(-reach, reach + 1):
        side = math.floor(math.sqrt(radius**2 - step**2))
        line = total[reach + step : reach + step + rows]
        wide |= line[:, reach + side + 1 : reach + side + 1 + columns] > line[:, reach - side : reach - side + columns]
    return wide


def components(free: np.ndarray) -> np.ndarray:
    """Number the connected parts of ``free`` from 1; cells touch by their sides. What is not free is 0.

    Example:
        >>> components(np.array([[1, 1, 0], [0, 0, 1], [1, 0, 1]], bool))
        array([[1, 1, 0],
               [0, 0, 2],
               [3, 0, 2]])
    """
    labels = np.where(free, np.arange(1, free.size + 1).reshape(free.shape), 0)
    across, down = _runs(free), _runs(free.T)
    while True:
        before = labels
        labels = _spread(_spread(labels, *across).T, *down).T
        if np.array_equal(labels, before):
            return _renumber(labels)


def _runs(free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the runs of equal cells along the rows start, in reading order, and the run of each cell."""
    starts = np.ones(free.shape, bool)
    starts[:, 1:] = free[:, 1:] != free[:, :-1]
    return np.flatnonzero(starts), starts.reshape(-1).cumsum() - 1


def _spread(labels: np.ndarray, starts: np.ndarray, run: np.ndarray) -> np.ndarray:
    """Give every cell the largest label of its run."""
    return np.maximum.reduceat(labels.reshape(-1), starts)[run].reshape(labels.shape)


def _renumber(labels: np.ndarray) -> np.ndarray:
    found, first, numbered = np.unique(labels, return_index=True, return_inverse=True)
    numbers = np.zeros(len(found), int)
    order = [index for index in np.argsort(first) if found[index] > 0]
    numbers[order] = np.arange(1, len(order) + 1)
    return numbers[numbered].reshape(labels.shape)


def _window(low: float, high: float, cell: float, size: int) -> slice:
    return slice(max(0, math.floor(low / cell)), min(size, max(0, math.ceil(high / cell))))
