"""One step of resampling from a mixture, forward and backward, on the (x, y, theta) state of the tracking tasks.

A step draws as many particles as there are components and takes the gradient of their importance weights to weights, locations and
bandwidths. A narrow cloud reaches ten bandwidths far, a wide one five hundred: there most pairs are so far apart that their
densities are zero or denormal numbers, on which a processor is slow.
"""

from collections.abc import Callable, Iterator

import torch

from mdpf.benchmarks.measure import peak_memory, repeat
from mdpf.benchmarks.sheet import Case, memory_row, time_rows
from mdpf.evaluation.measurements import Row
from mdpf.kernels import Gaussian, Product, VonMises
from mdpf.mixture import Mixture
from mdpf.resamplers import ImportanceWeighted
from mdpf.training.threads import threads

BATCH = 64
COUNTS = (25, 100, 500, 2000)
RADII = {"narrow": 4.0, "wide": 200.0}


def make_step(count: int, radius: float, device: torch.device) -> Callable[[], object]:
    """One step on a cloud that is uniform in a square, with its gradient."""
    generator = torch.Generator(device).manual_seed(0)

    def uniform(*shape: int) -> torch.Tensor:
        return 2 * torch.rand(*shape, generator=generator, device=device) - 1

    spread = torch.tensor([radius, radius, 3.0], device=device)
    locs = (uniform(BATCH, count, 3) * spread).requires_grad_()
    logits = (2 * uniform(BATCH, count)).requires_grad_()
    scale = torch.full((2,), 0.4, device=device, requires_grad=True)
    concentration = torch.full((1,), 20.0, device=device, requires_grad=True)
    cotangent = uniform(BATCH, count)
    resampler = ImportanceWeighted()

    def step() -> object:
        mixture = Mixture(locs, logits.log_softmax(-1), Product((Gaussian(scale), VonMises(concentration))))
        draw = resampler(mixture, count, generator=generator)
        return torch.autograd.grad(draw.log_weights, [locs, logits, scale, concentration], cotangent)

    return step


def cases(device: torch.device) -> Iterator[Case]:
    """What is measured; on a processor with one thread."""

    def timed(count: int, cloud: str) -> Callable[[], list[Row]]:
        def measure() -> list[Row]:
            params = {"batch": BATCH, "particles": count, "cloud": cloud}
            with threads(1):
                step = make_step(count, RADII[cloud], device)
                sample = repeat(step, device, most=200)
                return [
                    *time_rows("resampling", device, params, sample),
                    memory_row("resampling", device, params, peak_memory(step, device)),
                ]

        return measure

    for cloud in RADII:
        for count in COUNTS:
            yield Case(f"N {count}, {cloud}", timed(count, cloud))
