"""What is seen in homes, and the networks of the study, put together to any method."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor, nn

from mdpf.checks import check_tensor, describe
from mdpf.data.sequences import SequenceBatch
from mdpf.filters import AdaptiveParticleFilter, ParticleFilter, RecurrentFilter
from mdpf.models import (
    ImageEncoder,
    LearnedBandwidth,
    LocalMap,
    MapRecurrentNetwork,
    MapScoreNetwork,
    MapView,
    PReLU,
    RecurrentNetwork,
    ResidualDynamics,
    Sight,
)
from mdpf.render import Camera, Scene
from mdpf.render.raycast import Frames, cast
from mdpf.resamplers import OptimalTransport, Resampler
from mdpf.tasks.homes import scenes, walks
from mdpf.tasks.homes.geometry import Home
from mdpf.tasks.homes.recorded import Recorded
from mdpf.training.step import MOST_PROGRAMS

NUM_HITS = 10  # Walls that a ray is followed through; of a thousand frames, five have a column that meets more.
PORTION = {"cpu": 32, "cuda": 2048}  # Frames at a time.
MANY = 256  # Frames, of which compiling pays.
FEATURES = 64  # Of an image, and as many of the map.
BOUND = (75.0, 75.0, 0.99, 0.99)  # Pixels (1.5 m), and of sine and cosine.
REGULARIZATION = 0.01  # Of optimal transport, as in the paper: clouds of several rooms must not be drawn together.
LARGEST_NUMBER = 2**24  # That single precision can count to.
START, MINIMUM = (5.0, 5.0, 0.03), (0.1, 0.1, 0.01)  # Bandwidths.


class Rendered(nn.Module):
    """Render what is seen from poses in homes; nothing is learned, nothing waits for the device.

    Args:
        scene: One scene for each home.
        camera: The camera.
        num_hits: Walls that a ray is followed through.

    Shapes:
        Observations ``[*batch, 4]`` (pose in pixels, number of the home) to images ``[*batch, 3, h, w]`` from -1 to 1, and numbers
        of homes ``[*batch]``.
    """

    def __init__(self, scene: Scene, camera: Camera = scenes.CAMERA, *, num_hits: int = NUM_HITS):
        super().__init__()
        self.camera, self.num_hits = camera, num_hits
        self._scene = scene
        found: list[Tensor] = []
        scene.map(lambda tensor: found.append(tensor) or tensor)
        for place, tensor in enumerate(found):
            self.register_buffer(f"scene_{place}", tensor, persistent=False)
        self.register_buffer("full", scene.full(), persistent=False)

    @torch.no_grad()
    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        check_tensor("Rendered", observations, [4], "An observation is x, y, theta and the number of the home.")
        index = observations[..., 3].round().long()
        flat, homes = observations[..., :3].reshape(-1, 3), index.reshape(-1)
        buffers = iter(self.buffers())
        scene, full = self._scene.map(lambda _: next(buffers)), self.get_buffer("full")
        size = PORTION.get(flat.device.type, PORTION["cpu"])
        portions = zip(scenes.viewpoints(flat).split(size), homes.split(size), strict=True)
        how = compiled_cast if flat.is_cuda and len(flat) >= MANY else cast
        seen = [how(scene, full, poses, self.camera, which, num_hits=self.num_hits).rgb for poses, which in portions]
        images = 2 * torch.cat(seen).movedim(-1, 1) - 1
        return images.to(flat.dtype).reshape(*index.shape, *images.shape[1:]), index


def compiled_cast(
    scene: Scene, full: Tensor, poses: Tensor, camera: Camera, index: Tensor, *, num_hits: int, backend: str = "inductor"
) -> Frames:
    """``cast`` by one program for any number of frames, of a dozen kernels; hundreds would pass all pixels on by memory."""
    # Only here: importing the compiler takes a second.
    from torch._dynamo import config, maybe_mark_dynamic

    for tensor in (poses, index):
        maybe_mark_dynamic(tensor, 0)
    # Scenes of other sizes have programs of their own: that is no reason to give up.
    with config.patch(recompile_limit=MOST_PROGRAMS, accumulated_recompile_limit=MOST_PROGRAMS):
        return _program(backend)(scene, full, poses, camera, index, num_hits=num_hits)


@lru_cache(maxsize=2)
def _program(backend: str) -> Callable[..., Frames]:
    return torch.compile(cast, fullgraph=True, backend=backend)


class Stored(nn.Module):
    """Look up recorded images: observations ``[*batch, 2]`` are the number of a frame and that of its map.

    Args:
        frames: All images, ``[frame, h, w, 3]``, uint8.
    """

    def __init__(self, frames: Tensor):
        super().__init__()
        if frames.dtype != torch.uint8 or frames.ndim != 4 or frames.shape[-1] != 3:
            raise ValueError(f"Stored needs frames [frame, height, width, 3] in uint8, got {describe(frames)}.")
        self.frames: Tensor
        self.register_buffer("frames", frames, persistent=False)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        check_tensor("Stored", observations, [2], "An observation is the number of a frame and that of its map.")
        frame, index = observations.round().long().unbind(-1)
        images = self.frames[frame].movedim(-1, -3).to(observations.dtype)
        return images * (2 / 255) - 1, index


class SightEncoder(nn.Module):
    """Turn observations into what a measurement with a map needs.

    Args:
        source: Observations to images and numbers of maps.
        network: Encodes images.
        located: Whether to hand on the number of the map; without, the feature of the image alone.
    """

    def __init__(self, source: nn.Module, network: nn.Module, *, located: bool = True):
        super().__init__()
        self.source = source
        self.network = network
        self.located = located

    def forward(self, observations: Tensor) -> Sight | Tensor:
        images, index = self.source(observations)
        feature = self.network(images)
        return Sight(feature, index) if self.located else feature


@dataclass(frozen=True, eq=False)
class HouseNetworks:
    """The networks of the study; see ``bearings``'s for what the methods ask.

    Args:
        source: Turns observations into images and numbers of maps.
        crop: Cuts out of the maps.
        reduced: Whether the convolutions compute in half the precision on a GPU.
        as_published: Whether the recurrent network is as it was run for the paper: without a map, a bound or its own position.
        regularization: Of optimal transport, in place of the method's own.
    """

    source: nn.Module
    crop: LocalMap
    reduced: bool = True
    as_published: bool = False
    regularization: float = REGULARIZATION

    def filter(self, resampler: Resampler) -> ParticleFilter:
        """A particle filter with these networks."""
        if isinstance(resampler, OptimalTransport):
            resampler = replace(resampler, regularization=self.regularization)
        return ParticleFilter(
            dynamics=self.dynamics(),
            measurement=self.measurement(num_heads=1),
            bandwidth=self.bandwidth(),
            resampler=resampler,
            encoder=self.encoder(),
        )

    def adaptive_filter(self, resampler: Resampler) -> AdaptiveParticleFilter:
        """A particle filter with separate mixtures for posterior and resampling."""
        return AdaptiveParticleFilter(
            dynamics=self.dynamics(),
            measurement=self.measurement(num_heads=2),
            bandwidth=self.bandwidth(),
            resampling_bandwidth=self.bandwidth(),
            resampler=resampler,
            encoder=self.encoder(),
        )

    def recurrent_filter(self) -> RecurrentFilter:
        """The long short-term memory; unless it is as published, it sees the map around its own estimate."""
        network = RecurrentNetwork(
            walks.SPACE,
            feature_dim=FEATURES if self.as_published else 2 * FEATURES,
            bound=BOUND,
            encoder_dim=32,
            action_dim=3,
            activation=PReLU,
            as_published=self.as_published,
        )
        situated = network if self.as_published else MapRecurrentNetwork(network, self.view())
        return RecurrentFilter(network=situated, bandwidth=self.bandwidth(), encoder=self.encoder(located=not self.as_published))

    def dynamics(self) -> ResidualDynamics:
        return ResidualDynamics(walks.SPACE, bound=BOUND, hidden_dim=32, action_dim=3, activation=PReLU)

    def measurement(self, num_heads: int) -> MapScoreNetwork:
        options = {"feature_dim": 2 * FEATURES, "hidden_dim": FEATURES, "num_heads": num_heads}
        return MapScoreNetwork(self.view(), **options, activation=PReLU)

    def view(self) -> MapView:
        network = ImageEncoder(
            1, self.crop.cells, pools=(True, False, False), out_dim=FEATURES, activation=PReLU, reduced=self.reduced
        )
        return MapView(self.crop, network)

    def bandwidth(self) -> LearnedBandwidth:
        return LearnedBandwidth(walks.SPACE, START, MINIMUM)

    def encoder(self, *, located: bool = True) -> SightEncoder:
        network = ImageEncoder(3, scenes.CAMERA.width, out_dim=FEATURES, activation=PReLU, reduced=self.reduced)
        return SightEncoder(self.source, network, located=located)


def networks(
    homes: Sequence[Home],
    *,
    blurred: bool = True,
    samples: int = 2,
    reduced: bool = True,
    as_published: bool = False,
    regularization: float = REGULARIZATION,
) -> HouseNetworks:
    """Networks that see and know some homes.

    Args:
        homes: The homes, in the order of their numbers.
        blurred: Whether the crops of maps show means of pixels, or single ones; see ``LocalMap``.
        samples: Rays along each side of a pixel.
        reduced: See ``HouseNetworks``.
        as_published: See ``HouseNetworks``.
        regularization: See ``HouseNetworks``.
    """
    maps = [torch.from_numpy(~home.wall_map()) for home in homes]
    camera = replace(scenes.CAMERA, samples=samples)
    source = Rendered(scenes.build(homes), camera)
    return HouseNetworks(source, LocalMap(maps, blurred=blurred), reduced, as_published, regularization)


def from_records(recorded: Recorded, **options: bool) -> tuple[SequenceBatch, HouseNetworks]:
    """Walks of the published data as sequences, and networks that see their images and know their maps.

    Args:
        recorded: What ``tasks.homes.recorded.load`` read.
        options: ``blurred``, ``reduced`` and ``as_published``; see ``networks``.
    """
    count, length = recorded.images.shape[:2]
    if count * length > LARGEST_NUMBER:
        raise ValueError(f"from_records needs at most {LARGEST_NUMBER} images, got {count * length}. Load fewer walks at a time.")
    frames = torch.arange(count * length).reshape(count, length)
    observations = torch.stack([frames, recorded.walks.home[:, None].expand(count, length)], -1).float()
    crop = LocalMap([torch.from_numpy(~walls) for walls in recorded.maps], blurred=options.pop("blurred", True))
    nets = HouseNetworks(Stored(recorded.images.flatten(0, 1)), crop, **options)
    return SequenceBatch(recorded.walks.states, observations, recorded.walks.actions), nets
