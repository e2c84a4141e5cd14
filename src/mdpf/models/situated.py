"""Models that compare what was seen with a map: a measurement for particles, and the same view for a recurrent network."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mdpf.models.blocks import mlp
from mdpf.models.dynamics import spread
from mdpf.models.local_map import LocalMap
from mdpf.models.measurement import bounded_log_score
from mdpf.models.recurrent import RecurrentNetwork


class Sight(NamedTuple):
    """What was seen, and on which map.

    Args:
        feature: The encoded image, ``[*batch, f]``.
        index: The number of the map, ``[*batch]``.
    """

    feature: Tensor
    index: Tensor


class MapView(nn.Module):
    """Encode the map as it looks from poses: ``[*batch, n, 3]`` and numbers of maps ``[*batch]`` to ``[*batch, n, g]``.

    Args:
        crop: Cuts out of the maps.
        encoder: Encodes the crops, images of one channel.
    """

    def __init__(self, crop: LocalMap, encoder: nn.Module):
        super().__init__()
        self.crop = crop
        self.encoder = encoder

    def forward(self, poses: Tensor, index: Tensor) -> Tensor:
        return self.encoder(self.crop(poses, index).unsqueeze(-3))


class MapScoreNetwork(nn.Module):
    """Score particles by comparing the encoded image with the encoded map around each; see ``ScoreNetwork``.

    Args:
        view: Encodes the map around particles.
        feature_dim: How many numbers the features of image and map have together.
        hidden_dim: The width of the head's layers.
        num_heads: One, or two for ``AdaptiveParticleFilter``: scores for the posterior and for resampling. The encoders are shared.
        activation: What stands between the layers.
    """

    def __init__(
        self,
        view: MapView,
        *,
        feature_dim: int,
        hidden_dim: int,
        num_heads: int = 1,
        activation: Callable[[], nn.Module] = nn.ReLU,
    ):
        super().__init__()
        if num_heads not in (1, 2):
            raise ValueError(f"MapScoreNetwork needs num_heads of 1 or 2, got {num_heads}.")
        self.view = view
        self.heads = nn.ModuleList(mlp([feature_dim, hidden_dim, hidden_dim, 1], activation) for _ in range(num_heads))

    def forward(self, particles: Tensor, feature: Sight) -> Tensor:
        around = self.view(particles, feature.index)
        inputs = torch.cat([spread(feature.feature, particles), around], -1)
        scores = bounded_log_score(torch.cat([head(inputs) for head in self.heads], -1))
        return scores.squeeze(-1) if len(self.heads) == 1 else scores


class MapRecurrentNetwork(nn.Module):
    """A recurrent network that also sees the map around its own estimate.

    Args:
        network: Its ``feature_dim`` counts the features of image and map together.
        view: Encodes the map around the estimate.
    """

    def __init__(self, network: RecurrentNetwork, view: MapView):
        super().__init__()
        self.network = network
        self.view = view

    @property
    def memory_shape(self) -> tuple[int, int]:
        return self.network.memory_shape

    @property
    def feature_dim(self) -> int:
        return self.network.feature_dim

    def forward(
        self, state: Tensor, feature: Sight, action: Tensor | None, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See ``RecurrentNetwork``."""
        if not isinstance(feature, tuple):
            raise TypeError(
                "MapRecurrentNetwork needs the number of the map with every feature, got a feature alone. "
                "Give a Sight; where nothing was observed, mark it in `observed`."
            )
        around = self.view(state.unsqueeze(-2), feature.index).squeeze(-2)
        return self.network(state, torch.cat([feature.feature, around], -1), action, hidden, cell)
