"""Files that hold records instead of lines for people, read as if they were such lines.

TensorBoard's event files, tables with a header whatever their name (CSVLogger of Lightning and Keras),
MLflow's metric files, and documents that are rewritten each time: Hugging Face's `trainer_state.json` (its
`log_history`), W&B's summary. JSON lines and logfmt are read as they are.

Scalars in TensorBoard's event files become lines such as `step 120 train/loss: 2.31`. An event file is a
sequence of records: length (8 bytes), its checksum (4), data, the data's checksum (4). The data is an Event
in protobuf's wire format (tensorflow/core/util/event.proto), of which only the step and the scalars are read,
no matter whether TensorFlow, PyTorch or tensorboardX wrote them.
"""

from __future__ import annotations

import csv
import json
import os
import re
import struct
from collections.abc import Iterator
from itertools import islice
from typing import Any

from watchdogd.parsers.logs import measures
from watchdogd.parsers.logs.log_lines import LogLine, read_lines
from watchdogd.system import number
from watchdogd.system.smallfile import open_plain, parse_json

HEAD, TAIL = 12, 4
"""Bytes before and after a record's data."""
RECORD_AT_MOST = 256 << 20
TRIED = 20_000
"""How many places are tried as the beginning of a record if reading starts in the middle of one."""
_MAYBE = re.compile(rb"[\x00-\x10](?=\0{4})")
"""Fourth byte of a length below RECORD_AT_MOST; the next four bytes are 0."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FLOAT, _DOUBLE = 1, 2


def read_events(data: bytes, *, timed: bool = False) -> tuple[list[LogLine], int]:
    """Return the scalars in `data`, and how many of its bytes need not be read again.

    With `timed`, each line begins with its time. Anything that is not a record is skipped.
    """
    at = 0 if _is_head(data, 0) else _next_record(data, 0)
    lines: list[LogLine] = []
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
    """Find where the next record begins, even behind megabytes of images or histograms.

    If there is none, return the end, less what may be a cut beginning.
    """
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
    """Return the masked CRC-32C of TFRecord files."""
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


def _scalars(event: bytes, *, timed: bool) -> Iterator[LogLine]:
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
        return  # not an Event
    for tag, told in values:
        yield LogLine(time + scalar(tag, step, f"{told:g}"))


def scalar(name: str, step: float | str, value: str) -> str:
    """Return a scalar as a line; only a loss's step is surely the training's, others may be a monitor's."""
    said = f"{name}: {value}"
    return f"step {step} {said}" if measures.find_loss(said) else f"{name} at {step}: {value}"


def _value(summary: bytes) -> Iterator[tuple[str, float]]:
    """Yield the tag and the scalar of one Summary.Value."""
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
    """Return the value of a tensor that holds one float or double, else None."""
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
    """Yield a message's fields: number, wire type, and a number or bytes. Raise IndexError if it is cut."""
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


HEADER = 8192
"""Bytes at the beginning of a table that contain its header."""
TABLES = (".csv", ".tsv")
SEPARATORS = (",", "\t", ";")
_METRIC = re.compile(r"\d{13} \S+ \d+")
STATE = "trainer_state.json"
DOCUMENT_AT_MOST = 1 << 20
"""Bytes of a document that is rewritten each time."""
LAST, SHOWN = 50, 1000
"""LAST: how many records at the end of a document become lines. SHOWN: characters of each."""
_NONE = frozenset({"nan", "inf", "-inf", "none", "null", "na"})


def is_whole(path: str) -> bool:
    """Return True if the file is rewritten each time and must be read as a whole. May raise OSError."""
    return os.path.basename(path) == STATE or (path.endswith(".json") and _is_document(path))


def is_text(path: str) -> bool:
    """Return True if the file consists of lines and may grow."""
    name = os.path.basename(path)
    return ".tfevents." not in name and not name.endswith((".csv", ".json"))


def read(path: str, data: bytes, *, timed: bool = False) -> tuple[list[LogLine], int]:
    """Return the lines in `data`, new bytes of the file, and how many bytes need not be read again.

    With `timed`, records come with their times. Raise OSError if a header cannot be read.
    """
    if ".tfevents." in os.path.basename(path):
        return read_events(data, timed=timed)
    if is_whole(path):
        return _records(data), len(data)
    lines, done = read_lines(data)
    folder, _, name = path.rpartition("/metrics/")
    if folder and all(_METRIC.fullmatch(line.text) for line in lines if not line.open):
        return [_metric(name, line, timed=timed) for line in lines], done
    separator = _separator(path, lines)
    return (_rows(lines, separator, _header(path, separator)) if separator else lines), done


def _is_document(path: str) -> bool:
    """Return True if the file is one document, not one document a line."""
    with open(open_plain(path, follow=True), "rb") as file:
        data = file.read(DOCUMENT_AT_MOST + 1)
    if len(data) > DOCUMENT_AT_MOST:
        return False
    try:
        return isinstance(parse_json(data), dict | list)
    except ValueError:
        return False


def _separator(path: str, lines: list[LogLine]) -> str:
    """Return the separator of a table's cells, by file name or by its rows; empty if it is no table."""
    if path.endswith(TABLES):
        with open(open_plain(path, follow=True), "rb") as file:
            head = file.readline(HEADER).decode("utf-8", "replace")
        return max(SEPARATORS, key=head.count)
    rows = [line for line in lines[-2:] if not line.open]
    found = (each for each in SEPARATORS if rows and all(_is_row(line, each) for line in rows))
    return next(found, "")


def _is_row(line: LogLine, separator: str) -> bool:
    """Return True if a line is a row of numbers, some of which may be missing."""
    cells = line.text.split(separator)
    return len(cells) > 1 and any(cells) and all(not each.strip() or _is_number(each) for each in cells)


def _is_number(cell: str) -> bool:
    return number.real(cell.strip().strip('"')) is not None or cell.strip().lower() in _NONE


def _header(path: str, separator: str) -> list[str]:
    with open(open_plain(path, follow=True), "rb") as file:
        lines = file.read(HEADER).splitlines() or [b""]  # a \r ends a line too, as in `read_lines`
    names = next(csv.reader([lines[0].decode("utf-8-sig", "replace")], delimiter=separator), [])
    return names if len(names) > 1 and all(number.real(name) is None for name in names) else []


def _rows(lines: list[LogLine], separator: str, names: list[str]) -> list[LogLine]:
    """Rewrite each row as `name: value, ...`; a row that does not fit the header stays as it is."""
    found = []
    for line in lines:
        cells = next(csv.reader([line.text], delimiter=separator), [])
        if separator == "\t":  # empty cells at a line's end are missing
            cells += [""] * (len(names) - len(cells))
        if names and not line.open and len(cells) == len(names) and cells != names:
            pairs = ((name, cell) for name, cell in zip(names, cells, strict=True) if cell.strip())
            found.append(LogLine(", ".join(f"{name.strip()}: {cell.strip()}" for name, cell in pairs)))
        else:
            found.append(line)
    return found


def _metric(name: str, line: LogLine, *, timed: bool) -> LogLine:
    """Read a line `TIME VALUE STEP` of MLflow, whose file is named after the metric."""
    parts = line.text.split()
    if len(parts) != 3:
        return line
    at, value, step = parts
    return line._replace(text=f"{f'{at} ' if timed else ''}{scalar(name, step, value)}")


def _records(data: bytes) -> list[LogLine]:
    """Return a document's newest records: of a `log_history`, of a list, else the whole document as one."""
    try:
        told = parse_json(data)
    except ValueError:
        return []  # it is being written
    history = told.get("log_history") if isinstance(told, dict) else told
    if isinstance(history, list):
        return [LogLine(json.dumps(each)[:SHOWN]) for each in history[-LAST:] if isinstance(each, dict)]
    whole = dict(islice(_flat(told, ""), LAST)) if isinstance(told, dict) else {}
    return [LogLine(json.dumps(whole)[:SHOWN])] if whole else []


def _flat(told: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Flatten nested values under dotted names. A list of numbers becomes its length and its last number."""
    if isinstance(told, dict):
        for key, value in told.items():
            yield from _flat(value, f"{name}.{key}" if name else str(key))
    elif isinstance(told, list):
        if told and number.real(told[-1]) is not None:
            yield from ((f"{name} count", len(told)), (name, told[-1]))
    elif told is not None:
        yield name, told[:SHOWN] if isinstance(told, str) else told
