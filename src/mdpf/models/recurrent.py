"""A recurrent network that tracks a single state: no particles, a memory instead."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from mdpf.models.blocks import Linear, PReLU, mlp
from mdpf.models.protocol import Encoding


class LstmLayer(nn.Module):
    """One layer of long short-term memory, of which torch's own is the model, with parameters that may have a run axis.

    Args:
        in_dim: Numbers that come in.
        hidden_dim: Numbers that it remembers and hands on.
    """

    def __init__(self, in_dim: int, hidden_dim: int):
        super().__init__()
        self.incoming = Linear(in_dim, 4 * hidden_dim)
        self.recurrent = Linear(hidden_dim, 4 * hidden_dim)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -1 / math.sqrt(hidden_dim), 1 / math.sqrt(hidden_dim))

    def forward(self, x: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        take, keep, write, show = (self.incoming(x) + self.recurrent(hidden)).chunk(4, -1)
        cell = keep.sigmoid() * cell + take.sigmoid() * write.tanh()
        return show.sigmoid() * cell.tanh(), cell


class RecurrentNetwork(nn.Module):
    r"""Move an estimate by a bounded step that depends on everything seen so far.

    .. math:: \Delta = r \odot (2 \sigma(u) - 1), \qquad u = \mathrm{MLP}(h), \quad
        h = \mathrm{LSTM}(e_{\text{state}}, e_{\text{action}}, e_{\text{observation}})

    The step is added to the encoded estimate, as in ``ResidualDynamics``.

    Args:
        space: Which coordinates are angles.
        feature_dim: How many numbers a feature has.
        bound: The largest step :math:`r`, one for each encoded coordinate.
        encoder_dim: The width of the encoders of estimate and action.
        action_dim: How many numbers an action has; none by default.
        memory_dim: What each layer of the memory holds.
        num_layers: How many layers it has.
        activation: What stands between the layers of the encoders.
        as_published: Look only at the angles of the estimate, and let the step be :math:`r \odot u`, without bound. This is how the
            baseline of the paper was run. It can then relate no observation to where it believes to be.
    """

    def __init__(
        self,
        space: Encoding,
        *,
        feature_dim: int,
        bound: Sequence[float],
        encoder_dim: int,
        action_dim: int = 0,
        memory_dim: int = 256,
        num_layers: int = 4,
        activation: Callable[[], nn.Module] = nn.ReLU,
        as_published: bool = False,
    ):
        super().__init__()
        if len(bound) != space.encoded_dim:
            raise ValueError(
                f"RecurrentNetwork needs one bound for each of the {space.encoded_dim} encoded coordinates, got {len(bound)}. "
                "Each angle is encoded by two, its sine and its cosine."
            )
        self.space = space
        self.as_published = as_published
        self.memory_shape = (num_layers, memory_dim)
        self.feature_dim = feature_dim
        self.bound: Tensor
        self.register_buffer("bound", torch.tensor(bound), persistent=False)
        seen_dim = 2 * len(space.angular) if as_published else space.encoded_dim
        self.state_encoder = mlp([seen_dim, *(encoder_dim,) * 3], activation) if seen_dim else None
        self.action_encoder = mlp([action_dim, *(encoder_dim,) * 3], activation) if action_dim else None
        num_encoders = sum(encoder is not None for encoder in (self.state_encoder, self.action_encoder))
        widths = [num_encoders * encoder_dim + feature_dim, *(memory_dim,) * (num_layers - 1)]
        self.memory = nn.ModuleList(LstmLayer(width, memory_dim) for width in widths)
        self.step = mlp([*(memory_dim,) * 4, space.encoded_dim], PReLU)

    def forward(
        self, state: Tensor, feature: Tensor, action: Tensor | None, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Look, remember, move.

        Shapes:
            ``state`` ``[*batch, d]``, ``feature`` ``[*batch, f]``, ``action`` ``[*batch, a]``, memory
            ``[*batch, layer, memory_dim]``; returns the next state and memory.
        """
        encoded = self.space.encode(state)
        x = torch.cat(self._inputs(encoded, feature, action), -1)
        hiddens, cells = [], []
        for layer, old_hidden, old_cell in zip(self.memory, hidden.unbind(-2), cell.unbind(-2), strict=True):
            x, new_cell = layer(x, old_hidden, old_cell)
            hiddens.append(x)
            cells.append(new_cell)
        step = self.step(x)
        step = self.bound * (step if self.as_published else torch.tanh(step / 2))
        return self.space.decode(encoded + step), torch.stack(hiddens, -2), torch.stack(cells, -2)

    def _inputs(self, encoded: Tensor, feature: Tensor, action: Tensor | None) -> list[Tensor]:
        if (action is None) != (self.action_encoder is None):
            raise ValueError(
                "RecurrentNetwork needs an action exactly if it was built with an action_dim, got "
                f"{'none' if action is None else 'one'}. Pass actions, or build it with action_dim=0."
            )
        inputs = []
        if self.state_encoder is not None:
            inputs.append(self.state_encoder(encoded[..., len(self.space.linear) :] if self.as_published else encoded))
        if self.action_encoder is not None and action is not None:
            inputs.append(self.action_encoder(action))
        return [*inputs, feature]
