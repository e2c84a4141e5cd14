"""Named arrays in one npz file, read without trusting it.

An npz file is a zip archive of npy files. numpy's own reader believes what such a file says of itself: it allocates what a header
declares and can be told to unpickle. Here every declaration is compared with what is really there before anything is allocated,
and only plain arrays are accepted.
"""

import ast
import math
import re
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from mdpf.data.atomic import atomic

MAX_BYTES = 8 * 2**30
"""What the arrays of one file may take in memory, unless the caller says otherwise."""

_MAX_RATIO = 256  # Recorded data shrink by less; a file that unfolds to more was made to.
_SMALL = 64 * 2**20  # Below this nobody needs protection from the ratio.
_MAX_ENTRIES = 1000
_MAX_HEADER = 10_000
_CHUNK = 16 * 2**20
_PLAIN = re.compile(r"[<>|=]?(?:b1|[iuf]\d{1,2}|[US]\d{1,7})")
_KNOWN_STARTS = {
    b"\x93NUMPY": "a single array (.npy); save several by name with np.savez",
    b"\x89HDF": "an HDF5 file; load it and save its arrays with np.savez",
    b"\x80": "a pickle; nothing executable is loaded",
    b"PK": "the beginning of a zip archive without its end; the file was cut short, copy it again",
    b"\x1f\x8b": "a gzip file; unpack it first",
}


class Arrays(NamedTuple):
    """What was read: the arrays asked for, and the names of the others."""

    arrays: dict[str, np.ndarray]
    others: tuple[str, ...]


def read_arrays(path: str | Path, names: Collection[str], *, max_bytes: int = MAX_BYTES) -> Arrays:
    """Read the arrays called ``names``, as far as they are there, from an npz file of unknown origin.

    Args:
        path: The file.
        names: Which arrays to load; others are named in the answer and not touched.
        max_bytes: What the loaded arrays may take in memory together.
    """
    path = Path(path)
    call = f"Reading {path.name!r}"
    _check_is_zip(call, path)
    with _damage(call), zipfile.ZipFile(path) as archive:
        entries = _entries(call, archive)
        wanted = {name: entry for name, entry in entries.items() if name in names}
        _check_sizes(call, wanted.values(), max_bytes)
        arrays = {name: _read_entry(f"{call}, array {name!r},", archive, entry) for name, entry in wanted.items()}
    return Arrays(arrays, tuple(name for name in entries if name not in names))


def write_arrays(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an npz file, complete or not at all; the same arrays give the same bytes."""
    with atomic(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            # A ZipInfo of our own carries a fixed date, where a plain name would carry the present time.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asanyarray(array), version=(1, 0), allow_pickle=False)


class _Refused(ValueError):
    """A file that is not damaged but not acceptable."""


@contextmanager
def _damage(call: str) -> Iterator[None]:
    """Turn whatever the zip machinery trips over into one message."""
    try:
        yield
    except _Refused as error:
        raise ValueError(str(error)) from error
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OverflowError, RuntimeError, LookupError, OSError) as error:
        raise ValueError(f"{call} needs an undamaged file, got {error}. Copy or write it again.") from error


def _check_is_zip(call: str, path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(f"{call} needs an npz file, got the folder {str(path)!r}. Name a file inside it.")
    if not path.is_file():
        raise FileNotFoundError(f"{call} needs a file, got {str(path)!r}, which is not there. Check the path.")
    try:
        with open(path, "rb") as stream:
            start = stream.read(8)
    except OSError as error:
        raise type(error)(f"{call} needs a readable file, got {error.strerror} for {str(path)!r}. Check its rights.") from error
    if not start:
        raise ValueError(
            f"{call} needs an npz file, got an empty file. Whatever should have written it did not finish; write it again."
        )
    if not zipfile.is_zipfile(path):
        found = next((text for magic, text in _KNOWN_STARTS.items() if start.startswith(magic)), None)
        raise ValueError(f"{call} needs an npz file, got {found or f'a file that starts with {start!r}; save it with np.savez'}.")


def _entries(call: str, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The npy files of the archive by array name; anything odd is refused."""
    entries: dict[str, zipfile.ZipInfo] = {}
    if len(archive.infolist()) > _MAX_ENTRIES:
        raise _Refused(f"{call} needs at most {_MAX_ENTRIES} arrays, got {len(archive.infolist())}. Save only the named ones.")
    for entry in archive.infolist():
        name = entry.filename.removesuffix(".npy")
        if re.search(r"[/\\:\x00]|^\.", entry.filename):
            raise _Refused(
                f"{call} needs plain array names, got the path {entry.filename!r}. Save the arrays by name with np.savez."
            )
        if name in entries:
            raise _Refused(f"{call} needs each array once, got {name!r} twice. Write the file again.")
        if entry.flag_bits & 1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _Refused(f"{call} needs plain or deflated arrays, got {name!r} encrypted or packed otherwise. Use np.savez.")
        entries[name] = entry
    return entries


def _check_sizes(call: str, entries: Collection[zipfile.ZipInfo], max_bytes: int) -> None:
    size = sum(entry.file_size for entry in entries)
    packed = sum(entry.compress_size for entry in entries)
    if size > max_bytes:
        raise _Refused(
            f"{call} needs arrays of at most {max_bytes / 2**20:,.0f} MiB, got {size / 2**20:,.0f} MiB. "
            "Split the file, or raise max_bytes if the memory is there."
        )
    if size > _SMALL and size > _MAX_RATIO * packed:
        raise _Refused(
            f"{call} needs data that unpack to at most {_MAX_RATIO} times their size, got {packed:,} bytes for {size:,}. "
            "It looks made to exhaust the memory; if it is yours, save it with np.savez instead of np.savez_compressed."
        )


def _read_entry(call: str, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(entry) as stream:
        dtype, fortran, shape = _read_header(call, stream)
        declared, there = math.prod(shape) * dtype.itemsize, entry.file_size - stream.tell()
        if declared != there:
            raise _Refused(
                f"{call} needs as many bytes as its header declares, got {there:,} for shape {list(shape)} of {dtype}, "
                f"which takes {declared:,}. The file was cut short or made by hand; write it again."
            )
        # With its last byte zipfile compares the checksum.
        content = np.empty(there, np.uint8)
        for start in range(0, there, _CHUNK):
            chunk = stream.read(min(_CHUNK, there - start))
            content[start : start + len(chunk)] = np.frombuffer(chunk, np.uint8)
    return content.view(dtype).reshape(shape, order="F" if fortran else "C")


def _read_header(call: str, stream: IO[bytes]) -> tuple[np.dtype, bool, tuple[int, ...]]:
    """Read the header of an npy file as a literal: nothing in it is executed or imported."""
    start = stream.read(10)
    if start[:6] != b"\x93NUMPY" or start[6:8] != b"\x01\x00":
        raise _Refused(f"{call} needs a plain npy array, got bytes that start with {start[:8]!r}. Save it with np.savez.")
    text = stream.read(min(int.from_bytes(start[8:10], "little"), _MAX_HEADER)).decode("latin1")
    try:
        header = ast.literal_eval(text.strip())
        kind, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError) as error:
        raise _Refused(f"{call} needs a readable header, got {text[:80]!r}. Write the file again.") from error
    if isinstance(kind, str) and kind.endswith("O"):
        raise _Refused(
            f"{call} needs numbers, got an array of Python objects, which only unpickling could load. Sequences of unequal length "
            "make such arrays: pad them to the longest and mark the frames that exist in `valid`."
        )
    if not (isinstance(kind, str) and _PLAIN.fullmatch(kind)):
        raise _Refused(f"{call} needs plain numbers, got the type {kind!r:.80}. Convert it with .astype(np.float32).")
    sizes_fit = isinstance(shape, tuple) and len(shape) <= 32 and all(type(size) is int and size >= 0 for size in shape)
    if not sizes_fit or not isinstance(fortran, bool):
        raise _Refused(f"{call} needs a shape of whole numbers, got {shape!r:.80}. Write the file again.")
    try:
        return np.dtype(kind), fortran, shape
    except TypeError as error:
        raise _Refused(f"{call} needs plain numbers, got the type {kind!r}. Convert it with .astype(np.float32).") from error
