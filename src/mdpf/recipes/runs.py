"""From the file of a trained run, whatever it was trained on, to a filter or a tracker.

A run is a file of weights, or a folder in which training left one. What was trained is read from the file's own description;
nothing in it is executed.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from mdpf.checks import check_finite
from mdpf.evaluation.evaluate import Filter
from mdpf.recipes import bearings, logs, maze_panels, mazes
from mdpf.recipes.log_networks import LogNetworks
from mdpf.recipes.methods import METHODS
from mdpf.spaces import StateSpace
from mdpf.tasks import bearings as bearings_task
from mdpf.tasks import mazes as maze_tasks
from mdpf.tracking import Around, Box, Tracker, Vigilance
from mdpf.training import weights
from mdpf.training.weights import Weights


class Run(NamedTuple):
    """A trained run and what is needed to use it.

    Args:
        filter: The filter, without a run axis.
        config: Its description, as the file has it.
        space: The coordinates.
        observation: The shape of one observation.
        image: Whether that is an image in bytes.
        action_dim: Numbers per action.
        around: The cloud around a known state.
        box: The region of its data.
        prior: Where it was trained to start from.
        limit_lost: The final position error beyond which a track counts as lost.
        num_particles: How many it was trained with.
        vigilance: When it counts as lost by its own account.
        scene: What does not move, for whoever draws.
    """

    filter: Filter
    config: Mapping[str, Any]
    space: StateSpace
    observation: tuple[int, ...]
    image: bool
    action_dim: int
    around: Around
    box: Box
    prior: Callable[..., Tensor]
    limit_lost: float
    num_particles: int
    vigilance: Vigilance | None = None
    scene: Mapping[str, Any] = {}

    def tracker(self, *, recover: float = 0.0) -> Tracker:
        """The run as one calls it, observation by observation."""
        return Tracker(
            self.filter,
            self.space,
            self.observation,
            self.around,
            image=self.image,
            action_dim=self.action_dim,
            box=self.box,
            num_particles=self.num_particles,
            vigilance=self.vigilance,
            recover=recover,
        )


def load(path: str | Path, *, recover: float = 0.0, device: str = "cpu") -> Tracker:
    """Load a tracker from a file of weights, or from the folder of a training.

    Args:
        path: The safetensors file, or the folder.
        recover: Where the tracker finds itself lost, replace this share of its particles by fresh ones; not at all by default.
        device: Where to compute.
    """
    return open_run(path).tracker(recover=recover).to(device)


def open_run(path: str | Path) -> Run:
    """Read a run."""
    path = find(path)
    saved = weights.load(path)
    task = saved.config.get("task")
    if task not in _OPENERS:
        raise ValueError(
            f"Loading a run needs weights that `mdpf train` wrote, got {str(path)!r} of the task {task!r:.80}. "
            f"Known are: {', '.join(_OPENERS)}. A newer version may know more."
        )
    for name, tensor in saved.tensors.items():
        check_finite(f"Loading {str(path)!r}", tensor, name, "Its training did not end well; train it again.")
    try:
        return _OPENERS[task](path, saved)
    except KeyError as error:
        raise ValueError(f"Loading {str(path)!r} needs a whole description, got one without {error}. Train it again.") from error


def find(path: str | Path) -> Path:
    """The file of weights that a path means: itself, or the one in the folder of a training."""
    path = Path(path)
    if path.is_file():
        return path
    if not path.exists():
        raise FileNotFoundError(f"Loading a run needs a folder or a file of weights, got {str(path)!r}, which is not there.")
    folder = path / "weights" if (path / "weights").is_dir() else path
    found = sorted(folder.glob("*.safetensors"))
    default = [file for file in found if "@" not in file.name] or found
    if len(default) == 1:
        return default[0]
    if not default:
        raise FileNotFoundError(f"Loading a run needs a folder with weights, got {str(path)!r} without. Is its training finished?")
    names = ", ".join(file.name for file in found)
    raise ValueError(f"Loading a run needs one file of weights, got the folder {str(folder)!r} with several. Name one: {names}.")


def _open_bearings(path: Path, saved: Weights) -> Run:
    task = bearings_task.task()
    side, pi = bearings_task.HALF_SIDE, 3.141592653589793
    return Run(
        filter=bearings.load_run(path),
        config=saved.config,
        space=task.space,
        observation=task.observation,
        image=False,
        action_dim=0,
        around=Around(task.space, (0.5, 0.5, 0.03)),
        box=Box(task.space, (-side, -side, -pi), (side, side, pi)),
        prior=task.prior,
        limit_lost=task.limit_lost,
        num_particles=int(saved.config["particles"]),
        scene={"sensor": list(bearings_task.RADAR), "extent": [-side, side, -side, side]},
    )


def _open_maze(path: Path, saved: Weights) -> Run:
    filter, config = mazes.load_run(path)
    task, scene = maze_tasks.task(config.maze), maze_panels.scene(config)
    width, height, pi = *mazes.half_extent(config), 3.141592653589793
    return Run(
        filter=filter,
        config=saved.config,
        space=task.space,
        observation=task.observation,
        image=True,
        action_dim=task.action_dim,
        around=Around(task.space, (0.5, 0.5, 0.03)),
        box=Box(task.space, (-width, -height, -pi), (width, height, pi)),
        prior=task.prior,
        limit_lost=task.limit_lost,
        num_particles=config.particles,
        scene=scene,
    )


def _open_file(path: Path, saved: Weights) -> Run:
    config, blueprint = logs.rebuild(saved.config)
    if config.method not in METHODS:
        raise ValueError(f"Loading {str(path)!r} needs a known method, got {config.method!r:.80}. Known are: {', '.join(METHODS)}.")
    filter = METHODS[config.method].build(LogNetworks(blueprint, config.hidden_dim))
    weights.fill(filter, saved)
    vigilance = saved.config.get("vigilance")
    space = blueprint.state_space
    return Run(
        filter=filter.eval(),
        config=saved.config,
        space=space,
        observation=blueprint.observation,
        image=blueprint.image,
        action_dim=blueprint.action_dim,
        around=Around(space, blueprint.start),
        box=Box(space, blueprint.low, blueprint.high),
        prior=logs.prior(blueprint, config.start),
        limit_lost=blueprint.limit_lost,
        num_particles=config.particles,
        vigilance=None if vigilance is None else Vigilance(**vigilance),
    )


_OPENERS: dict[str, Callable[[Path, Weights], Run]] = {"bearings": _open_bearings, "maze": _open_maze, "file": _open_file}
