"""Comparing gradient estimators with the truth."""

from pathlib import Path
from typing import Annotated

import typer

from mdpf.cli.app import OUT, app, choose


@app.command()
def diagnose(
    model: Annotated[
        str, typer.Argument(help="linear-gaussian, bimodal, bearings (untrained), or a trained run: its folder or weights.")
    ],
    data: Annotated[Path | None, typer.Option(help="For a trained run: a file of sequences like those it was trained on.")] = None,
    particles: Annotated[int, typer.Option(help="How many particles the filters have.", min=1)] = 25,
    replicates: Annotated[int, typer.Option(help="How many gradients of each estimator.", min=2)] = 64,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    figure: Annotated[Path | None, typer.Option(help="Draw the comparison into this file (png, svg, pdf).")] = None,
) -> None:
    """Compare every gradient estimator with the truth: bias, spread and time, and a hint what to use."""
    from mdpf.data.atomic import check_folder
    from mdpf.recipes import diagnoses
    from mdpf.report import diagnosis, style

    if figure is not None:
        choose("ending of a figure", figure.suffix, dict.fromkeys(style.ENDINGS))
        check_folder(figure.parent)
    if Path(model).suffix == ".safetensors" or Path(model).is_dir():
        found = diagnoses.trained_run(Path(model), data=data, num_particles=particles, replicates=replicates, seed=seed)
    else:
        if model not in diagnoses.MODELS:
            raise ValueError(
                f"mdpf diagnose needs {', '.join(diagnoses.MODELS)} or a trained run, got {model!r}, which is none of them and no "
                "folder. Name the folder that `mdpf train` wrote, or a file of weights in it."
            )
        if data is not None:
            raise ValueError(f"mdpf diagnose {model} needs no --data, got {str(data)!r}. It makes its own; leave it out.")
        found = diagnoses.MODELS[model](num_particles=particles, replicates=replicates, seed=seed)
    OUT.print(found.table(width=OUT.width), highlight=False, markup=False)
    if figure is not None:
        OUT.print(f"Wrote {style.save(diagnosis.draw(found), figure)}.", highlight=False)
