"""Learned measurement models: how well a particle explains what was observed."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from mdpf.models.blocks import mlp
from mdpf.models.dynamics import spread
from mdpf.models.protocol import Encoding

LOWEST_SCORE = 1e-5


class ScoreNetwork(nn.Module):
    r"""Score particles against a feature, between a floor and one.

    .. math:: \ell = \ell_{\min} + (1 - \ell_{\min})\, \sigma(\mathrm{MLP}(e_{\text{observation}}, e_{\text{particle}}))

    The floor keeps a single surprising observation from ruling out every particle.

    Args:
        space: Which coordinates are angles.
        feature_dim: How many numbers a feature has.
        particle_sizes: The widths of the particle encoder's layers.
        hidden_dim: The width of the head's layers.
        num_heads: One, or two for ``AdaptiveParticleFilter``: scores for the posterior and for resampling. The encoders are shared.
        activation: What stands between the layers.
    """

    def __init__(
        self,
        space: Encoding,
        *,
        feature_dim: int,
        particle_sizes: Sequence[int],
        hidden_dim: int,
        num_heads: int = 1,
        activation: Callable[[], nn.Module] = nn.ReLU,
    ):
        super().__init__()
        if num_heads not in (1, 2):
            raise ValueError(f"ScoreNetwork needs num_heads of 1 or 2, got {num_heads}.")
        self.space = space
        self.particle_encoder = mlp([space.encoded_dim, *particle_sizes], activation)
        sizes = [feature_dim + particle_sizes[-1], hidden_dim, hidden_dim, 1]
        self.heads = nn.ModuleList(mlp(sizes, activation) for _ in range(num_heads))

    def forward(self, particles: Tensor, feature: Tensor) -> Tensor:
        encoded = self.particle_encoder(self.space.encode(particles))
        inputs = torch.cat([spread(feature, particles), encoded], -1)
        scores = torch.cat([head(inputs) for head in self.heads], -1)
        scores = bounded_log_score(scores)
        return scores.squeeze(-1) if len(self.heads) == 1 else scores


def bounded_log_score(u: Tensor) -> Tensor:
    """The log of a score between the floor and one, from any number."""
    return (LOWEST_SCORE + (1 - LOWEST_SCORE) * u.sigmoid()).log()
