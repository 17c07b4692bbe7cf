"""Scalars of TensorBoard's event files as lines of text: `step 120 train/loss: 2.31`.

An event file is a row of records: length (8 bytes), its checksum (4), data, the data's checksum (4); the
data is an Event in protobuf's wire form (tensorflow/core/util/event.proto). Of it the step and the scalars
are read, no matter whether TensorFlow, PyTorch or tensorboardX wrote them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from itertools import islice

from watchdogd.readers import measures
from watchdogd.readers.lines import Line

HEAD, TAIL = 12, 4
"""Bytes before and behind a record's data."""
RECORD_AT_MOST = 256 << 20
TRIED = 20_000
"""Places that may be the beginning of a record, and are tried where reading begins amid one."""
_MAYBE = re.compile(rb"[\x00-\x10](?=\0{4})")
"""The fourth byte of a length below RECORD_AT_MOST: the four behind it are 0."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FLOAT, _DOUBLE = 1, 2


def read_events(data: bytes, *, timed: bool = False) -> tuple[list[Line], int]:
    """The scalars in `data`, each behind its time where they are to be `timed`, and how many of its bytes are
    done with. What is no record is passed over."""
    at = 0 if _is_head(data, 0) else _next_record(data, 0)
    lines: list[Line] = []
    while at + HEAD <= len(data):
        if not _is_head(data, at):
            at = _next_record(data, at + 1)
            continue
        (length,) = struct.unpack_from("<Q", data, at)
        end = at + HEAD + length + TAIL
        if end > len(data):
            break
        lines += _scalars(data[at + HEAD : end - TAIL], timed=timed)
        at = end
    return lines, min(at, len(data))


def _next_record(data: bytes, begin: int) -> int:
    """Where the next record begins, behind images or histograms of many megabytes, too; where none does, all
    is done with but what may be a cut beginning."""
    last = max(len(data) - HEAD + 1, begin)
    for maybe in islice(_MAYBE.finditer(data, begin + 3), TRIED):
        if _is_head(data, maybe.start() - 3):
            return maybe.start() - 3
    return last


def _is_head(data: bytes, at: int) -> bool:
    if at + HEAD > len(data):
        return False
    length, check = struct.unpack_from("<QI", data, at)
    return bool(length <= RECORD_AT_MOST and check == _checksum(data[at : at + 8]))


def _checksum(data: bytes) -> int:
    """The masked CRC-32C that TFRecord keeps."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _row(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_TABLE = tuple(_row(byte) for byte in range(256))


def _scalars(event: bytes, *, timed: bool) -> Iterator[Line]:
    step, time, values = 0, "", list[tuple[str, float]]()
    try:
        for field, kind, value in _fields(event):
            if field == 2 and kind == _VARINT and isinstance(value, int):
                step = value if value < 1 << 63 else 0
            elif field == 1 and kind == _FIXED64 and isinstance(value, bytes) and timed:
                time = f"{struct.unpack('<d', value)[0]:.0f} "
            elif field == 5 and isinstance(value, bytes):
                for number, _, each in _fields(value):
                    if number == 1 and isinstance(each, bytes):
                        values += _value(each)
    except (IndexError, struct.error):
        return  # what is no Event tells nothing
    for tag, told in values:
        yield Line(time + scalar(tag, step, f"{told:g}"))


def scalar(name: str, step: float | str, value: str) -> str:
    """A scalar as a line: only the loss's step is the training's for sure, the others may be a monitor's."""
    said = f"{name}: {value}"
    return f"step {step} {said}" if measures.find_loss(said) else f"{name} at {step}: {value}"


def _value(summary: bytes) -> Iterator[tuple[str, float]]:
    """The scalar of one Summary.Value, with its tag."""
    tag, found = "", None
    for field, kind, value in _fields(summary):
        if field == 1 and isinstance(value, bytes):
            tag = " ".join(value.decode("utf-8", "replace").split())[:100]
        elif field == 2 and kind == _FIXED32 and isinstance(value, bytes):
            (found,) = struct.unpack("<f", value)
        elif field == 8 and isinstance(value, bytes):
            found = _tensor(value)
    if tag and found is not None:
        yield tag, found


def _tensor(tensor: bytes) -> float | None:
    """A tensor that holds one float or double."""
    kind, content, floats = 0, b"", b""
    for field, _, value in _fields(tensor):
        if field == 1 and isinstance(value, int):
            kind = value
        elif field == 4 and isinstance(value, bytes):
            content = value
        elif field in (5, 6) and isinstance(value, bytes):
            floats = value
    form = {_FLOAT: "<f", _DOUBLE: "<d"}.get(kind)
    held = content or floats
    if form is None or len(held) != struct.calcsize(form):
        return None
    value = struct.unpack(form, held)[0]
    return float(value)


def _fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """The fields of a message: number, wire type, and a number or bytes. IndexError where it is cut."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        field, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield field, kind, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            return
        if at + size > len(data):
            raise IndexError("a field is cut")
        yield field, kind, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise IndexError("a number without end")
