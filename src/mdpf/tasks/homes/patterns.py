"""Pictures that homes are painted with, drawn by formulas: grey, to be tinted, except what has a colour of its own.

Every pattern tiles without a seam and has a side of ``SIDE`` texels. All homes share them; colours and choice differ.
"""

from collections.abc import Callable

import numpy as np

SIDE = 64


def _grid() -> tuple[np.ndarray, np.ndarray]:
    """Row and column of every texel."""
    row, column = np.mgrid[0:SIDE, 0:SIDE]
    return row, column


def _noise(seed: int, smooth: int) -> np.ndarray:
    """Noise without a seam, of mean zero and standard deviation one, with spots of some ``smooth`` texels."""
    white = np.fft.fft2(np.random.default_rng(seed).standard_normal((SIDE, SIDE)))
    frequency = np.fft.fftfreq(SIDE)
    blur = np.exp(-2 * (np.pi * smooth * frequency) ** 2)
    noise = np.fft.ifft2(white * blur[:, None] * blur[None]).real
    return (noise - noise.mean()) / noise.std()


def _joints(across: int, along: int, width: int, shift: bool = False) -> np.ndarray:
    """True between tiles of ``across`` by ``along`` texels; every other row shifted by half a tile if asked."""
    row, column = _grid()
    if shift:
        column = column + (row // across % 2) * (along // 2)
    return (row % across < width) | (column % along < width)


def plaster() -> np.ndarray:
    """Nearly plain, with soft spots."""
    return 0.9 + 0.025 * _noise(1, 2)


def stripes() -> np.ndarray:
    """Wallpaper with upright stripes."""
    _, column = _grid()
    return np.where(column % 16 < 8, 0.95, 0.72) + 0.015 * _noise(2, 1)


def dots() -> np.ndarray:
    """Wallpaper with dots in every other place."""
    row, column = _grid()
    column = column + (row // 16 % 2) * 8
    inside = (row % 16 - 7.5) ** 2 + (column % 16 - 7.5) ** 2 < 14
    return np.where(inside, 0.62, 0.92) + 0.015 * _noise(3, 1)


def wood_panels() -> np.ndarray:
    """Upright boards."""
    _, column = _grid()
    grain = 0.05 * np.repeat(_noise(4, 2)[:1], SIDE, 0) + 0.02 * _noise(5, 1)
    return np.where(column % 16 < 1, 0.5, 0.8) + grain


def bricks() -> np.ndarray:
    """Bricks with light joints."""
    return np.where(_joints(8, 16, 1, shift=True), 0.95, 0.68) + 0.05 * _noise(6, 2)


def small_tiles() -> np.ndarray:
    """Tiles of eight texels."""
    return np.where(_joints(8, 8, 1), 0.6, 0.93) + 0.02 * _noise(7, 3)


def large_tiles() -> np.ndarray:
    """Oblong tiles."""
    return np.where(_joints(16, 32, 1), 0.55, 0.92) + 0.02 * _noise(8, 4)


def concrete() -> np.ndarray:
    """Rough and grey."""
    return 0.75 + 0.06 * _noise(9, 1) + 0.04 * _noise(10, 5)


def planks() -> np.ndarray:
    """Long boards of many shades."""
    row, column = _grid()
    board = column // 8
    shade = np.random.default_rng(11).uniform(0.65, 0.92, (8, 2))
    end = (row + 29 * board) // 32 % 2
    joint = (column % 8 == 0) | ((row + 29 * board) % 32 == 0)
    return np.where(joint, 0.45, shade[board, end]) + 0.03 * _noise(12, 1)


def parquet() -> np.ndarray:
    """Short boards, turned in turn."""
    row, column = _grid()
    turned = (row // 16 + column // 16) % 2 == 0
    strip = np.where(turned, row, column) // 4
    shade = np.random.default_rng(13).uniform(0.65, 0.92, SIDE)
    return np.where(np.where(turned, row, column) % 4 == 0, 0.5, shade[strip]) + 0.02 * _noise(14, 1)


def mats() -> np.ndarray:
    """Woven straw mats with a dark border."""
    row, column = _grid()
    border = (row % 64 < 3) | (row % 64 > 60)
    return np.where(border, 0.35, 0.85 + 0.05 * ((column // 2) % 2)) + 0.02 * _noise(15, 1)


def carpet() -> np.ndarray:
    """Rough and soft."""
    return 0.72 + 0.07 * _noise(16, 1)


def checks() -> np.ndarray:
    """Light and dark tiles like a chessboard."""
    row, column = _grid()
    return np.where((row // 16 + column // 16) % 2 == 0, 0.95, 0.5) + 0.02 * _noise(17, 2)


def ceiling_panels() -> np.ndarray:
    """Large light panels."""
    return np.where(_joints(32, 32, 1), 0.82, 0.95) + 0.01 * _noise(18, 2)


def window() -> np.ndarray:
    """A frame of four panes with the sky behind; in colour."""
    row, column = _grid()
    sky = np.stack([0.55 + 0.3 * row / SIDE, 0.75 + 0.15 * row / SIDE, np.full(row.shape, 0.97)], -1)
    bar = (row % 32 < 2) | (column % 32 < 2) | (row % 32 > 29) | (column % 32 > 29)
    return np.where(bar[..., None], 0.92, sky)


def door() -> np.ndarray:
    """Two panels and a knob."""
    row, column = _grid()
    panel = (column > 11) & (column < 52) & (((row > 6) & (row < 28)) | ((row > 35) & (row < 58)))
    edge = (column < 3) | (column > 60)
    grey = np.where(edge, 0.45, np.where(panel, 0.68, 0.85)) + 0.015 * _noise(19, 2)
    knob = (row - 32) ** 2 + (column - 55) ** 2 < 6
    return np.where(knob[..., None], np.array([0.95, 0.85, 0.4]), grey[..., None])


def cupboards() -> np.ndarray:
    """Doors under a worktop."""
    row, column = _grid()
    gap = (column % 32 < 1) | (row == 10)
    handle = (row > 14) & (row < 18) & (column % 32 > 24)
    return np.where(row < 10, 0.5, np.where(gap, 0.4, np.where(handle, 0.35, 0.88))) + 0.01 * _noise(20, 2)


def porcelain() -> np.ndarray:
    """White with a bright rim."""
    row, _ = _grid()
    return np.where(row < 8, 1.0, 0.88) + 0.01 * _noise(21, 4)


PATTERNS: tuple[Callable[[], np.ndarray], ...] = (
    plaster,
    stripes,
    dots,
    wood_panels,
    bricks,
    small_tiles,
    large_tiles,
    concrete,
    planks,
    parquet,
    mats,
    carpet,
    checks,
    ceiling_panels,
    window,
    door,
    cupboards,
    porcelain,
)
NAMES = tuple(pattern.__name__ for pattern in PATTERNS)


def draw() -> np.ndarray:
    """All patterns, ``[pattern, SIDE, SIDE, 3]``, from 0 to 1."""
    pictures = [pattern() for pattern in PATTERNS]
    coloured = [picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, -1) for picture in pictures]
    return np.stack(coloured).clip(0, 1).astype(np.float32)
