"""Several methods from several seeds, on one machine or on a cluster."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from mdpf.cli.app import OUT, app, choose, device_of


@app.command()
def sweep(
    task: Annotated[str, typer.Argument(help="bearings, or a file of sequences (.npz).")],
    methods: Annotated[str, typer.Argument(help="Which methods, with commas: MDPF,TG-PF,LSTM.")],
    seeds: Annotated[int, typer.Option(help="How many seeds, counted from 0.", min=1)] = 3,
    particles: Annotated[int | None, typer.Option(help="How many, in training and evaluation; by default 25.", min=1)] = None,
    preset: Annotated[str | None, typer.Option(help="paper, fast or quick; by default fast.")] = None,
    jobs: Annotated[int, typer.Option(help="How many trainings at once, on this machine.", min=1)] = 1,
    ray: Annotated[bool, typer.Option("--ray", help="Spread them over a Ray cluster (RAY_ADDRESS, or this machine).")] = False,
    minutes: Annotated[float | None, typer.Option(help="Stop in good order before; the same call goes on.", min=0)] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    out: Annotated[Path | None, typer.Option(help="The folder for everything; by default runs/sweep- and a name.")] = None,
) -> None:
    """Train several methods from several seeds and compare them; goes on where it was interrupted."""
    from mdpf.data import files
    from mdpf.data.atomic import check_folder
    from mdpf.recipes import bearings, cluster, logs, parts
    from mdpf.recipes import sweep as sweeping
    from mdpf.recipes.methods import METHODS
    from mdpf.report import comparison
    from mdpf.training.deadline import Deadline

    named = tuple(word.strip() for word in methods.split(","))
    for name in named:
        choose("method", name, METHODS)
    on_file = Path(task).suffix == ".npz" or Path(task).exists()
    if on_file:
        summary = files.summarise(Path(task))
        if not summary.ok:
            raise ValueError(summary.findings[0].message)
    else:
        choose("task", task, dict.fromkeys(sweeping.TASKS))
    choose("preset", preset or "fast", logs.PRESETS if on_file else bearings.PRESETS)
    if ray and jobs > 1:
        raise ValueError(f"mdpf sweep needs --jobs or --ray, got both. A cluster decides by itself; leave --jobs {jobs} out.")
    options = {name: value for name, value in (("particles", particles), ("preset", preset)) if value is not None}
    chosen = sweeping.Sweep(task, named, tuple(range(seeds)), options)
    folder, where = out or Path("runs") / f"sweep-{Path(task).stem}", device_of(device)
    check_folder(folder)
    todo = sweeping.parts(chosen, folder, device=where)
    until = Deadline() if minutes is None else Deadline(60 * minutes)
    if ray:
        outcome = cluster.carry_out(todo, gpus=float(where.startswith("cuda")), until=until)
    else:
        outcome = parts.carry_out(todo, jobs=jobs, until=until)
    found = sweeping.gather(chosen, folder)
    if found:
        OUT.print(comparison.table(found), markup=False, highlight=False)
        OUT.print(f"Medians over {seeds} seeds; the runs are in {folder}.", highlight=False)
    parts.tell(outcome, partial(OUT.print, highlight=False, markup=False, soft_wrap=True))
