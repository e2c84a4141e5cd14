"""Follow cars online for very many steps, with missing and absurd observations in between, and watch what must not change.

    python -m mdpf.reliability.soak --frames 1000000 --minutes 9

Weights have to stay normalised, every number finite, and memory flat. A call goes on where the one before it stopped; when all
frames are done the outcome is written.
"""

import argparse
import math
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mdpf.data.atomic import check_place
from mdpf.evaluation import results
from mdpf.filters import Belief
from mdpf.mixture import Mixture
from mdpf.recipes import runs
from mdpf.tasks import bearings
from mdpf.tracking import Tracked
from mdpf.training import checkpoint

LOOK = 1000  # Frames between looks at memory and at the clock.
WARM = 10  # Looks of a call after which memory has to be what it will be.
ABSURD = torch.tensor([math.nan, math.inf, -math.inf, 3e38, -3e38, 1e-40, 1e6, 0.0])
CARS, LENGTH = 40, 1000  # Recordings that are observed, one after the other, again and again.


def soak(
    weights: Path, state: Path, *, frames: int, cars: int = 1, minutes: float = math.inf, particles: int = 25
) -> dict[str, Any]:
    """Go on until ``frames`` frames in all, or until time is over; returns what was found so far.

    Args:
        weights: Of a bearings run.
        state: Where to go on from, and what to leave for the next call.
        frames: How many calls of ``step`` in all.
        cars: How many cars are followed side by side; each call makes a step for each.
        minutes: When to stop.
        particles: How many.
    """
    began = time.monotonic()
    tracker = runs.load(weights)
    recorded = bearings.task().split("evaluation", num_sequences=CARS, length=LENGTH)
    generator = torch.Generator().manual_seed(0)
    found: dict[str, Any] = {"frames": 0, "cars": cars, "missing": 0, "absurd": 0, "degenerate": 0, "worst_sum": 0.0}
    found |= {"seconds": 0.0, "calls": []}
    belief = tracker.init(recorded.states[:cars, 0], num_particles=particles, generator=generator)
    if state.exists():
        saved = checkpoint.load(state)
        found, belief = dict(saved.notes), _restored(belief, saved.tensors)
        generator.set_state(saved.tensors["generator"])
    memory = []
    for frame in range(found["frames"], frames):
        chosen = (torch.arange(cars) + frame // LENGTH * cars) % CARS
        if frame % LENGTH == 0:
            # Other cars, somewhere else: half of the starts know where, half know nothing.
            about = recorded.states[chosen, 0]
            anywhere = tracker.box(about, particles, generator=generator) if tracker.box is not None else about[:, None]
            known = frame // LENGTH % 2 == 0
            around = tracker.init(about, num_particles=particles, generator=generator)
            belief = around if known else tracker.init(samples=anywhere)
        observation, missing, absurd = _observe(recorded.observations[chosen, frame % LENGTH], generator)
        belief = tracker.step(belief, observation, generator=generator)
        worst = float((belief.posterior.log_weights.exp().sum(-1) - 1).abs().max())
        if not (worst < 1e-4 and bool(belief.particles.isfinite().all()) and bool(belief.mean().isfinite().all())):
            raise AssertionError(f"Frame {frame} needs finite particles whose weights sum to one, got sums off by {worst}.")
        counts = {"missing": missing, "absurd": absurd, "degenerate": int(belief.degenerate.sum()), "frames": 1}
        found |= {name: found[name] + count for name, count in counts.items()}
        found["worst_sum"] = max(found["worst_sum"], worst)
        if (frame + 1) % LOOK == 0:
            memory.append(resident())
            if time.monotonic() - began > 60 * minutes:
                break
    seconds = time.monotonic() - began
    found["seconds"] += seconds
    warm = memory[min(WARM, len(memory) - 1)] if memory else 0
    # Each process by itself: what another one needs says nothing about growth.
    found["calls"].append({"seconds": seconds, "frames_so_far": found["frames"], "memory_warm": warm, "memory_last": resident()})
    checkpoint.save(state, {"generator": generator.get_state(), **_tensors(belief)}, found)
    return found


def resident() -> int:
    """The memory this process occupies, in bytes."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


def _observe(clean: Tensor, generator: torch.Generator) -> tuple[Tensor, int, int]:
    """What comes of clean observations ``[cars, 2]``: one in ten is missing, one in ten absurd."""
    kinds = torch.randint(10, clean.shape[:1], generator=generator)
    strange = ABSURD[torch.randint(len(ABSURD), clean.shape, generator=generator)]
    seen = torch.where((kinds == 1).unsqueeze(-1), strange, clean)
    seen = torch.where((kinds == 0).unsqueeze(-1), math.nan, seen)
    return seen, int((kinds == 0).sum()), int((kinds == 1).sum())


def _tensors(belief: Tracked) -> dict[str, Tensor]:
    posterior = belief.posterior
    return {"locs": posterior.locs, "log_weights": posterior.log_weights, "first": torch.tensor(belief.belief.resampling is None)}


def _restored(belief: Tracked, tensors: Mapping[str, Tensor]) -> Tracked:
    posterior = Mixture(tensors["locs"], tensors["log_weights"], belief.posterior.kernel)
    return belief._replace(belief=Belief(posterior, None if bool(tensors["first"]) else posterior))


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--cars", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--weights", type=Path, default=Path("results/bearings/weights/MDPF.safetensors"))
    parser.add_argument("--state", type=Path, default=Path("runs/soak.safetensors"))
    parser.add_argument("--out", type=Path, default=Path("results/reliability/soak.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    check_place(options.out)
    found = soak(options.weights, options.state, frames=options.frames, cars=options.cars, minutes=options.minutes)
    print(f"{found['frames']} of {options.frames} frames of {found['cars']} cars, {found['seconds']:.0f} s, {found['calls'][-1]}")
    if found["frames"] >= options.frames:
        results.write_json(
            options.out,
            found
            | {
                "provenance": vars(results.provenance(found["seconds"], command=["python -m mdpf.reliability.soak", *sys.argv[1:]]))
            },
        )


if __name__ == "__main__":
    main()
