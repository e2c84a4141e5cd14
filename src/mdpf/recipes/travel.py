"""Take a study to another machine and back: everything needed to go on, in one small file."""

import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from mdpf.data.atomic import atomic

LIMIT = 32 * 2**20  # Larger files stay: checkpoints of a large network, which is trained in one go.
PIECE = 15 * 2**20  # What is larger than this goes into several files: some machines hand back none that is larger.


def pack(path: Path, folders: Mapping[str, Path], *, limit: int = LIMIT) -> list[str]:
    """Write the files of some folders into one, each folder under a name of its own.

    Args:
        path: The file to write. What does not fit into ``PIECE`` goes on in ``path.1``, ``path.2`` and so on.
        folders: What to take along, by the name it has on both sides. Folders that are not there are left out.
        limit: Files of more bytes stay where they are.

    Returns:
        The files that stayed.
    """
    stayed, content = [], io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, folder in folders.items():
            # Whatever is hidden is being written at this moment, or was when somebody was interrupted.
            for file in sorted(file for file in folder.rglob("*") if file.is_file() and not file.name.startswith(".")):
                inside = str(PurePosixPath(name, file.relative_to(folder).as_posix()))
                if file.stat().st_size > limit:
                    stayed.append(inside)
                else:
                    archive.add(file, inside)
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = content.getvalue()
    pieces = [whole[start : start + PIECE] for start in range(0, len(whole), PIECE)]
    for stale in _further(path)[len(pieces) - 1 :]:
        stale.unlink()
    # The first comes last: where it is, all is there.
    for place in reversed(range(len(pieces))):
        with atomic(_piece(path, place)) as stream:
            stream.write(pieces[place])
    return stayed


def _piece(path: Path, place: int) -> Path:
    return path.with_name(f"{path.name}.{place}") if place else path


def _further(path: Path) -> list[Path]:
    """The pieces behind the first, as far as they follow one another."""
    found: list[Path] = []
    while (piece := _piece(path, len(found) + 1)).exists():
        found.append(piece)
    return found


def unpack(path: Path, folders: Mapping[str, Path]) -> list[Path]:
    """Put what ``pack`` wrote into folders; a file there that is newer stays. Returns the files that were written."""
    written = []
    if not path.is_file():
        raise FileNotFoundError(f"unpack needs a file that pack wrote, got {str(path)!r}, which is none. Check the path.")
    try:
        content = b"".join(piece.read_bytes() for piece in (path, *_further(path)))
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            members = [member for member in archive.getmembers() if member.isfile()]
            targets = {member.name: _target(path, member.name, folders) for member in members}
            for member in members:
                target, stream = targets[member.name], archive.extractfile(member)
                if stream is None or (target.exists() and target.stat().st_mtime > member.mtime):
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                with atomic(target) as new:
                    new.write(stream.read())
                os.utime(target, (member.mtime, member.mtime))
                written.append(target)
    except tarfile.TarError as error:
        raise ValueError(f"unpack needs a file that pack wrote, got {str(path)!r}: {error}. Pack it again.") from error
    return written


def _target(path: Path, name: str, folders: Mapping[str, Path]) -> Path:
    top, *inside = PurePosixPath(name).parts
    if top not in folders or not inside or ".." in inside:
        raise ValueError(f"unpack needs files inside {', '.join(folders)}, got {name!r} in {str(path)!r}. Pack it again.")
    return folders[top].joinpath(*inside)
