"""A site's own quota tool: JSON, text on which a pattern has named groups, or the form of a known tool."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from watchdogd.errors import UnreadableError
from watchdogd.parsers.quota import beegfs, gpfs, lfs_quota, repquota, zfs_btrfs_ceph
from watchdogd.parsers.quota.models import BYTES, INODES, StorageLimit
from watchdogd.parsers.quota.tool_output import ToolOutput, as_output, first_line, read_limit
from watchdogd.system.number import real

KEYS = ("used_bytes", "limit_bytes", "used_inodes", "limit_inodes")
_OPENING = re.compile(r"^[ \t]*+[\[{]", re.MULTILINE)
_TRIES = 200
"""Beginnings that turned out to be no JSON, before no more are tried."""
_GPFS = re.compile(r":HEADER:|\bgrace\b[^|\n]{0,99}\|.{0,200}\bdoubt\b|in_doubt")


def read(text: str | ToolOutput, pattern: str | None, name: str, now: float) -> list[StorageLimit]:
    """Return the limits that the tool called `name` printed. UnreadableError where nothing is understood.

    They are read by `pattern`, else as quota(1), repquota, `lfs quota`, mmlsquota, beegfs-ctl, zfs, btrfs or
    getfattr print, since sites wrap those, several of them one after the other; else as JSON.
    """
    return _told_apart(_limits(as_output(text), pattern, name, now))


def _told_apart(found: list[StorageLimit]) -> list[StorageLimit]:
    """Several limits of one name are told apart by paths, else numbered: each has a history of its own."""
    seen = Counter[tuple[str, str]]()
    numbered = []
    places = {(each.kind, each.of): set[str]() for each in found}
    for each in found:
        places[each.kind, each.of].add(each.path)
    for each in found:
        if each.path and len(places[each.kind, each.of]) > 1:
            numbered.append(replace(each, of=f"{each.of} on {each.path}"))
            continue
        seen[each.kind, each.of] += 1
        count = seen[each.kind, each.of]
        numbered.append(replace(each, of=f"{each.of}, number {count}") if count > 1 else each)
    return numbered


def _limits(said: ToolOutput, pattern: str | None, name: str, now: float) -> list[StorageLimit]:
    if pattern:
        said.know_all()
        return read_text(said.text, pattern, name)
    found: list[StorageLimit] = []
    known = False
    for fits, reader in _FORMS:
        if fits(said):
            found += reader(said, now)
            known = True
    return found if known else read_json(said, name)


_FORMS: tuple[
    tuple[Callable[[ToolOutput], object], Callable[[ToolOutput, float], list[StorageLimit]]], ...
] = (
    (lambda said: repquota.fits(said.text), lambda said, now: repquota.read(said, now=now)),
    (lambda said: _GPFS.search(said.text), lambda said, _: gpfs.read_quotas(said)),
    (lambda said: beegfs.fits(said.text), lambda said, _: beegfs.read_quotas(said, "")),
    (lambda said: zfs_btrfs_ceph.fits(said.text), lambda said, _: zfs_btrfs_ceph.read(said)),
    (lfs_quota.fits, lfs_quota.read_limits),
)
"""Whether an output has a form, and what reads it. Lines that one has understood the next does not see."""


def read_json(text: str | ToolOutput, name: str) -> list[StorageLimit]:
    """Return the limits of JSON objects with any of KEYS. UnreadableError where there is none.

    One or several may come, also in a list, whatever lines stand about them. An object that has none of the
    keys, or no amount there, is missed.
    """
    said = as_output(text)
    found: list[StorageLimit] = []
    is_json = False
    for answer, lines in _documents(said.text):
        is_json = True
        said.know(*lines)
        for row in answer if isinstance(answer, list) else [answer]:
            try:
                limits = _of_row(row, name) if isinstance(row, dict) else []
            except UnreadableError:
                limits = []
            found += limits
            if not limits:
                said.miss(*lines)
    if not is_json:
        line = first_line(said.text)
        raise UnreadableError(
            f"{name} printed no JSON and no form that is known: '{line}'; write a pattern for it"
        )
    if not found:
        raise UnreadableError(f"{name} printed none of {', '.join(KEYS)}: '{said.text.strip()[:200]}'")
    return found


def _documents(text: str) -> Iterator[tuple[Any, range]]:
    """Yield what begins a line as JSON, with its lines; a banner may begin one with a bracket, too."""
    position = line = failed = 0
    while failed < _TRIES and (begin := _OPENING.search(text, position)):
        line += text.count("\n", position, begin.end())
        position = begin.end()
        try:
            document, end = json.JSONDecoder().raw_decode(text, position - 1)
        except (ValueError, RecursionError):
            failed += 1
            continue
        last = line + text.count("\n", position, end)
        yield document, range(line, last + 1)
        line, position = last, end


def _of_row(row: dict[str, Any], name: str) -> list[StorageLimit]:
    """Return the limits of a row that says what is used; `updated_at` dates the figures."""
    found = []
    at = _date(row.get("updated_at"))
    for kind, unit in ((BYTES, "bytes"), (INODES, "inodes")):
        used, hard = row.get(f"used_{unit}"), row.get(f"limit_{unit}")
        if used is not None:
            whose, path = str(row.get("name") or f"quota by {name}"), str(row.get("path") or "")
            top = None if hard is None else str(hard)
            found.append(read_limit(kind, whose, str(used), top, base=1000, path=path, at=at))
    return found


def _date(value: object) -> float | None:
    """Seconds since the epoch of such a number, or of ISO 8601 (without an offset: this machine's time)."""
    seconds = real(value)
    if seconds is not None:
        return seconds
    try:
        return datetime.fromisoformat(str(value).strip()).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def read_text(text: str, pattern: str, name: str) -> list[StorageLimit]:
    """Return the limits of every match of `pattern`.

    Its named groups are used, limit, files, files_limit, and name and updated.
    `k` and `T` are powers of 1000, `KiB` and `TiB` of 1024. UnreadableError where nothing matches, or a
    group is no amount; a group that is blank or unknown says nothing.
    """
    found = []
    for match in re.finditer(pattern, text, re.MULTILINE):
        groups = {key: (value or "").strip() for key, value in match.groupdict().items()}
        whose = groups.get("name") or f"quota by {name}"
        at = _date(groups.get("updated"))
        for kind, used, hard in ((BYTES, "used", "limit"), (INODES, "files", "files_limit")):
            if groups.get(used) and groups[used].lower() not in ("-", "unknown", "none"):
                found.append(read_limit(kind, whose, groups[used], groups.get(hard), base=1000, at=at))
    if not found:
        raise UnreadableError(
            f"pattern '{pattern}' matches nothing that {name} printed: '{first_line(text)}'"
        )
    return found
