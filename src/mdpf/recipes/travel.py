"""Take a study to another machine and back: everything needed to go on, in one small file."""

import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from mdpf.data.atomic import atomic

LIMIT = 10 * 2**20  # Larger files stay: checkpoints of a large network, which is trained in one go.


def pack(path: Path, folders: Mapping[str, Path], *, limit: int = LIMIT) -> list[str]:
    """Write the files of some folders into one, each folder under a name of its own.

    Args:
        path: The file to write.
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
    with atomic(path) as stream:
        stream.write(content.getvalue())
    return stayed


def unpack(path: Path, folders: Mapping[str, Path]) -> list[Path]:
    """Put what ``pack`` wrote into folders; a file there that is newer stays. Returns the files that were written."""
    written = []
    try:
        with tarfile.open(path) as archive:
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
