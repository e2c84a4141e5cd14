"""Networks for localisation from images, put together to any method of the maze study."""

from dataclasses import dataclass

from torch import Tensor, nn

from mdpf.filters import AdaptiveParticleFilter, ParticleFilter, RecurrentFilter
from mdpf.models import ImageEncoder, LearnedBandwidth, RecurrentNetwork, ResidualDynamics, ScoreNetwork
from mdpf.resamplers import Resampler
from mdpf.spaces import StateSpace


class PixelEncoder(nn.Module):
    """Images as files hold them to features: bytes ``[*batch, side, side, 3]``, channels last, to ``[*batch, out_dim]``."""

    def __init__(self, side: int, *, out_dim: int = 64, reduced: bool = False):
        super().__init__()
        self.network = ImageEncoder(3, side, out_dim=out_dim, reduced=reduced)

    def forward(self, images: Tensor) -> Tensor:
        return self.network(images.movedim(-1, -3).float() / 255)


@dataclass(frozen=True)
class ImageNetworks:
    """Networks of the paper's sizes for images of 24 by 24 pixels, actions, and a state of position and heading.

    Args:
        space: Which coordinates are angles.
        side: Rows and columns of an image.
        bound: The largest step of the dynamics, for each encoded coordinate.
        start: The bandwidths to start from, for each coordinate.
        minimum: What they cannot fall below,
        maximum: and what they cannot exceed.
        recurrent_start: The same for the recurrent network, whose single particle is farther off.
        hidden_dim: The width of the dynamics' layers.
        feature_dim: Numbers per feature, and the width of the measurement's last layers.
        particle_dim: The width of the two layers that look at a particle.
        action_dim: Numbers per action.
        reduced: Let the encoder compute in half the precision on a CUDA device.
    """

    space: StateSpace
    side: int
    bound: tuple[float, ...]
    start: tuple[float, ...]
    minimum: tuple[float, ...]
    maximum: tuple[float, ...]
    recurrent_start: tuple[float, ...]
    hidden_dim: int = 8
    feature_dim: int = 64
    particle_dim: int = 32
    action_dim: int = 3
    reduced: bool = False

    def filter(self, resampler: Resampler) -> ParticleFilter:
        """A particle filter with these networks."""
        return ParticleFilter(
            dynamics=self.dynamics(),
            measurement=self.measurement(num_heads=1),
            bandwidth=self.bandwidth(self.start),
            resampler=resampler,
            encoder=self.encoder(),
        )

    def adaptive_filter(self, resampler: Resampler) -> AdaptiveParticleFilter:
        """A particle filter with separate mixtures for posterior and resampling."""
        return AdaptiveParticleFilter(
            dynamics=self.dynamics(),
            measurement=self.measurement(num_heads=2),
            bandwidth=self.bandwidth(self.start),
            resampling_bandwidth=self.bandwidth(self.start),
            resampler=resampler,
            encoder=self.encoder(),
        )

    def recurrent_filter(self, *, as_published: bool = False) -> RecurrentFilter:
        """The long short-term memory, with the same encoders; see ``RecurrentNetwork`` for how the paper's differs."""
        network = RecurrentNetwork(
            self.space,
            feature_dim=self.feature_dim,
            bound=self.bound,
            encoder_dim=self.hidden_dim,
            action_dim=self.action_dim,
            as_published=as_published,
        )
        return RecurrentFilter(network=network, bandwidth=self.bandwidth(self.recurrent_start), encoder=self.encoder())

    def dynamics(self) -> ResidualDynamics:
        return ResidualDynamics(self.space, bound=self.bound, hidden_dim=self.hidden_dim, action_dim=self.action_dim)

    def measurement(self, num_heads: int) -> ScoreNetwork:
        sizes, width = (self.particle_dim,) * 2, self.feature_dim
        return ScoreNetwork(self.space, feature_dim=width, particle_sizes=sizes, hidden_dim=width, num_heads=num_heads)

    def bandwidth(self, start: tuple[float, ...]) -> LearnedBandwidth:
        return LearnedBandwidth(self.space, start, self.minimum, maximum=self.maximum)

    def encoder(self) -> nn.Module:
        return PixelEncoder(self.side, out_dim=self.feature_dim, reduced=self.reduced)
