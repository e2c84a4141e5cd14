"""What every command shares: the application, its two consoles, the choice by a word, and what becomes of errors."""

import sys
from collections.abc import Mapping
from typing import Annotated, TypeVar

import typer
from rich.console import Console

app = typer.Typer(
    name="mdpf",
    help="Track with several hypotheses alive: learned particle filters whose posterior is a mixture density.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
OUT = Console()
ERR = Console(stderr=True)

Choice = TypeVar("Choice")

# What a wrong call raises; everything else that is raised has failed.
WRONG_CALL = (ValueError, TypeError, FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    threads: Annotated[int, typer.Option(help="How many threads a computation may use.", min=1)] = 1,
) -> None:
    """Set what holds for every command."""
    import torch

    del debug  # Looked at by main, which sees every error.
    torch.set_num_threads(threads)


def choose(kind: str, name: str, known: Mapping[str, Choice]) -> Choice:
    """What a word means among those that are known; the one place where words choose code."""
    if name not in known:
        raise ValueError(f"mdpf needs a known {kind}, got {name!r}. Known are: {', '.join(known)}.")
    return known[name]


def device_of(name: str) -> str:
    """The device a word means; ``auto`` is a CUDA device if there is one."""
    import torch

    known = {"auto": "cuda" if torch.cuda.is_available() else "cpu", "cpu": "cpu", "cuda": "cuda"}
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(
            f"mdpf needs a CUDA device for --device {name}, got none. Use --device cpu, or auto for whatever is there."
        )
    return name if name.startswith("cuda:") else choose("device", name, known)


def main(words: list[str] | None = None) -> None:
    """Run a command and turn its errors into one message and an exit code."""
    words = sys.argv[1:] if words is None else words
    try:
        app(words, prog_name="mdpf")
    except WRONG_CALL as error:
        _fail(error, words, code=2)
    except KeyboardInterrupt:
        ERR.print("Stopped.")
        sys.exit(1)
    except Exception as error:
        _fail(error, words, code=1)


def _fail(error: Exception, words: list[str], code: int) -> None:
    if "--debug" in words:
        raise error
    ERR.print(str(error) or type(error).__name__, style="red", highlight=False, markup=False, soft_wrap=True)
    sys.exit(code)
