"""What the median runs of the maze study believed about a few walks, for the figures that show it.

A figure never runs a model: here the models run, from the weights that the study left, and leave files of beliefs.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from mdpf.data.sequences import SequenceBatch
from mdpf.evaluation import beliefs
from mdpf.evaluation.beliefs import Beliefs
from mdpf.filters import RecurrentFilter
from mdpf.recipes import maze_global
from mdpf.recipes.mazes import CONVENTIONS, Config, evaluation_data, load_run
from mdpf.tasks.mazes import geometry
from mdpf.tasks.mazes import task as mazes
from mdpf.tasks.mazes.task import SPACE

SEQUENCES = {1: 0, 2: 10, 3: 0}  # Those with the numbers of the paper's, among ours.
CHOSEN = ("A-MDPF", "MDPF")
ANIMATED = 1000  # Particles.
SEARCHED = 30  # Walks among which the animation's is found.


def scene(config: Config) -> dict[str, Any]:
    """The walls of a maze in the units of states, and how far they reach."""
    maze = geometry.read(config.maze)
    corners = torch.tensor(maze.walls, dtype=torch.float64) * maze.cell
    poses = torch.cat([corners, torch.zeros_like(corners[..., :1])], -1)
    placed = CONVENTIONS[config.conventions].states(maze, poses)[..., :2].flatten(1)
    right, top = placed[:, 2:].amax(0).tolist()
    walls = [[round(value, 4) for value in wall] for wall in placed.tolist()]
    # On the right there is room for what the camera sees.
    margin, width = 0.3, 2 * right
    return {"walls": walls, "extent": [-right - margin, right + margin + width / 3, -top - margin, top + margin]}


def run(folder: Path, *, data: Path | None = None, watch: Callable[[str], None] | None = None) -> list[Path]:
    """Write ``panels/METHOD@maze-N.npz`` for the paper's two methods, and ``panels/anywhere@maze-N.npz`` for an animation.

    The animation shows the first walk on which, from particles everywhere, the truth is found neither at once nor late.
    """
    written = []
    for number, sequence in SEQUENCES.items():
        paths = [folder / "weights" / f"{method}@maze-{number}.safetensors" for method in CHOSEN]
        paths = [path for path in paths if path.exists()]
        for path in paths:
            if watch is not None:
                watch(path.stem)
            filter, config = load_run(path)
            walks = evaluation_data(config, data)
            # Whoever evaluates on fewer walks sees the last of them.
            shown = min(sequence, walks.num_sequences - 1)
            walk = walks.take(slice(shown, shown + 1))
            written.append(folder / "panels" / f"{path.stem}.npz")
            beliefs.write(written[-1], believe(filter, config, walk))
        if paths:
            if watch is not None:
                watch(f"{paths[0].stem} from nowhere")
            written.append(folder / "panels" / f"anywhere@maze-{number}.npz")
            beliefs.write(written[-1], find_itself(paths[0]))
    if not written:
        raise FileNotFoundError(
            f"Panels need the weights of trained runs, got none of {', '.join(CHOSEN)} in {str(folder / 'weights')!r}. "
            "`mdpf reproduce maze` writes them."
        )
    return written


@torch.no_grad()
def believe(filter: Any, config: Config, walk: SequenceBatch, start: torch.Tensor | None = None) -> Beliefs:  # noqa: ANN401
    """What a filter believes about walks; from around the truth, or from given particles."""
    generator = torch.Generator().manual_seed(config.seed)
    if start is None:
        start = mazes.task(config.maze).prior(walk.states[:, 0], config.particles, generator=generator)
    initial = filter.init(start)
    _, trajectory = filter(initial, walk.observations[:, 1:], walk.actions, generator=generator)
    seen = walk._replace(actions=None)
    return beliefs.record(initial.posterior, trajectory.posterior, trajectory.info, SPACE, data=seen, scene=scene(config))


def find_itself(path: Path, *, particles: int = ANIMATED, num_walks: int = SEARCHED) -> Beliefs:
    """A walk on which many hypotheses become one."""
    filter, config = load_run(path)
    if isinstance(filter, RecurrentFilter):
        raise TypeError(f"find_itself needs a filter with particles, got that of {path.name!r}.")
    walks = maze_global.walks(config, num_walks)
    shares = torch.cat([maze_global.share_near(found, config) for found in maze_global.search(filter, config, walks, particles)])
    first = maze_global.first_kept(shares)
    # What takes some frames, but not most of the walk, shows best.
    best = int((first - 25).abs().argmin())
    start = maze_global.everywhere(config, num_walks, particles)[best : best + 1]
    return believe(filter, config, walks.take(slice(best, best + 1)), start)
