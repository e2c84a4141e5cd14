"""The figures of the house study: beliefs over floor plans from three kinds of starts, an animation, and how often one is found.

Whatever part of the study is there is drawn.
"""

from pathlib import Path

from matplotlib.figure import Figure

from mdpf.evaluation import beliefs
from mdpf.evaluation.results import Result, load
from mdpf.report import animation, belief, style

ORDER = ("LSTM", "TG-PF", "OT-PF", "SR-PF", "DIS-PF", "C-PF", "TG-MDPF", "IRG-MDPF", "MDPF", "A-MDPF")
KINDS = {"truth": "around the truth", "alike": "over three places that look alike", "anywhere": "anywhere"}
FRAMES = (0, 1, 5, 15, 40)
LINES = {1_000: ":", 3_000: "--", 10_000: "-"}
START = "start-anywhere-"


@style.styled
def starts(folder: Path, method: str) -> Figure:
    """Draw one walk from every kind of start, a row each, with what is seen at the upper right of each panel."""
    rows = {kind: folder / "panels" / f"{method}@{kind}.npz" for kind in KINDS}
    found = {kind: beliefs.read(path) for kind, path in rows.items() if path.exists()}
    if not found:
        raise FileNotFoundError(f"Drawing starts needs files of beliefs, got none of {method} in {str(folder / 'panels')!r}.")
    first = next(iter(found.values()))
    left, right, bottom, top = first.scene["extent"]
    frames = [frame for frame in FRAMES if frame < first.length]
    ratio = (top - bottom) / (right - left)
    figure = style.figure(height=0.5 + len(found) * (0.25 + min(2.2, style.WIDTH / len(frames) * ratio)))
    axes = figure.subplots(len(found), len(frames), squeeze=False)
    for row, (kind, recorded) in zip(axes, found.items(), strict=True):
        for panel, frame in zip(row, frames, strict=True):
            belief.draw(panel, recorded, 0, frame, scale=0.45)
            panel.set_title(f"frame {frame}", fontsize=7, pad=2)
        row[0].set_ylabel(f"{recorded.particles.shape[2]} {KINDS[kind]}", fontsize=7)
    names = [name for name in belief.MEANINGS if name != "observation"]
    figure.legend(handles=belief.handles(*names, size=4), loc="outside upper center", ncols=len(names), title=method)
    return figure


@style.styled
def tracks(folder: Path) -> Figure:
    """Draw the same walk as every method followed it: the plan, the truth, the mean, the last belief, and the last image."""
    found = {name: beliefs.read(path) for name in ORDER if (path := folder / "panels" / f"{name}@truth.npz").exists()}
    columns = min(4, len(found))
    rows = -(-len(found) // columns)
    left, right, bottom, top = next(iter(found.values())).scene["extent"]
    figure = style.figure(height=0.4 + rows * (0.25 + min(3.5, style.WIDTH / columns * (top - bottom) / (right - left))))
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel, (name, recorded) in zip(panels, found.items(), strict=False):
        assert recorded.data is not None
        belief.draw(panel, recorded, 0, recorded.length - 1, scale=0.6)
        for states, colour in ((recorded.data.states, belief.TRUTH), (recorded.mean, belief.MEAN)):
            panel.plot(states[0, :, 0], states[0, :, 1], color=colour, linewidth=0.7, zorder=5)
        panel.set_title(name, fontsize=8, pad=2)
    for panel in panels[len(found) :]:
        panel.axis("off")
    names = [name for name in belief.MEANINGS if name != "observation"]
    figure.legend(handles=belief.handles(*names, size=4), loc="outside upper center", ncols=len(names))
    return figure


@style.styled
def errors(folder: Path) -> Figure:
    """Draw how the position error of every method grows along a walk: the root of the mean square, and the median."""
    figure = style.figure(height=2.4)
    panels = figure.subplots(1, 2)
    for name in ORDER:
        path = folder / f"{name}.json"
        if path.exists():
            curves = load(path).runs[0]["curves"]
            for axes, key in zip(panels, ("position_rmse", "position_median"), strict=True):
                axes.plot(curves[key], color=style.METHOD_COLOURS[name], label=name, linewidth=1)
    path = folder / "dead-reckoning.json"
    if path.exists():
        curves = load(path).runs[0]["curves"]
        for axes, key in zip(panels, ("position_rmse", "position_median"), strict=True):
            axes.plot(curves[key], ":", color=style.BLACK, label="dead reckoning", linewidth=1)
    panels[0].set(xlabel="frame", ylabel="position error, root mean square (m)", ylim=(0, None))
    panels[1].set(xlabel="frame", ylabel="median (m)", ylim=(0, None))
    figure.legend(handles=panels[0].get_lines(), loc="outside right center")
    return figure


def draw_study(folder: Path) -> list[Path]:
    """Draw what the results of the methods give, and return the files."""
    if not any((folder / f"{name}.json").exists() for name in ORDER):
        return []
    return [style.save(errors(folder), folder / "errors.png")]


@style.styled
def success(folder: Path) -> Figure:
    """Draw how often the heaviest hypothesis is near the truth: against time, and in the end against the number of particles."""
    found = searches(folder)
    figure = style.figure(height=2.4)
    over_time, over_count = figure.subplots(1, 2, sharey=True)
    ends: dict[str, dict[int, float]] = {}
    for (name, count), result in sorted(found.items()):
        curves, colour = result.runs[0]["curves"], _colour(name)
        label = f"{name}, N = {count:,}"
        over_time.plot(curves["frame"], curves["success"], LINES.get(count, "-"), color=colour, label=label, linewidth=1)
        ends.setdefault(name, {})[count] = result.metric("success")[0]
    for name, points in ends.items():
        over_count.plot(list(points), list(points.values()), "o-", color=_colour(name), markersize=3, label=name)
    over_time.set(xlabel="frame", ylabel="found", ylim=(0, 1))
    over_count.set(xscale="log", xlabel="particles")
    figure.legend(handles=over_time.get_lines(), loc="outside right center")
    return figure


def searches(folder: Path) -> dict[tuple[str, int], Result]:
    """The results of starts anywhere, by the name of who searches and the number of particles."""
    found = {}
    for path in sorted(folder.glob(f"[A-Z]*@*{START}*.json")):
        result = load(path)
        setting, _, count = result.setting.rpartition(START)
        setting = setting.strip("-")
        found[result.method + (f" ({setting})" if setting else ""), int(count)] = result
    return found


def _colour(name: str) -> str:
    return style.ORANGE if "(" in name else style.METHOD_COLOURS.get(name, style.BLUE)


def draw_modes(folder: Path) -> list[Path]:
    """Draw everything about many hypotheses that a folder gives, and return the files."""
    written = []
    if searches(folder):
        written.append(style.save(success(folder), folder / "anywhere.png"))
    if any((folder / "panels").glob("*@truth.npz")):
        written.append(style.save(tracks(folder), folder / "panels" / "tracks.png"))
    for method in sorted({path.stem.split("@")[0] for path in (folder / "panels").glob("*@a*.npz")}):
        written.append(style.save(starts(folder, method), folder / "panels" / f"{method}.png"))
        path = folder / "panels" / f"{method}@anywhere.npz"
        if path.exists():
            recorded = beliefs.read(path)
            pictures = animation.render(recorded, 0, range(recorded.length), pixels=420)
            written.append(animation.save(pictures, path.with_suffix(".gif"), fps=5))
    return written
