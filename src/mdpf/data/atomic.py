"""Write a file wholly or not at all."""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic(path: str | Path) -> Iterator[BinaryIO]:
    """Open ``path`` for writing so that it appears complete, or stays as it was.

    The bytes go to a temporary file in the same folder, reach the disk, and take the name in one step. Whatever interrupts that,
    a crash included, leaves an old file of that name untouched.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "note.txt"
        >>> with atomic(path) as stream:
        ...     _ = stream.write(b"all of it")
        >>> path.read_bytes()
        b'all of it'
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"Writing needs the name of a file, got the folder {str(path)!r}. Name a file inside it.")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        # Buffering is torch's and numpy's business as little as ours: "x" refuses to follow a file that is already there.
        with open(temporary, "xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise type(error)(
            f"Writing needs a writable folder with space left, got {error.strerror or error} for {str(path)!r}. "
            "Nothing was changed; choose another place or make room."
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink()
    _sync_folder(path.parent)


@contextmanager
def exclusive(path: str | Path, *, patience: float = 60.0) -> Iterator[None]:
    """Keep other processes away from a file that is to be read and written again.

    Whoever comes first makes a file beside it, which the others wait for; one older than ``patience`` seconds was left behind by a
    process that died, and is taken away.
    """
    guard = Path(path).with_name(f".{Path(path).name}.guard")
    guard.parent.mkdir(parents=True, exist_ok=True)
    while True:
        try:
            os.close(os.open(guard, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            break
        except FileExistsError:
            with suppress(FileNotFoundError):
                if time.time() - guard.stat().st_mtime > patience:
                    guard.unlink()
            time.sleep(0.01)
    try:
        yield
    finally:
        guard.unlink(missing_ok=True)


def check_place(path: str | Path) -> None:
    """Make sure that a file can be written, before anybody computes for long what is to be in it; leaves nothing behind."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"Writing needs the name of a file, got the folder {str(path)!r}. Name a file inside it.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"Writing needs a folder that is there, got {str(path.parent)!r} for {path.name!r}. Make it first.")
    trial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        trial.touch(exist_ok=False)
    except OSError as error:
        raise type(error)(
            f"Writing needs a writable folder with space left, got {error.strerror or error} for {str(path)!r}. "
            "Nothing was changed; choose another place or make room."
        ) from error
    finally:
        with suppress(OSError):
            trial.unlink()


def check_folder(path: str | Path) -> None:
    """Make sure that a folder is there or can be made, before anybody computes for long what is to be in it; makes nothing."""
    nearest = Path(path).absolute()
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir():
        raise NotADirectoryError(f"Writing needs a folder, got the file {str(nearest)!r} for {str(path)!r}. Choose another place.")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise PermissionError(f"Writing needs a writable folder, got {str(nearest)!r} for {str(path)!r}. Choose another place.")


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a power failure, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
