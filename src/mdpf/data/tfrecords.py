"""Files of TensorFlow records, read without TensorFlow.

A record is its length (8 bytes), a checksum of these, the content, and a checksum of that (4 bytes each, CRC-32C, masked). The
content here is a protocol-buffer message ``Example``: named features, each a list of byte strings, of floats or of integers.
"""

import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

Feature = list[bytes] | np.ndarray

POLYNOMIAL = 0x82F63B78  # Of CRC-32C (Castagnoli), bits reversed.
MASK = 0xA282EAD8
LARGEST = 2**30  # Bytes of one record; a length beyond it is not one.
_LENGTH_BYTES, _CHECKSUM_BYTES = 8, 4
_ALONE = 64  # Bytes up to which a checksum is taken byte by byte.


class Record(NamedTuple):
    """One record of a file, counted from 0."""

    number: int
    content: bytes


class BadRecordError(ValueError):
    """A record that cannot be used; the ones after it may be, where ``can_continue``."""

    def __init__(self, message: str, *, can_continue: bool):
        super().__init__(message)
        self.can_continue = can_continue


def read(path: str | Path) -> Iterator[Record | BadRecordError]:
    """Go through the records of a file; in place of one that is damaged comes the error that says so.

    Where a length is damaged nothing behind it can be found, and the error is the last that comes.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"Reading records needs a file, got {str(path)!r}, which is not there. Check the path.")
    with open(path, "rb") as stream:
        number = 0
        while head := stream.read(_LENGTH_BYTES + _CHECKSUM_BYTES):
            call = f"Reading {path.name!r}, record {number},"
            if len(head) < _LENGTH_BYTES + _CHECKSUM_BYTES:
                yield _cut_short(call)
                return
            if not _agrees(head[:_LENGTH_BYTES], head[_LENGTH_BYTES:]):
                yield BadRecordError(
                    f"{call} needs a length with its checksum, got another checksum. The file is damaged here, or is no file of "
                    "records; nothing behind this place can be read. Copy it again.",
                    can_continue=False,
                )
                return
            (length,) = struct.unpack("<Q", head[:_LENGTH_BYTES])
            body = stream.read(min(length, LARGEST) + _CHECKSUM_BYTES)
            if len(body) < length + _CHECKSUM_BYTES:
                yield _cut_short(call)
                return
            if not _agrees(body[:-_CHECKSUM_BYTES], body[-_CHECKSUM_BYTES:]):
                yield BadRecordError(
                    f"{call} needs content with its checksum, got another checksum. The record is damaged; copy the file again, or "
                    "leave the record out with skip_bad=True.",
                    can_continue=True,
                )
            else:
                yield Record(number, body[:-_CHECKSUM_BYTES])
            number += 1


def parse(record: Record) -> dict[str, Feature]:
    """The features of an ``Example`` by name."""
    features: dict[str, Feature] = {}
    try:
        for _, content in _fields(record.content, wanted=1):
            for _, entry in _fields(_bytes(content), wanted=1):
                parts = dict(_fields(_bytes(entry)))
                features[_bytes(parts[1]).decode()] = _feature(_bytes(parts[2]))
    except (ValueError, KeyError, IndexError, struct.error) as error:
        raise BadRecordError(
            f"Record {record.number} needs to hold an Example, got {len(record.content)} bytes that are none ({error}). "
            "It was written for something else.",
            can_continue=True,
        ) from error
    return features


def crc32c(content: bytes) -> int:
    """The checksum CRC-32C.

    Long contents are cut into pieces that are worked on together; a checksum of two pieces follows from theirs.

    Example:
        >>> hex(crc32c(b"123456789"))
        '0xe3069283'
    """
    table = _table()
    pieces = max(1, int(len(content) ** 0.5)) if len(content) > _ALONE else 1
    length = len(content) // pieces
    head = np.frombuffer(content, np.uint8, pieces * length).reshape(pieces, length)
    sums = np.zeros(pieces, np.uint32)
    # What precedes the content stands for a register full of ones; only the first piece sees it.
    sums[0] = 0xFFFFFFFF
    for column in np.ascontiguousarray(head.T):
        sums = table[(sums ^ column) & 0xFF] ^ (sums >> np.uint32(8))
    total = int(sums[0])
    if pieces > 1:
        shift = _shift(length)
        for value in sums[1:].tolist():
            total = (
                shift[0][total & 0xFF] ^ shift[1][total >> 8 & 0xFF] ^ shift[2][total >> 16 & 0xFF] ^ shift[3][total >> 24]
            ) ^ value
    for byte in content[pieces * length :]:
        total = int(table[(total ^ byte) & 0xFF]) ^ total >> 8
    return total ^ 0xFFFFFFFF


@cache
def _table() -> np.ndarray:
    """What eight bits do to the register."""
    values = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        values = np.where(values & 1, (values >> np.uint32(1)) ^ np.uint32(POLYNOMIAL), values >> np.uint32(1))
    return values


@cache
def _shift(length: int) -> list[list[int]]:
    """What ``length`` bytes of zeros do to each byte of the register: it is linear, so their effects add up."""
    table = _table()
    values = np.concatenate([np.arange(256, dtype=np.uint32) << np.uint32(8 * place) for place in range(4)])
    for _ in range(length):
        values = table[values & 0xFF] ^ (values >> np.uint32(8))
    return [part.tolist() for part in values.reshape(4, 256)]


def masked(checksum: int) -> int:
    """A checksum as it is stored."""
    return ((checksum >> 15 | checksum << 17) + MASK) & 0xFFFFFFFF


def _agrees(content: bytes, stored: bytes) -> bool:
    return masked(crc32c(content)) == struct.unpack("<I", stored)[0]


def _cut_short(call: str) -> BadRecordError:
    return BadRecordError(
        f"{call} needs a whole record, got the end of the file. It was cut short; copy it again.", can_continue=False
    )


def _fields(content: bytes, wanted: int | None = None) -> Iterator[tuple[int, bytes | int]]:
    """The fields of a message: number and content, a number where it is one."""
    place = 0
    while place < len(content):
        key, place = _varint(content, place)
        number, kind = key >> 3, key & 7
        value: bytes | int
        if kind == 0:
            value, place = _varint(content, place)
        else:
            length = {1: 8, 5: 4}.get(kind)
            if kind == 2:
                length, place = _varint(content, place)
            if length is None or place + length > len(content):
                raise ValueError(f"a field of kind {kind} that does not fit")
            value, place = content[place : place + length], place + length
        if wanted is None or number == wanted:
            yield number, value


def _varint(content: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = content[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise ValueError("a number without an end")


def _feature(content: bytes) -> Feature:
    for number, values in _fields(content):
        if number == 1:
            return [_bytes(value) for _, value in _fields(_bytes(values), wanted=1)]
        if number == 2:
            return np.frombuffer(b"".join(_bytes(value) for _, value in _fields(_bytes(values), wanted=1)), "<f4")
        if number == 3:
            return np.array([whole for _, value in _fields(_bytes(values), wanted=1) for whole in _wholes(value)], np.int64)
    return []


def _wholes(value: bytes | int) -> Iterator[int]:
    """Integers of 64 bits, packed or alone; negative ones are stored as their complement."""
    place = 0
    packed = value if isinstance(value, bytes) else b""
    plain = [] if isinstance(value, bytes) else [value]
    while place < len(packed):
        whole, place = _varint(packed, place)
        plain.append(whole)
    for whole in plain:
        yield whole - 2**64 if whole >= 2**63 else whole


def _bytes(value: bytes | int) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where bytes are due")
    return value
