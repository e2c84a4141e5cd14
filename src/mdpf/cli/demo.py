"""A first look at everything."""

from pathlib import Path
from typing import Annotated

import typer

from mdpf.cli.app import OUT, app


@app.command(name="demo")
def first_look(
    out: Annotated[Path, typer.Option(help="The folder to write into.")] = Path("mdpf-demo"),
) -> None:
    """Track with weights that come with the package, film a posterior, train a small filter, write a report: three minutes."""
    from mdpf import demo
    from mdpf.data.atomic import check_folder
    from mdpf.report.progress import epochs

    def tell(line: str) -> None:
        OUT.print(line, highlight=False, markup=False, soft_wrap=True)

    check_folder(out)
    demo.run(out, tell, lambda: epochs(OUT))
