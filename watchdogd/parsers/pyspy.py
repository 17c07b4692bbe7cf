"""Output of `py-spy dump` (0.1 to 0.4), as text or JSON, of one or several processes, and its errors.

The text may be embedded in another log, lack its beginning, or have lost its line breaks. An error may be
followed by a backtrace of py-spy itself, which is skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from watchdogd.parsers.stack_models import Frame, StackDump, StackTrouble, Thread
from watchdogd.system.number import digits, needed, whole
from watchdogd.system.text import split_lines

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_PROCESS = re.compile(r"\s*Process (?P<pid>\d+): .*")
_RAY = re.compile(r"Stack dump for \S++\s++(?P<pid>\d++)(?:\s++\S++){8}\s++.*")
_PYTHON = re.compile(r"\s*Python v\S+(?: \(.*\))?\s*")
_THREAD = re.compile(
    r'\s*Thread (?P<id>0x[0-9A-Fa-f]+|\d+) \((?:idle|active)(?:\+gil)?\)(?:: "(?P<name>[^"]*)")?'
)
_FRAME = re.compile(r"(?P<function>.+?) \((?P<file>[^()]*?)(?::(?P<line>\d+))?\)")
_PLAIN = re.compile(r"[\w:~<>.*&]+")
_BACKTRACE = re.compile(r"\s*stack backtrace:", re.IGNORECASE)
_JSON = re.compile(r"^[ \t]*+\[\s*+(?:\{|\])", re.MULTILINE)
_LOCALS = 8
"""A line indented by this much or more is a variable of --locals, not a frame."""
_COUNTS = re.compile(r"Samples: (\d+) Errors: (\d+)")

_ERROR = re.compile(r"^(?:Error ?:|Permission Denied|Reason ?:|\[\S+ WARN .*Failed to get stack trace)", re.M)
_TROUBLES = (
    ("native", "Failed to merge native and python frames", "try again without --native"),
    ("permission", "Permission Denied|EPERM|Operation not permitted|EACCES|os error 13|os error 1\\b",
     "py-spy may not attach here (ptrace_scope, or a container without CAP_SYS_PTRACE): let the training's"
     " Guard write its stacks"),
    ("container", "Failed to parse python binary|Failed to open .*/root/|setting namespace .*\n.*Error",
     "the process runs in a container: run py-spy inside it, or let the training's Guard write its stacks"),
    ("gone", "Failed to get process executable name|No such process|os error 3\\b",
     "the process has ended, or is a zombie"),
    ("not python", "Failed to find python version|Failed to find a? ?python interpreter|couldn't find python",
     "it is no Python, or one newer than this py-spy knows"),
    ("unreadable", "No such file or directory",
     "the process lives, but its Python cannot be read from here: replaced while it ran, or in a container"),
    ("suspend", "Failed to suspend process", "it could not be stopped for a look: dead, traced, or stuck"),
    ("not a terminal", "Not a tty", "use py-spy dump, not top"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PyspyAnswer:
    """The processes in one output, or why there are none."""

    dumps: tuple[StackDump, ...] = ()
    trouble: StackTrouble | None = None


def read(text: str, errors: str = "") -> PyspyAnswer:
    """Read py-spy's stdout and stderr. Never raise: output that makes no sense gives no dumps."""
    text = _ESCAPE.sub("", text)
    dumps = tuple(_json(text) or _text(text))
    said = text + "\n" + _ESCAPE.sub("", errors)
    found = None if any(thread.frames for dump in dumps for thread in dump.threads) else _trouble(said)
    return PyspyAnswer(() if found else dumps, found)


def _json(text: str) -> list[StackDump]:
    """Read the output of `--json`, grouped by process; log lines may precede it."""
    for begin in _JSON.finditer(text):
        try:
            entries, _ = json.JSONDecoder().raw_decode(text, begin.start() + begin.group().index("["))
            threads = [(needed(whole(entry["pid"])), _json_thread(entry)) for entry in entries]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
        return [
            StackDump(pid, tuple(thread for number, thread in threads if number == pid))
            for pid in dict.fromkeys(number for number, _ in threads)
        ]
    return []


def _json_thread(entry: dict[str, Any]) -> Thread:
    return Thread(
        id=str(entry.get("thread_id", "")),
        os_id=whole(entry.get("os_thread_id")),
        name=str(entry.get("thread_name") or ""),
        frames=tuple(
            Frame(
                str(frame["name"]),
                str(frame.get("short_filename") or frame.get("filename") or ""),
                whole(frame.get("line")) or None,
                str(frame.get("filename") or ""),
            )
            for frame in entry["frames"]
        ),
    )


def _text(text: str) -> list[StackDump]:
    """Read the text format. A blank line ends nothing, since some versions separate threads by one."""
    dumps: list[StackDump] = []
    own_backtrace = False
    for line in _lines(text):
        own_backtrace = bool(_BACKTRACE.match(line)) or (own_backtrace and bool(line.strip()))
        if own_backtrace:
            continue
        if header := _PROCESS.fullmatch(line) or _RAY.fullmatch(line):
            dumps.append(StackDump(digits(header["pid"])))
        elif _PYTHON.fullmatch(line):
            continue
        elif thread := _THREAD.fullmatch(line):
            _add_thread(dumps, thread)
        elif frame := _frame(line, bool(dumps and dumps[-1].threads)):
            _add_frame(dumps, frame)
    return [dump for dump in dumps if dump.threads]


def _lines(text: str) -> Iterator[str]:
    """Yield the lines, after splitting those in which `Python v`, `Thread` and frames were joined."""
    for line in split_lines(text):
        parted = re.sub(r"(?<=\S)\s+(?=Python v\d[\w.+]* \(|Thread (?:0x[0-9A-Fa-f]+|\d+) \()", "\n", line)
        for part in parted.split("\n"):
            thread = _THREAD.match(part.rstrip())
            rest = part[thread.end() :].strip() if thread else ""
            if thread and rest and "(" in rest:
                yield thread.group()
                yield from ("    " + match.group() for match in re.finditer(r"(?<!\S)\S++ \([^()]*+\)", rest))
            else:
                yield part.rstrip()


def _add_thread(dumps: list[StackDump], match: re.Match[str]) -> None:
    if not dumps:
        dumps.append(StackDump())
    thread = Thread(match["id"], whole(match["id"]), match["name"] or "")
    dumps[-1] = replace(dumps[-1], threads=(*dumps[-1].threads, thread))


def _frame(line: str, in_thread: bool) -> Frame | None:
    """Read a frame; outside of a thread only one with file and line, since other logs are indented too."""
    indent = len(line) - len(line.lstrip())
    if not 0 < indent < _LOCALS:
        return None
    words = line.strip()
    match = _FRAME.fullmatch(words)
    if match and (in_thread or match["line"]):
        number = digits(match["line"]) if match["line"] else None
        return Frame(match["function"], match["file"].replace("?", ""), number)
    return Frame(words) if in_thread and _PLAIN.fullmatch(words) and words.strip(".") else None


def _add_frame(dumps: list[StackDump], frame: Frame) -> None:
    if not dumps or not dumps[-1].threads:
        dumps[-1:] = [replace(dumps[-1] if dumps else StackDump(), threads=(Thread(),))]
    *before, last = dumps[-1].threads
    dumps[-1] = replace(dumps[-1], threads=(*before, replace(last, frames=(*last.frames, frame))))


def _trouble(said: str) -> StackTrouble | None:
    """Return the error that py-spy reports; None if it reports none."""
    counts = _COUNTS.search(said)
    if counts and digits(counts[2]) > digits(counts[1]):
        line = f"{counts[2]} errors for {counts[1]} samples"
        return StackTrouble("suspend", line, "what was sampled is not to be trusted")
    if not _ERROR.search(said):
        return None
    kind, advice = next(
        ((kind, advice) for kind, words, advice in _TROUBLES if re.search(words, said)), ("unknown", "")
    )
    return StackTrouble(kind, _said(said), advice)


def _said(said: str) -> str:
    """Return the line of the error without its time, with the first reason if py-spy gives one."""
    lines = [re.sub(r"^\[\S+ WARN\s+\S+\] |^Error ?: |^.*(?=Permission Denied)", "", line).strip()
             for line in split_lines(said) if _ERROR.match(line)]  # fmt: skip
    line = lines[0]
    if line.startswith("Permission Denied"):
        line = "Permission Denied"  # what follows is about sudo, which clusters do not have
    reasons = [reason for reason in lines[1:] if reason.startswith("Reason")]
    return f"{line} ({reasons[0].partition(':')[2].strip()})" if reasons else line
