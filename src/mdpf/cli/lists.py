"""What there is to choose from, one line each."""

from mdpf.cli.app import OUT, app


@app.command()
def tasks() -> None:
    """List the tasks there are, one line each."""
    from mdpf.tasks import TASKS

    for name, make in TASKS.items():
        OUT.print(f"[bold]{name:10}[/bold] {(make.__doc__ or '').strip().splitlines()[0]}", markup=True, soft_wrap=True)


@app.command()
def methods() -> None:
    """List the methods there are, one line each."""
    from mdpf.recipes.bearings_beyond import PLUS
    from mdpf.recipes.methods import METHODS

    for name, method in METHODS.items():
        OUT.print(f"[bold]{name:10}[/bold] {method.summary}", markup=True, soft_wrap=True)
    for name, method in PLUS.items():
        OUT.print(f"[bold]{name:10}[/bold] {method} with larger choices, for bearings alone", markup=True, soft_wrap=True)
