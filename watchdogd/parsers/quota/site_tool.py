"""Output of a site's own quota tool: JSON, text with a pattern, or the format of a well-known tool."""

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
from watchdogd.parsers.quota.tool_output import ToolOutput, as_output, first_line, parse_amount, read_limit
from watchdogd.system.number import real

KEYS = ("used_bytes", "limit_bytes", "used_inodes", "limit_inodes")
_OPENING = re.compile(r"^[ \t]*+[\[{]", re.MULTILINE)
_TRIES = 200
"""How many line beginnings are tried as JSON before giving up."""
_GPFS = re.compile(r":HEADER:|\bgrace\b[^|\n]{0,99}\|.{0,200}\bdoubt\b|in_doubt")


def read(
    text: str | ToolOutput, pattern: str | None, name: str, now: float, row: str | None = None, unit: str = ""
) -> list[StorageLimit]:
    """Return the limits that the tool called `name` printed. Raise UnreadableError if nothing is understood.

    With `pattern`, the output is text for that pattern. Else it is read in the formats of quota(1), repquota,
    `lfs quota`, mmlsquota, beegfs-ctl, zfs, btrfs and getfattr, since sites wrap those (several of them in a
    row, too), else as JSON. `row` selects rows: it must match a line, a JSON object, or a name or path.
    `unit` is the unit of amounts without one, with `pattern`.
    """
    said = as_output(text)
    if pattern:
        said.know_all()
        found = read_text(said.text, pattern, name, row, parse_amount(f"1{unit}", base=1000))
    else:
        found = _limits(said, name, now, row)
    if row and not found:
        raise UnreadableError(f"row '{row}' matches nothing that {name} printed: '{first_line(said.text)}'")
    return _told_apart(found)


def _told_apart(found: list[StorageLimit]) -> list[StorageLimit]:
    """Give limits of the same name different names, by path or else by number: each has its own history."""
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


def _limits(said: ToolOutput, name: str, now: float, row: str | None) -> list[StorageLimit]:
    found: list[StorageLimit] = []
    known = False
    for fits, reader in _FORMS:
        if fits(said):
            found += reader(said, now)
            known = True
    if not known:
        return read_json(said, name, row)
    words = [f"{each.of} {each.path} {each.fileset}" for each in found]
    return [each for each, of in zip(found, words, strict=True) if row is None or re.search(row, of)]


_FORMS: tuple[
    tuple[Callable[[ToolOutput], object], Callable[[ToolOutput, float], list[StorageLimit]]], ...
] = (
    (lambda said: repquota.fits(said.text), lambda said, now: repquota.read(said, now=now)),
    (lambda said: _GPFS.search(said.text), lambda said, _: gpfs.read_quotas(said)),
    (lambda said: beegfs.fits(said.text), lambda said, _: beegfs.read_quotas(said, "")),
    (lambda said: zfs_btrfs_ceph.fits(said.text), lambda said, _: zfs_btrfs_ceph.read(said)),
    (lfs_quota.fits, lfs_quota.read_limits),
)
"""Pairs of a test for a format and its reader. A reader does not see lines that an earlier one has
understood."""


def read_json(text: str | ToolOutput, name: str, row: str | None = None) -> list[StorageLimit]:
    """Return the limits of JSON objects that have any of KEYS. Raise UnreadableError if there is none.

    There may be one object, several, or a list of them, among other lines. An object without any of the keys,
    or with a value that is not an amount, counts as missed.
    """
    said = as_output(text)
    found: list[StorageLimit] = []
    is_json = False
    for answer, lines in _documents(said.text):
        is_json = True
        said.know(*lines)
        for each in answer if isinstance(answer, list) else [answer]:
            if row is not None and not re.search(row, json.dumps(each, ensure_ascii=False)):
                continue
            try:
                limits = _of_row(each, name) if isinstance(each, dict) else []
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
    if not found and row is None:
        raise UnreadableError(f"{name} printed none of {', '.join(KEYS)}: '{said.text.strip()[:200]}'")
    return found


def _documents(text: str) -> Iterator[tuple[Any, range]]:
    """Yield each JSON document that begins a line, with its lines; a `[` or `{` in a banner is skipped."""
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
    """Return the limits of an object that has figures; `updated_at` is their date."""
    found = []
    at = _date(row.get("updated_at"))
    for kind, unit in ((BYTES, "bytes"), (INODES, "inodes")):
        used, hard = row.get(f"used_{unit}"), row.get(f"limit_{unit}")
        if used is not None:
            whose, path = str(row.get("name") or f"quota by {name}"), str(row.get("path") or "")
            top, low = (None if cell is None else str(cell) for cell in (hard, row.get(f"soft_{unit}")))
            grace = str(row.get(f"grace_{unit}") or "")
            limit = read_limit(kind, whose, str(used), top, low or "", base=1000, path=path, at=at)
            found.append(_graced(limit, grace))
    return found


def _date(value: object) -> float | None:
    """Return seconds since the epoch, from that number or from ISO 8601 (local time without an offset)."""
    seconds = real(value)
    if seconds is not None:
        return seconds
    try:
        return datetime.fromisoformat(str(value).strip()).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _graced(limit: StorageLimit, grace: str) -> StorageLimit:
    """Return the limit with its grace period, as the tool prints it: what is left, or that it has expired."""
    if grace.lower() in ("", "-", "--", "0", "n/a", "none") and limit.soft is not None:
        return replace(limit, expired=grace.lower() == "none" and limit.used > limit.soft)
    over = grace.lower() in ("expired", "none")
    return replace(limit, grace="" if over else grace, expired=over) if limit.soft is not None else limit


def read_text(
    text: str, pattern: str, name: str, row: str | None = None, bare: float = 1.0
) -> list[StorageLimit]:
    """Return the limits of every match of `pattern` (if `row` is given, of those whose lines match it).

    The pattern's named groups are used, limit, soft and grace, the same with the prefix files_ (and files for
    used), name, and updated. `k` and `T` are powers of 1000, `KiB` and `TiB` of 1024. A blank or unknown
    group is ignored. Raise UnreadableError if nothing matches or a group is not an amount.
    """
    found = []
    for match in re.finditer(pattern, text, re.MULTILINE):
        begin, end = text.rfind("\n", 0, match.start() + 1) + 1, text.find("\n", match.end())
        if row and not re.search(row, text[begin : end if end >= 0 else None]):
            continue
        groups = {key: (value or "").strip() for key, value in match.groupdict().items()}
        whose = groups.get("name") or f"quota by {name}"
        at = _date(groups.get("updated"))
        for kind, used, more in ((BYTES, "used", ""), (INODES, "files", "files_")):
            if groups.get(used) and groups[used].lower() not in ("-", "unknown", "none"):
                hard, soft = groups.get(f"{more}limit"), groups.get(f"{more}soft", "")
                limit = read_limit(kind, whose, groups[used], hard, soft, bare=bare, base=1000, at=at)
                found.append(_graced(limit, groups.get(f"{more}grace", "")))
    if not found and not row:
        raise UnreadableError(
            f"pattern '{pattern}' matches nothing that {name} printed: '{first_line(text)}'"
        )
    return found
