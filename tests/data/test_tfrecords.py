"""Records of TensorFlow, against writers that know the format from elsewhere: the record writer of TensorBoard, and protobuf."""

import random
import struct

import numpy as np
import pytest

from mdpf.data import tfrecords
from mdpf.data.tfrecords import BadRecordError, Record


def slow_checksum(content):
    """CRC-32C bit by bit."""
    register = 0xFFFFFFFF
    for byte in content:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 100, 999, 1024, 4097])
def test_checksums_are_right_however_they_are_cut(length):
    content = random.Random(length).randbytes(length)
    assert tfrecords.crc32c(content) == slow_checksum(content)


def test_records_come_back_as_they_were_written(records, tmp_path):
    contents = [b"", b"one", random.Random(0).randbytes(5000)]
    found = list(tfrecords.read(records.write(tmp_path / "file", *contents)))
    assert found == [Record(number, content) for number, content in enumerate(contents)]


def test_features_of_every_kind_are_read(records):
    features = tfrecords.parse(
        Record(
            0, records.example(name=[b"home"], pictures=[b"\x00\xff", b"", b"x" * 300], numbers=[1.5, -2.0], counts=[3, -1, 2**40])
        )
    )
    assert features["name"] == [b"home"]
    assert features["pictures"] == [b"\x00\xff", b"", b"x" * 300]
    np.testing.assert_array_equal(features["numbers"], np.float32([1.5, -2.0]))
    np.testing.assert_array_equal(features["counts"], [3, -1, 2**40])
    assert tfrecords.parse(Record(0, b"")) == {}


def test_numbers_that_are_not_packed_are_read_too():
    # A value of its own field each, as old writers did: floats as field 1 of four bytes, integers as varints.
    floats = b"\x0d" + struct.pack("<f", 1.5) + b"\x0d" + struct.pack("<f", 2.5)
    message = b"\x0a\x01a\x12" + bytes([len(floats) + 2]) + b"\x12" + bytes([len(floats)]) + floats
    features = b"\x0a" + bytes([len(message)]) + message
    found = tfrecords.parse(Record(0, b"\x0a" + bytes([len(features)]) + features))
    np.testing.assert_array_equal(found["a"], [1.5, 2.5])


def test_a_damaged_record_is_named_and_those_behind_it_are_read(records, tmp_path):
    path = records.write(tmp_path / "file", b"first", b"second", b"third")
    content = bytearray(path.read_bytes())
    content[content.index(b"second")] ^= 1
    path.write_bytes(bytes(content))
    first, bad, third = tfrecords.read(path)
    assert (first, third) == (Record(0, b"first"), Record(2, b"third"))
    assert isinstance(bad, BadRecordError)
    assert bad.can_continue
    assert "record 1, needs content with its checksum" in str(bad)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[:4] + b"\x01" + content[5:], "record 0, needs a length with its checksum"),
        (lambda content: content[:-3], "record 1, needs a whole record, got the end of the file"),
        (lambda content: content + b"xy", "record 2, needs a whole record"),
        (lambda content: b"PNG but no records at all", "record 0, needs a length with its checksum"),
    ],
)
def test_where_nothing_can_be_found_any_more_reading_ends(records, tmp_path, damage, message):
    path = records.write(tmp_path / "file", b"first", b"second")
    path.write_bytes(damage(path.read_bytes()))
    *_, last = tfrecords.read(path)
    assert isinstance(last, BadRecordError)
    assert not last.can_continue
    assert message in str(last)


def test_a_file_that_is_not_there_is_said_so(tmp_path):
    with pytest.raises(FileNotFoundError, match="which is not there"):
        list(tfrecords.read(tmp_path / "nothing"))


@pytest.mark.parametrize("content", [b"\x0a\x05abc", b"\xff" * 12, b"\x0b", b"\x0a\x03\x0a\x01\x08", b"\x08"])
def test_content_that_is_no_example_is_refused_by_number(content):
    with pytest.raises(BadRecordError, match="Record 7 needs to hold an Example"):
        tfrecords.parse(Record(7, content))
