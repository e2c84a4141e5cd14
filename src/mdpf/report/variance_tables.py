"""Tables of how noisy every estimator's gradient is."""

import math
from collections.abc import Sequence
from pathlib import Path

from mdpf.report.markdown import load_if_there, markdown, missing, origin, short

Numbers = dict[str, float]

# These three estimate the same gradient; the fourth differentiates the weighted particles, without their kernel.
SMOOTHED = ("ImportanceWeighted", "ComponentPathwise", "ImplicitlyReparameterized")
ESTIMATORS = (*SMOOTHED, "StopGradient")
INPUTS = ("weights", "locs", "bandwidth")
# A bias is told where chance does not explain it and it is more than a trifle of the gradient.
SIGNIFICANT, TRIFLE = 5.0, 0.05
TIE = 1.05  # Noise this close to the lowest is as low.


def variance(results: Path, *estimators: str) -> str:
    """The standard deviation of every estimator's gradient, in parts of the exact gradient's norm; biases are told."""
    return _estimators(results, "relative_std", estimators)


def peaks(results: Path, *estimators: str) -> str:
    """The largest single gradient met, in parts of the exact gradient's norm."""
    return _estimators(results, "relative_peak", estimators)


def _estimators(results: Path, quantity: str, estimators: Sequence[str]) -> str:
    result = load_if_there(results / "variance" / "estimators.json")
    if result is None:
        return missing("the noise of every gradient", "mdpf reproduce variance")
    metrics: Numbers = result.runs[0]["metrics"]
    chosen = estimators or ESTIMATORS
    rows = []
    for case in dict.fromkeys(name.split("/")[0] for name in metrics if not name.startswith("growth/")):
        for key in INPUTS:
            cells = {name: _noise(metrics, f"{case}/{name}/{key}", quantity) for name in chosen}
            sound = {name: value for name, (value, biased) in cells.items() if name in SMOOTHED and not biased}
            best = min(sound.values(), default=math.nan)
            bold = {name for name, value in sound.items() if len(sound) > 1 and value <= TIE * best}
            row = [_cell(metrics, f"{case}/{name}/{key}", *cells[name], name in bold) for name in chosen]
            rows.append([f"{case}, {key}", *row])
    replicates = result.config["replicates"]
    note = f"\n\n*{replicates} gradients for each entry.* " + origin([result])
    return markdown(["mixture, gradient to", *[f"`{name}`" for name in chosen]], rows) + note


def _noise(metrics: Numbers, row: str, quantity: str) -> tuple[float, bool]:
    """The noise of one entry of the table, and whether it is biased; not a number where it does not exist."""
    if f"{row}/{quantity}" not in metrics:
        return math.nan, True
    biased = metrics[f"{row}/bias_z"] > SIGNIFICANT and metrics[f"{row}/relative_bias"] > TRIFLE
    return metrics[f"{row}/{quantity}"], biased


def _cell(metrics: Numbers, row: str, value: float, biased: bool, best: bool) -> str:
    if math.isnan(value):
        return ""
    text = f"**{short(value)}**" if best else short(value)
    return text + (f" (bias {metrics[f'{row}/relative_bias']:.2f})" if biased else "")


def growth(results: Path) -> str:
    """The sample variance of a gradient to a location by the number of draws: it settles, or it does not."""
    result = load_if_there(results / "variance" / "estimators.json")
    if result is None:
        return missing("how the variance grows with the number of draws", "mdpf reproduce variance")
    metrics: Numbers = result.runs[0]["metrics"]
    entries = [name.split("/")[1:] for name in metrics if name.startswith("growth/")]
    kernels, sizes = dict.fromkeys(kernel for kernel, _ in entries), dict.fromkeys(size for _, size in entries)
    rows = [[f"`{kernel}`", *[short(metrics[f"growth/{kernel}/{size}"]) for size in sizes]] for kernel in kernels]
    return markdown(["kernel", *[f"{int(size):,} draws" for size in sizes]], rows) + "\n\n" + origin([result])
