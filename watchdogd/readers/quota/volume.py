"""Quotas as `zfs userspace`, `zfs get`, `btrfs qgroup show` and, of CephFS, getfattr print them.

TYPE        NAME    USED  QUOTA  OBJUSED  OBJQUOTA
POSIX User  carol   95G   100G      812K      none

NAME       PROPERTY  VALUE  SOURCE
tank/home  used      95.0G  -
tank/home  quota     100G   local

qgroupid         rfer         excl     max_rfer     max_excl
0/257        95.00GiB     95.00GiB    100.00GiB         none

# file: mnt/cephfs/six
ceph.quota.max_bytes="100000000000"
ceph.dir.rbytes="99000000000"
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from watchdogd.readers.quota import ceph
from watchdogd.readers.quota.limit import BYTES, INODES, Limit
from watchdogd.readers.quota.size import amount, limit

if TYPE_CHECKING:
    from collections.abc import Iterator

_USERSPACE = re.compile(r"^TYPE\s+NAME\s+USED\s+QUOTA", re.MULTILINE)
_OWNED = re.compile(r"(?:POSIX|SMB) (\w+)\s+(\S+)\s+(\S+)\s+(\S+)(?:\s+(\S+)\s+(\S+))?")
_PROPERTIES = re.compile(r"^NAME\s+PROPERTY\s+VALUE", re.MULTILINE)
_PROPERTY = re.compile(r"(\S+)\s+(quota|refquota|used|referenced)\s+(\S+)")
_QGROUPS = re.compile(r"^\s*q?group_?id\b.*\brfer\b", re.IGNORECASE | re.MULTILINE)
_CEPH = re.compile(r'^(ceph\.(?:quota|dir)\.\w+)="?(\d+)"?$', re.MULTILINE)
_FILE = re.compile(r"^# file: (.*)$", re.MULTILINE)


def fits(text: str) -> bool:
    """Whether it is one of these."""
    return any(form.search(text) for form in (_USERSPACE, _PROPERTIES, _QGROUPS, _CEPH))


def read(text: str) -> list[Limit]:
    """The limits of all of them; what has none is told with what it uses. UnreadableError for no amount."""
    return [*_userspace(text), *_properties(text), *_qgroups(text), *_attributes(text)]


def _userspace(text: str) -> Iterator[Limit]:
    if not _USERSPACE.search(text):
        return
    for match in map(_OWNED.fullmatch, map(str.strip, text.splitlines())):
        if match:
            whose = f"quota of {match[1].lower()} {match[2]}"
            yield Limit(BYTES, whose, used=amount(match[3]), hard=limit(match[4]))
            if match[5] not in (None, "-"):
                yield Limit(INODES, whose, used=amount(match[5]), hard=limit(match[6]))


def _properties(text: str) -> Iterator[Limit]:
    """A dataset's `quota` counts what it and all below it have used, `refquota` its own data."""
    told: dict[str, dict[str, str]] = defaultdict(dict)
    if _PROPERTIES.search(text):
        for match in map(_PROPERTY.match, map(str.strip, text.splitlines())):
            if match:
                told[match[1]][match[2]] = match[3]
    for name, cells in told.items():
        for kind, used in (("quota", "used"), ("refquota", "referenced")):
            if kind in cells and used in cells:
                yield Limit(BYTES, f"{kind} of {name}", used=amount(cells[used]), hard=limit(cells[kind]))


def _qgroups(text: str) -> Iterator[Limit]:
    """Columns by their names: they differ with the options and the version."""
    names: list[str] = []
    for line in text.splitlines():
        cells = line.split()
        if _QGROUPS.match(line):
            names = [cell.lower() for cell in cells]
        elif names and cells and re.fullmatch(r"\d+/\d+", cells[0]):
            row = dict(zip(names, cells, strict=False))
            for used, hard in (("rfer", "max_rfer"), ("excl", "max_excl")):
                if top := limit(row.get(hard, "none")):
                    yield Limit(BYTES, f"quota of qgroup {cells[0]}", used=amount(row[used]), hard=top)


def _attributes(text: str) -> list[Limit]:
    found = {match[1]: match[2].encode() for match in _CEPH.finditer(text)}
    name = _FILE.search(text)
    return ceph.limits(f"/{name[1].strip('/')}" if name else "the directory", found)
