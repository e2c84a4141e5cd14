"""What every command shares: the application, its two consoles, the choice by a word, and what becomes of errors."""

import shlex
import sys
from collections.abc import Mapping
from typing import Annotated, Any, NoReturn, TypeVar

import typer
from rich.console import Console

app = typer.Typer(
    name="mdpf",
    help="Track with several hypotheses alive: learned particle filters whose posterior is a mixture density.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
# What is printed holds names of files and shapes in brackets, which are no markup.
OUT = Console(markup=False, highlight=False)
ERR = Console(stderr=True)

Choice = TypeVar("Choice")

# What a wrong call raises; everything else that is raised has failed.
WRONG_CALL = (ValueError, TypeError, FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)

INTERRUPTED = 130  # What typer makes of an interruption.


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
        code = app(words, prog_name="mdpf", standalone_mode=False)
    except WRONG_CALL as error:
        _fail(error, words, code=2)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        if hasattr(error, "format_message"):
            _explain(error, words)
        _fail(error, words, code=1)
    if code == INTERRUPTED:
        ERR.print("Stopped.")
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


def _explain(error: Any, words: list[str]) -> NoReturn:  # noqa: ANN401
    """Say in one message what words that are no call of a command lack; without any words, what the commands are."""
    if words:
        command = error.ctx.command_path if getattr(error, "ctx", None) else "mdpf"
        reason, found = error.format_message().rstrip("."), shlex.join(["mdpf", *words])
        reason = f"{reason[:1].lower()}{reason[1:]}. `{command} --help` lists what it takes."
        _print(f"{command} needs another call, got `{found}`: {reason}")
    else:
        error.show()
    sys.exit(2)


def _fail(error: Exception, words: list[str], code: int) -> NoReturn:
    if "--debug" in words:
        raise error
    message = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror and error.filename is not None and message.startswith("[Errno"):
        # What the system says for itself, where nobody looked before.
        message = f"mdpf needs a path that can be used, got {str(error.filename)!r}: {error.strerror}. Choose another one."
    _print(message)
    sys.exit(code)


def _print(message: str) -> None:
    ERR.print(message, style="red", highlight=False, markup=False, soft_wrap=True)
