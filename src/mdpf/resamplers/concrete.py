"""Replace the choice of an ancestor by a soft average."""

from dataclasses import dataclass

import torch

from mdpf import noise
from mdpf.checks import check_count, check_positive
from mdpf.mixture import Mixture
from mdpf.noise import Source
from mdpf.resamplers.protocol import Draw
from mdpf.resamplers.weights import uniform_log_weights


@dataclass(frozen=True)
class Concrete:
    r"""Average the particles with weights drawn from the relaxed categorical distribution (C-PF).

    .. math:: \hat x_i = \sum_j \alpha_{ij} x_j, \quad
              \alpha_{ij} = \operatorname{softmax}_j \frac{\log w_j + G_{ij}}{\lambda}, \quad G_{ij} \sim \mathrm{Gumbel}

    Angles are averaged as unit vectors.

    Args:
        temperature: :math:`\lambda`. As it falls the average becomes a choice and the gradient's variance grows without bound.

    Gradient:
        Biased with respect to discrete resampling, to weights and locations; the draw itself is biased too: it pulls particles
        between the modes.

    Cost:
        ``num_particles x particle``, in training and in use.

    References:
        Maddison, Mnih and Teh (2017); Jang, Gu and Poole (2017).
    """

    temperature: float = 0.5

    def __post_init__(self) -> None:
        check_positive("Concrete", self.temperature, "temperature")

    def __call__(self, mixture: Mixture, num_particles: int, *, generator: Source = None) -> Draw:
        mixture.check("Concrete")
        check_count("Concrete", num_particles, "num_particles")
        shape = (*mixture.batch_shape, num_particles, mixture.num_components)
        levels = noise.uniform(shape, mixture.locs, generator).clamp_min(torch.finfo(mixture.locs.dtype).tiny)
        gumbel = -(-levels.log()).clamp_min(torch.finfo(levels.dtype).tiny).log()
        shares = ((mixture.log_weights.unsqueeze(-2) + gumbel) / self.temperature).softmax(-1)
        points = mixture.space.decode(shares @ mixture.space.encode(mixture.locs))
        return Draw(points, uniform_log_weights(mixture, num_particles))
