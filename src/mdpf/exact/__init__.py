"""Beliefs that are known exactly, for models where that is possible."""

from mdpf.exact.gaussian_mixture import GaussianMixture1d
from mdpf.exact.grid import GridTrajectory, grid_filter
from mdpf.exact.kalman import KalmanTrajectory, LinearGaussian, kalman_filter
from mdpf.exact.mixture_kalman import MixtureTrajectory, ModalSensor, mixture_kalman_filter

__all__ = [
    "GaussianMixture1d",
    "GridTrajectory",
    "KalmanTrajectory",
    "LinearGaussian",
    "MixtureTrajectory",
    "ModalSensor",
    "grid_filter",
    "kalman_filter",
    "mixture_kalman_filter",
]
