"""A site's own quota tool: JSON, text on which a pattern has named groups, or the form of a known tool."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from watchdogd.errors import UnreadableError
from watchdogd.readers.quota import beegfs, gpfs, report, table, volume
from watchdogd.readers.quota.firstline import first_line
from watchdogd.readers.quota.limit import BYTES, INODES, Limit
from watchdogd.readers.quota.size import amount, limit

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = ("used_bytes", "limit_bytes", "used_inodes", "limit_inodes")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_OPENING = re.compile(r"^\s*[\[{]", re.MULTILINE)
_GPFS = re.compile(r":HEADER:|\bgrace\b.*\|.*\bdoubt\b|in_doubt")


def read(text: str, pattern: str | None, name: str, now: float) -> list[Limit]:
    """The limits that the tool called `name` printed: by `pattern`, else as quota(1), repquota, `lfs quota`,
    mmlsquota, beegfs-ctl, zfs, btrfs or getfattr print, since sites wrap those, several of them one after the
    other; else as JSON. UnreadableError with the offending line.
    """
    text = _COLOUR.sub("", text)
    return _told_apart(_limits(text, pattern, name, now))


def _told_apart(found: list[Limit]) -> list[Limit]:
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


def _limits(text: str, pattern: str | None, name: str, now: float) -> list[Limit]:
    if pattern:
        return read_text(text, pattern, name)
    found: list[Limit] = []
    known = True
    if report.fits(text):
        found += report.read(text, now=now)
    elif _GPFS.search(text):
        found += gpfs.read_quotas(text)
        rest = "\n".join(line for line in text.splitlines() if "|" not in line or "||" in line)
        found += _of_table(rest, now) if table.fits(rest) else []
    elif "Disk quotas for" in text:
        found += _of_table(text, now)
    else:
        known = False
    if beegfs.fits(text):
        found += beegfs.read_quotas(text, "")
    if volume.fits(text):
        found += volume.read(text)
    return found if found or known else read_json(text, name)


def _of_table(text: str, now: float) -> list[Limit]:
    return [each for row in table.read_rows(text, now=now) for each in row.limits]


def read_json(text: str, name: str) -> list[Limit]:
    """Limits of JSON objects with any of KEYS, one or several, also in a list, whatever lines stand about
    them. UnreadableError otherwise.
    """
    rows, is_json = [], False
    for answer in _documents(text):
        is_json = True
        rows += answer if isinstance(answer, list) else [answer]
    found = [one for row in rows if isinstance(row, dict) for one in _of_row(row, name)]
    if not is_json:
        line = first_line(text)
        raise UnreadableError(
            f"{name} printed no JSON and no form that is known: '{line}'; write a pattern for it"
        )
    if not found:
        raise UnreadableError(f"{name} printed none of {', '.join(KEYS)}: '{text.strip()[:200]}'")
    return found


def _documents(text: str) -> Iterator[Any]:
    """What begins a line as JSON; a banner may begin one with a bracket, too."""
    position = 0
    while begin := _OPENING.search(text, position):
        try:
            document, position = json.JSONDecoder().raw_decode(text, begin.end() - 1)
        except (ValueError, RecursionError):
            position = begin.end()
            continue
        yield document


def _of_row(row: dict[str, Any], name: str) -> list[Limit]:
    """Where only a limit is told, nothing is known of what is used. `updated_at` dates the figures."""
    found = []
    at = _date(row.get("updated_at"))
    for kind, unit in ((BYTES, "bytes"), (INODES, "inodes")):
        used, hard = row.get(f"used_{unit}"), row.get(f"limit_{unit}")
        if used is not None:
            whose = str(row.get("name") or f"quota by {name}")
            top = None if hard is None else limit(str(hard), base=1000)
            found.append(Limit(kind, whose, used=amount(str(used), base=1000), hard=top, at=at))
    return found


def _date(told: object) -> float | None:
    """Seconds since the epoch of such a number, or of ISO 8601 (without an offset: this machine's time)."""
    try:
        return float(str(told))
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(str(told).strip()).astimezone().timestamp()
    except ValueError:
        return None


def read_text(text: str, pattern: str, name: str) -> list[Limit]:
    """Limits of every match of `pattern` with the named groups used, limit, files, files_limit (and name,
    updated).

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
                top = limit(groups.get(hard, ""), base=1000)
                found.append(Limit(kind, whose, used=amount(groups[used], base=1000), hard=top, at=at))
    if not found:
        raise UnreadableError(
            f"pattern '{pattern}' matches nothing that {name} printed: '{first_line(text)}'"
        )
    return found
