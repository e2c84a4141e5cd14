"""Learned dynamics: where a particle goes next, at random."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from mdpf import noise
from mdpf.models.blocks import mlp
from mdpf.noise import Source
from mdpf.spaces import StateSpace


class ResidualDynamics(nn.Module):
    r"""Add a bounded, learned, random step to a particle.

    .. math:: \Delta = r \odot (2 \sigma(u) - 1), \qquad u = \mathrm{MLP}(e_s, e_a, \eta), \quad \eta \sim N(0, I)

    The step is added to the encoded state (angles as unit vectors, which are normalised again by decoding). Only the angles of the
    state are looked at, so that the dynamics are the same everywhere; unless they are told to look at all of it.

    Args:
        space: Which coordinates are angles.
        bound: The largest step :math:`r`, one for each encoded coordinate.
        hidden_dim: The width of every layer.
        action_dim: How many numbers an action has; none by default.
        noise_dim: How many random numbers go into a step.
        located: Look at the linear coordinates too: what moves may behave differently in different places.
        activation: What stands between the layers.
    """

    def __init__(
        self,
        space: StateSpace,
        *,
        bound: Sequence[float],
        hidden_dim: int,
        action_dim: int = 0,
        noise_dim: int = 4,
        located: bool = False,
        activation: Callable[[], nn.Module] = nn.ReLU,
    ):
        super().__init__()
        if len(bound) != space.encoded_dim:
            raise ValueError(
                f"ResidualDynamics needs one bound for each of the {space.encoded_dim} encoded coordinates, got {len(bound)}. "
                "Each angle is encoded by two, its sine and its cosine."
            )
        self.space = space
        self.noise_dim = noise_dim
        self.bound: Tensor
        self.register_buffer("bound", torch.tensor(bound), persistent=False)
        self._first = 0 if located else len(space.linear)  # Of the encoded coordinates that are looked at.
        seen = space.encoded_dim - self._first
        self.state_encoder = mlp([seen, *(hidden_dim,) * 3], activation) if seen else None
        self.action_encoder = mlp([action_dim, *(hidden_dim,) * 3], activation) if action_dim else None
        num_encoders = sum(encoder is not None for encoder in (self.state_encoder, self.action_encoder))
        self.step = mlp([num_encoders * hidden_dim + noise_dim, hidden_dim, hidden_dim, space.encoded_dim], activation)

    def forward(self, points: Tensor, action: Tensor | None = None, *, generator: Source = None) -> Tensor:
        if (action is None) != (self.action_encoder is None):
            raise ValueError(
                "ResidualDynamics needs an action exactly if it was built with an action_dim, got "
                f"{'none' if action is None else 'one'}. Pass actions, or build it with action_dim=0."
            )
        encoded = self.space.encode(points)
        inputs = [noise.normal((*points.shape[:-1], self.noise_dim), points, generator)]
        if self.state_encoder is not None:
            inputs.append(self.state_encoder(encoded[..., self._first :]))
        if self.action_encoder is not None and action is not None:
            inputs.append(spread(self.action_encoder(action), points))
        step = self.bound * torch.tanh(self.step(torch.cat(inputs, -1)) / 2)
        return self.space.decode(encoded + step)


def spread(feature: Tensor, particles: Tensor) -> Tensor:
    """Give every particle ``[*batch, n, d]`` the feature ``[*batch, f]`` of its batch element: ``[*batch, n, f]``."""
    return feature.unsqueeze(-2).expand(*particles.shape[:-1], feature.shape[-1])
