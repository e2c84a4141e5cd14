"""What every task must keep to, for third parties too."""

import torch
from torch import Tensor

from mdpf.data.sequences import SequenceBatch
from mdpf.tasks.task import Split, Task


def check_task(task: Task, *, num_sequences: int = 8, max_length: int = 20) -> None:
    """Reject a task whose data are not as it declares them.

    Small splits are made and checked: shapes and types, labels, finite values; that a seed gives the same data twice, that seeds
    and splits differ, that sequences differ; that the global stream of random numbers stays untouched; and where particles start.

    Args:
        task: The task.
        num_sequences: How many sequences to make of each split.
        max_length: Longer splits are cut to this.
    """
    before = torch.get_rng_state()
    first_states: list[Tensor] = []
    for split in task.splits:
        length = min(split.length, max_length)
        batch, again, other = (task.split(split.name, seed=seed, num_sequences=num_sequences, length=length) for seed in (0, 0, 1))
        _check_shapes(task, split, batch, num_sequences, length)
        for name, tensor in batch._asdict().items():
            same = getattr(again, name)
            _require(tensor is same or torch.equal(tensor, same), task, f"the same {name} of {split.name} for the same seed")
        _require(not torch.equal(batch.states, other.states), task, f"other states of {split.name} for another seed")
        first_states.append(batch.states[:, 0])
    _require(torch.equal(before, torch.get_rng_state()), task, "to leave torch's global stream alone")
    # Exact, because what is shared is shared to the bit: no two sequences of all splits start alike.
    starts = torch.cat(first_states)
    _require(len(starts.unique(dim=0)) == len(starts), task, "every sequence of every split to be its own")
    _check_start(task, first_states[0])


def _require(holds: bool, task: Task, expectation: str, found: object = "otherwise") -> None:
    if not holds:
        raise AssertionError(f"{task.name} needs {expectation}, got {found}")


def _check_shapes(task: Task, split: Split, batch: SequenceBatch, num_sequences: int, length: int) -> None:
    frames = (num_sequences, length)
    expected = {"states": (*frames, task.space.dim), "observations": (*frames, *task.observation)}
    expected |= {"actions": (num_sequences, length - 1, task.action_dim)} if task.action_dim else {}
    expected |= {name: frames for name in ("labelled", "valid", "observed") if getattr(batch, name) is not None}
    shapes = {name: tuple(tensor.shape) for name, tensor in batch._asdict().items() if tensor is not None}
    _require(shapes == expected, task, f"in {split.name} tensors of shapes {expected}", shapes)
    kind = torch.uint8 if len(task.observation) == 3 else torch.float32
    _require(batch.observations.dtype == kind, task, f"observations of {kind}", batch.observations.dtype)
    _require(bool(batch.states.isfinite().all()), task, "finite states")
    _require(batch.observations.dtype == torch.uint8 or bool(batch.observations.isfinite().all()), task, "finite observations")
    _require(bool(batch.targets[:, 0].all()), task, f"in {split.name} a label at frame 0 of every sequence")
    _require(bool(batch.targets[:, 1:].any()), task, f"in {split.name} labels after frame 0")
    _require(torch.equal(batch.states, task.space.wrap(batch.states)), task, "angles between -pi and pi")


def _check_start(task: Task, states: Tensor) -> None:
    kernel = task.start(states)
    _require(
        kernel.space.angular == task.space.angular, task, f"a start with the angles {task.space.angular}", kernel.space.angular
    )
    draw, again = (task.prior(states, 25, generator=torch.Generator().manual_seed(0)) for _ in range(2))
    _require(draw.shape == (len(states), 25, task.space.dim), task, "particles [n, N, d]", tuple(draw.shape))
    _require(torch.equal(draw, again), task, "the same particles for the same seed")
    _require(bool(draw.std(1).min() > 0), task, "particles that differ in every coordinate")
    distance = task.space.difference(draw, states[:, None]).abs() / kernel.variance().sqrt()
    _require(bool((distance < 8).all()), task, "particles around the true state", f"{distance.max():.1f} standard deviations")
