"""Files of a training that are no lines for people: their records as such lines.

TensorBoard's event files, tables with a header whatever their name (Lightning's and Keras's CSVLogger),
MLflow's metric files, and documents that are written anew each time: the `log_history` of a Hugging Face
`trainer_state.json`, W&B's summary. JSON lines and logfmt are read as they are.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from watchdogd.readers.lines import Line, read_lines
from watchdogd.readers.tfevents import read_events, scalar
from watchdogd.system import number
from watchdogd.system.smallfile import parse_json

HEADER = 8192
"""Bytes of a table in which its header ends."""
TABLES = (".csv", ".tsv")
SEPARATORS = (",", "\t", ";")
_METRIC = re.compile(r"\d{13} \S+ \d+")
STATE = "trainer_state.json"
DOCUMENT_AT_MOST = 1 << 20
"""Bytes of a document that is written anew each time."""
LAST, SHOWN = 50, 1000
"""Last records of a document that are taken as lines, and letters of each."""
_NONE = frozenset({"nan", "inf", "-inf", "none", "null", "na"})


def is_whole(path: str) -> bool:
    """Whether a file is written anew each time, so that all of it has to be read. OSError where it cannot."""
    return os.path.basename(path) == STATE or (path.endswith(".json") and _is_document(path))


def is_text(path: str) -> bool:
    """Whether a file is one of lines that may go on."""
    name = os.path.basename(path)
    return ".tfevents." not in name and not name.endswith((".csv", ".json"))


def read(path: str, data: bytes, *, timed: bool = False) -> tuple[list[Line], int]:
    """The lines of `data`, new bytes of the file, and how many of them are done with; `timed`: with the times
    that records bear beside what they tell. OSError where a header cannot be read."""
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
    """Whether all of a file is one document, not one a line."""
    with open(path, "rb") as file:
        data = file.read(DOCUMENT_AT_MOST + 1)
    if len(data) > DOCUMENT_AT_MOST:
        return False
    try:
        return isinstance(parse_json(data), dict | list)
    except ValueError:
        return False


def _separator(path: str, lines: list[Line]) -> str:
    """What stands between the cells of a table, by its name or by its rows; empty: it is none."""
    if path.endswith(TABLES):
        with open(path, "rb") as file:
            head = file.readline(HEADER).decode("utf-8", "replace")
        return max(SEPARATORS, key=head.count)
    rows = [line for line in lines[-2:] if not line.open]
    found = (each for each in SEPARATORS if rows and all(_is_row(line, each) for line in rows))
    return next(found, "")


def _is_row(line: Line, separator: str) -> bool:
    """Whether a line is one of a table of numbers, of which some may be missing."""
    cells = line.text.split(separator)
    return len(cells) > 1 and any(cells) and all(not each.strip() or _is_number(each) for each in cells)


def _is_number(cell: str) -> bool:
    return number.real(cell.strip().strip('"')) is not None or cell.strip().lower() in _NONE


def _header(path: str, separator: str) -> list[str]:
    with open(path, "rb") as file:
        lines = file.read(HEADER).splitlines() or [b""]  # as `read_lines` cuts them: \r ends one, too
    names = next(csv.reader([lines[0].decode("utf-8-sig", "replace")], delimiter=separator), [])
    return names if len(names) > 1 and all(number.real(name) is None for name in names) else []


def _rows(lines: list[Line], separator: str, names: list[str]) -> list[Line]:
    """Rows as `name: value` each; what does not fit the header stays as it is."""
    found = []
    for line in lines:
        cells = next(csv.reader([line.text], delimiter=separator), [])
        if separator == "\t":  # empty ones at a line's end are cut off
            cells += [""] * (len(names) - len(cells))
        if names and not line.open and len(cells) == len(names) and cells != names:
            pairs = ((name, cell) for name, cell in zip(names, cells, strict=True) if cell.strip())
            found.append(Line(", ".join(f"{name.strip()}: {cell.strip()}" for name, cell in pairs)))
        else:
            found.append(line)
    return found


def _metric(name: str, line: Line, *, timed: bool) -> Line:
    """MLflow's `TIME VALUE STEP`, in a file that bears the metric's name."""
    parts = line.text.split()
    if len(parts) != 3:
        return line
    at, value, step = parts
    return line._replace(text=f"{f'{at} ' if timed else ''}{scalar(name, step, value)}")


def _records(data: bytes) -> list[Line]:
    """The newest records of a document: of a state's history, of a list; or all of it as one."""
    try:
        told = parse_json(data)
    except ValueError:
        return []  # it is being written
    history = told.get("log_history") if isinstance(told, dict) else told
    if isinstance(history, list):
        return [Line(json.dumps(each)[:SHOWN]) for each in history[-LAST:] if isinstance(each, dict)]
    whole = dict(islice(_flat(told, ""), LAST)) if isinstance(told, dict) else {}
    return [Line(json.dumps(whole)[:SHOWN])] if whole else []


def _flat(told: Any, name: str) -> Iterator[tuple[str, Any]]:
    """What is nested under names that tell the way to it; of a list of numbers its length, and the last."""
    if isinstance(told, dict):
        for key, value in told.items():
            yield from _flat(value, f"{name}.{key}" if name else str(key))
    elif isinstance(told, list):
        if told and number.real(told[-1]) is not None:
            yield from ((f"{name} count", len(told)), (name, told[-1]))
    elif told is not None:
        yield name, told[:SHOWN] if isinstance(told, str) else told
