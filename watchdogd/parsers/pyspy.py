"""Output of `py-spy dump --json` (0.3 and later), and its errors.

Log lines may precede the stacks. An error may be followed by a backtrace of py-spy itself, which is skipped.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from watchdogd.parsers.stack_models import Frame, StackDump, StackTrouble, Thread
from watchdogd.system.number import needed, whole
from watchdogd.system.text import split_lines

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_JSON = re.compile(r"^[ \t]*+\[\s*+(?:\{|\])", re.MULTILINE)
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
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PyspyAnswer:
    """The processes in one output, or why there are none."""

    dumps: tuple[StackDump, ...] = ()
    trouble: StackTrouble | None = None


def read(text: str, errors: str = "") -> PyspyAnswer:
    """Read py-spy's stdout and stderr. Never raise: output that makes no sense gives no dumps."""
    text = _ESCAPE.sub("", text)
    dumps = tuple(_dumps(text))
    said = text + "\n" + _ESCAPE.sub("", errors)
    found = None if any(thread.frames for dump in dumps for thread in dump.threads) else _trouble(said)
    return PyspyAnswer(() if found else dumps, found)


def _dumps(text: str) -> list[StackDump]:
    """Read the threads, grouped by process."""
    for begin in _JSON.finditer(text):
        try:
            entries, _ = json.JSONDecoder().raw_decode(text, begin.start() + begin.group().index("["))
            threads = [(needed(whole(entry["pid"])), _thread(entry)) for entry in entries]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
        return [
            StackDump(pid, tuple(thread for number, thread in threads if number == pid))
            for pid in dict.fromkeys(number for number, _ in threads)
        ]
    return []


def _thread(entry: dict[str, Any]) -> Thread:
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


def _trouble(said: str) -> StackTrouble | None:
    """Return the error that py-spy reports; None if it reports none."""
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
