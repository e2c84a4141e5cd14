"""What the authors logged for the paper's box plots: median, quartiles and range over their runs.

Their metrics are ``nll_paper`` and ``rmse_paper`` of ``mdpf.metrics``. Their cars were drawn from the same simulator, but are not
the same cars.
"""

from typing import NamedTuple


class Logged(NamedTuple):
    """One metric of one method over the authors' runs."""

    median: float
    lower_quartile: float
    upper_quartile: float
    smallest: float
    largest: float


BEARINGS: dict[str, dict[str, Logged]] = {
    "nll_paper": {
        "LSTM": Logged(9.26, 8.84, 11.24, 8.77, 12.88),
        "TG-PF": Logged(6.29, 6.19, 6.70, 6.13, 7.41),
        "OT-PF": Logged(8.24, 8.13, 8.64, 6.91, 11.61),
        "SR-PF": Logged(6.69, 6.33, 7.06, 6.09, 7.54),
        "DIS-PF": Logged(7.75, 7.50, 7.93, 6.39, 8.18),
        "C-PF": Logged(8.41, 8.16, 10.13, 7.96, 10.61),
        "TG-MDPF": Logged(6.73, 6.10, 7.08, 5.99, 8.77),
        "IRG-MDPF": Logged(9.85, 9.60, 11.19, 8.71, 14.03),
        "MDPF": Logged(6.18, 6.03, 6.24, 5.95, 6.54),
        "A-MDPF": Logged(6.01, 5.86, 6.11, 5.79, 6.23),
    },
    "rmse_paper": {
        "LSTM": Logged(8.10, 7.87, 11.33, 7.61, 15.91),
        "TG-PF": Logged(3.67, 3.52, 4.30, 3.44, 5.80),
        "OT-PF": Logged(9.16, 7.51, 12.52, 4.76, 29.65),
        "SR-PF": Logged(4.15, 3.72, 4.90, 3.41, 5.90),
        "DIS-PF": Logged(6.48, 5.86, 6.95, 3.80, 7.61),
        "C-PF": Logged(8.16, 7.66, 12.79, 7.21, 14.22),
        "TG-MDPF": Logged(3.67, 3.40, 4.31, 3.32, 7.83),
        "IRG-MDPF": Logged(8.63, 8.58, 9.05, 7.91, 9.41),
        "MDPF": Logged(3.29, 3.23, 3.33, 3.21, 3.49),
        "A-MDPF": Logged(3.30, 3.23, 3.35, 3.18, 3.55),
    },
}

BEARINGS_EPANECHNIKOV: dict[str, dict[str, Logged]] = {
    "nll_paper": {
        "LSTM": Logged(10.55, 10.10, 12.59, 9.92, 13.89),
        "TG-PF": Logged(6.57, 6.45, 6.95, 6.41, 7.62),
        "OT-PF": Logged(11.36, 8.02, 12.74, 7.22, 13.77),
        "SR-PF": Logged(6.95, 6.62, 7.25, 6.37, 7.74),
        "DIS-PF": Logged(7.90, 7.64, 8.03, 6.64, 8.35),
        "C-PF": Logged(8.54, 8.21, 10.68, 7.99, 11.27),
        "TG-MDPF": Logged(6.61, 6.44, 6.81, 6.11, 9.35),
        "MDPF": Logged(7.05, 6.69, 7.16, 6.33, 7.73),
        "A-MDPF": Logged(6.97, 6.64, 7.21, 6.31, 7.72),
    },
    "rmse_paper": {
        "TG-MDPF": Logged(3.33, 3.28, 3.47, 3.23, 7.43),
        "MDPF": Logged(3.27, 3.25, 3.31, 3.22, 3.35),
        "A-MDPF": Logged(3.34, 3.29, 3.36, 3.26, 3.46),
    },
}

# Medians over five runs in the published images of each maze, which are not ours: errors are those after refinement on the squared
# error, of position and heading apart; a random heading has an error of 1.81.
_MAZES = {
    "LSTM": ((12.50, 3.91, 0.67), (13.05, 3.44, 0.69), (12.51, 3.50, 0.68)),
    "TG-PF": ((9.19, 4.67, 1.72), (9.49, 4.87, 1.75), (8.88, 4.61, 1.68)),
    "OT-PF": ((9.13, 4.54, 1.75), (9.26, 4.77, 1.71), (8.67, 4.53, 1.63)),
    "SR-PF": ((8.90, 4.40, 1.72), (8.41, 4.31, 1.61), (8.35, 4.33, 1.61)),
    "DIS-PF": ((8.22, 3.46, 1.67), (7.90, 3.39, 1.59), (6.88, 3.20, 1.41)),
    "C-PF": ((8.71, 4.10, 1.69), (8.14, 3.98, 1.56), (8.93, 4.29, 1.74)),
    "TG-MDPF": ((8.10, 4.54, 1.16), (8.41, 4.69, 1.19), (8.38, 4.26, 1.19)),
    "IRG-MDPF": ((17.56, 11.28, 1.83), (17.42, 7.10, 1.83), (17.17, 6.44, 1.78)),
    "MDPF": ((7.48, 3.69, 1.00), (7.69, 3.67, 1.06), (7.37, 3.61, 1.09)),
    "A-MDPF": ((5.85, 3.26, 0.94), (6.72, 3.48, 1.04), (7.08, 3.52, 1.09)),
}
MAZES: dict[int, dict[str, dict[str, float]]] = {
    number: {
        metric: {method: rows[number - 1][place] for method, rows in _MAZES.items()}
        for place, metric in enumerate(("nll_paper", "position_rmse", "angle_rmse"))
    }
    for number in (1, 2, 3)
}


class Spread(NamedTuple):
    """One metric over walks: its mean, and what lies between its quartiles."""

    mean: float
    spread: float


HOUSE: dict[str, tuple[Spread, Spread]] = {
    "LSTM": (Spread(12.544, 3.43), Spread(48.51, 27.2)),
    "TG-PF": (Spread(15.496, 2.21), Spread(206.3, 109.4)),
    "OT-PF": (Spread(14.870, 2.31), Spread(159.6, 109.7)),
    "SR-PF": (Spread(14.924, 2.57), Spread(191.3, 129.3)),
    "DIS-PF": (Spread(15.061, 2.02), Spread(212.6, 133.7)),
    "TG-MDPF": (Spread(8.383, 2.53), Spread(35.77, 16.7)),
    "MDPF": (Spread(8.184, 2.72), Spread(30.59, 13.0)),
    "A-MDPF": (Spread(8.092, 3.49), Spread(30.51, 12.3)),
}
"""``nll_paper`` and ``rmse_paper`` in homes of House3D, in pixels of 0.02 m: one run, over 820 walks."""
