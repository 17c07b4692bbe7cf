"""Files of a training that are no lines for people: their records as such lines.

TensorBoard's event files, CSV files with a header (Lightning's CSVLogger), MLflow's metric files, and the
`log_history` of a Hugging Face `trainer_state.json`. JSON lines and logfmt are read as they are.
"""

from __future__ import annotations

import csv
import json
import os

from watchdogd.readers.lines import Line, read_lines
from watchdogd.readers.tfevents import read_events
from watchdogd.system import number
from watchdogd.system.document import document

HEADER = 8192
"""Bytes of a CSV file in which its header ends."""
STATE = "trainer_state.json"
LAST = 50
"""Last records of a state that are taken as lines."""


def is_whole(path: str) -> bool:
    """Whether a file is written anew each time, so that all of it has to be read."""
    return os.path.basename(path) == STATE


def is_text(path: str) -> bool:
    """Whether a file is one of lines that may go on."""
    name = os.path.basename(path)
    return ".tfevents." not in name and not is_whole(path) and not name.endswith(".csv")


def read(path: str, data: bytes) -> tuple[list[Line], int]:
    """The lines of `data`, new bytes of the file, and how many of them are done with. OSError where a header
    cannot be read."""
    name = os.path.basename(path)
    if ".tfevents." in name:
        return read_events(data)
    if is_whole(path):
        return _history(data), len(data)
    lines, done = read_lines(data)
    if name.endswith(".csv"):
        return _rows(lines, _header(path)), done
    if os.path.basename(os.path.dirname(path)) == "metrics":
        return [_metric(name, line) for line in lines], done
    return lines, done


def _header(path: str) -> list[str]:
    with open(path, "rb") as file:
        lines = file.read(HEADER).splitlines() or [b""]  # as `read_lines` cuts them: \r ends one, too
    names = next(csv.reader([lines[0].decode("utf-8-sig", "replace")]), [])
    return names if len(names) > 1 and all(number.real(name) is None for name in names) else []


def _rows(lines: list[Line], names: list[str]) -> list[Line]:
    """Rows as `name: value` each; what does not fit the header stays as it is."""
    found = []
    for line in lines:
        cells = next(csv.reader([line.text]), [])
        if names and not line.open and len(cells) == len(names) and cells != names:
            pairs = ((name, cell) for name, cell in zip(names, cells, strict=True) if cell.strip())
            found.append(Line(", ".join(f"{name.strip()}: {cell.strip()}" for name, cell in pairs)))
        else:
            found.append(line)
    return found


def _metric(name: str, line: Line) -> Line:
    """MLflow's `TIME VALUE STEP`, in a file that bears the metric's name."""
    parts = line.text.split()
    return line._replace(text=f"step {parts[2]} {name}: {parts[1]}") if len(parts) == 3 else line


def _history(data: bytes) -> list[Line]:
    try:
        state = document(data)
    except ValueError:
        return []  # it is being written
    history = state.get("log_history") if isinstance(state, dict) else None
    records = [each for each in history if isinstance(each, dict)] if isinstance(history, list) else []
    return [Line(json.dumps(each)[:1000]) for each in records[-LAST:]]
