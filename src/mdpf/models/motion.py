"""Dynamics that know a linear motion from the start, and learn what it misses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mdpf import noise
from mdpf.models.blocks import Linear, mlp
from mdpf.models.dynamics import spread
from mdpf.models.scaling import ScaledSpace
from mdpf.noise import Source


@dataclass(frozen=True)
class MotionFeatures:
    """What a step is predicted from: parts of the encoded state, the action, and the action seen from each direction.

    The products of an action with the sine and cosine of an angle let a linear map drive a robot: forward along its heading.

    Args:
        space: The coordinates, in the units of networks.
        looks_at: Which linear coordinates take part, by their place among the linear ones; angles always do.
        action_dim: Numbers per action.
    """

    space: ScaledSpace
    looks_at: tuple[int, ...]
    action_dim: int = 0

    @property
    def state_dim(self) -> int:
        """How many numbers describe the state."""
        return len(self.looks_at) + 2 * len(self.space.angular)

    @property
    def dim(self) -> int:
        return self.state_dim + self.action_dim * (1 + 2 * len(self.space.angular))

    def of_state(self, points: Tensor) -> Tensor:
        """The part that describes the state: ``[*batch, d]`` to ``[*batch, state_dim]``."""
        columns = self.space.encode(points).unbind(-1)
        chosen = [columns[place] for place in self.looks_at] + list(columns[len(self.space.linear) :])
        return torch.stack(chosen, -1) if chosen else points[..., :0]

    def __call__(self, points: Tensor, action: Tensor | None) -> Tensor:
        """All of it: ``[*batch, d]`` and an action ``[*batch, a]`` in the units of networks to ``[*batch, dim]``."""
        state = self.of_state(points)
        if action is None:
            return state
        directions = state[..., len(self.looks_at) :].unbind(-1)
        return torch.cat([state, action, *(action * direction.unsqueeze(-1) for direction in directions)], -1)


class InformedDynamics(nn.Module):
    r"""Add a bounded step to a particle: a linear motion, plus what a network makes of it, plus noise.

    .. math:: \Delta = \operatorname{clamp}_r\bigl(A \varphi(x, a) + b + s \odot (\varepsilon + \mathrm{MLP}(x, a, \eta))\bigr),
        \qquad \varepsilon, \eta \sim N(0, I)

    The step is taken in the coordinates of the state, angles the short way round, in units of ``scale``. Given a motion that was
    fitted to data, and the spread of what it left, the filter knows from its first update on what it will have to refine.

    Args:
        features: What a step is predicted from.
        scale: The unit of the step of each coordinate.
        weight: The start of :math:`A`, one row for each coordinate.
        bias: The start of :math:`b`.
        noise_scale: The start of :math:`s`.
        bound: The largest step :math:`r`.
        hidden_dim: The width of the network's layers.
        action: Puts actions into the units of networks.
        noise_dim: How many random numbers the network sees.
        activation: What stands between its layers.
    """

    runs_allowed = True

    def __init__(
        self,
        features: MotionFeatures,
        *,
        scale: Sequence[float],
        weight: Sequence[Sequence[float]],
        bias: Sequence[float],
        noise_scale: Sequence[float],
        bound: Sequence[float],
        hidden_dim: int,
        action: nn.Module | None = None,
        noise_dim: int = 4,
        activation: Callable[[], nn.Module] = nn.ReLU,
    ):
        super().__init__()
        dim = features.space.dim
        lengths = {len(scale), len(weight), len(bias), len(noise_scale), len(bound)}
        if lengths != {dim} or any(len(row) != features.dim for row in weight):
            raise ValueError(
                f"InformedDynamics needs one scale, row, bias, noise and bound for each of {dim} coordinates, with rows of "
                f"{features.dim} features, got lengths {sorted(lengths)} and rows of {sorted({len(row) for row in weight})}."
            )
        self.features = features
        self.noise_dim = noise_dim
        self.scale: Tensor
        self.bound: Tensor
        self.register_buffer("scale", torch.tensor(scale), persistent=False)
        self.register_buffer("bound", torch.tensor(bound), persistent=False)
        self.action = action
        # Without any feature a column of zeros stands in, and the constant is all there is.
        self.motion = Linear(max(features.dim, 1), dim)
        with torch.no_grad():
            self.motion.weight.copy_(torch.tensor(weight) if features.dim else torch.zeros(dim, 1))
            self.motion.bias.copy_(torch.tensor(bias))
        self.log_noise = nn.Parameter(torch.tensor(noise_scale).log())
        inputs = features.state_dim + features.action_dim + noise_dim
        self.correction = mlp([inputs, hidden_dim, hidden_dim, dim], activation)
        # It starts by correcting nothing: the first motion is the one that was given.
        for parameter in self.correction[-1].parameters():
            nn.init.zeros_(parameter)

    def forward(self, points: Tensor, action: Tensor | None = None, *, generator: Source = None) -> Tensor:
        if (action is None) != (self.features.action_dim == 0):
            raise ValueError(
                "InformedDynamics needs an action exactly if it was built with an action_dim, got "
                f"{'none' if action is None else 'one'}. Pass actions, or build it without."
            )
        generator = noise.source(generator)
        if action is not None:
            action = spread(action if self.action is None else self.action(action), points)
        plain = noise.normal(tuple(points.shape), points, generator)
        shaped = noise.normal((*points.shape[:-1], self.noise_dim), points, generator)
        features = self.features(points, action) if self.features.dim else torch.zeros_like(points[..., :1])
        parts = [self.features.of_state(points), shaped] if action is None else [self.features.of_state(points), action, shaped]
        width = self.log_noise.exp()
        width = width.reshape(*width.shape[:-1], *(1,) * (points.ndim - width.ndim), width.shape[-1])
        step = self.motion(features) + width * (plain + self.correction(torch.cat(parts, -1)))
        step = torch.minimum(torch.maximum(step * self.scale, -self.bound), self.bound)
        return self.features.space.space.wrap(points + step)
