"""Time one mixture-resampling step, forward and backward, on the (x, y, theta) state of the tracking tasks.

    python benchmarks/density.py [--batch 64] [--particles 25 100 500 2000] [--implementation auto] [--device cpu]

A step draws as many particles as there are components and takes the gradient of their importance weights to weights, locations
and bandwidths. ``narrow`` clouds reach ten bandwidths far, ``wide`` ones five hundred, so that most pairs are far apart. Times are
the median and the smallest of several steps; processor time is what counts on a machine that does other things too.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from mdpf.kernels import Gaussian, Product, VonMises
from mdpf.mixture import Mixture
from mdpf.ops import mixture_log_prob

RADII = {"narrow": 4.0, "wide": 200.0}


def make_step(batch: int, particles: int, radius: float, device: str, implementation: str) -> Callable[[], None]:
    """One step on a cloud that is uniform in a square, with its gradient."""
    generator = torch.Generator(device).manual_seed(0)
    draw = dict(generator=generator, device=device)
    spread = torch.tensor([radius, radius, 3.0], device=device)
    locs = ((2 * torch.rand(batch, particles, 3, **draw) - 1) * spread).requires_grad_()
    logits = torch.randn(batch, particles, **draw).requires_grad_()
    scale = torch.full((2,), 0.4, device=device, requires_grad=True)
    concentration = torch.full((1,), 20.0, device=device, requires_grad=True)
    cotangent = torch.randn(batch, particles, **draw)

    def step() -> None:
        kernel = Product((Gaussian(scale), VonMises(concentration)))
        log_weights = logits.log_softmax(-1)
        with torch.no_grad():
            points = Mixture(locs, log_weights, kernel).sample(particles, generator=generator)
        log_density = mixture_log_prob(points, locs, log_weights, kernel, implementation=implementation)
        torch.autograd.grad(log_density, [locs, logits, scale, concentration], cotangent)

    return step


def measure(step: Callable[[], None], device: str, repetitions: int) -> tuple[list[float], list[float]]:
    """Wall-clock and processor milliseconds of every repetition, after one to warm up."""
    step()
    walls, processors = [], []
    for _ in range(repetitions):
        wall, processor = time.perf_counter(), time.process_time()
        step()
        if device == "cuda":
            torch.cuda.synchronize()
        walls.append(1e3 * (time.perf_counter() - wall))
        processors.append(1e3 * (time.process_time() - processor))
    return walls, processors


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--particles", type=int, nargs="+", default=[25, 100, 500, 2000])
    parser.add_argument("--implementation", default="auto")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print("cloud     particles   wall: median      min   processor: median      min  (ms)")
    for cloud, radius in RADII.items():
        for particles in options.particles:
            step = make_step(options.batch, particles, radius, options.device, options.implementation)
            walls, processors = measure(step, options.device, 5 if particles > 500 else 41)
            figures = [statistics.median(walls), min(walls), statistics.median(processors), min(processors)]
            print(f"{cloud:8}{particles:11}" + "{:15.2f}{:9.2f}{:20.2f}{:9.2f}".format(*figures), flush=True)


if __name__ == "__main__":
    main()
