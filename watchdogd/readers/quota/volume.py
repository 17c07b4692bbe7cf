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

from watchdogd.readers.quota import ceph
from watchdogd.readers.quota.limit import BYTES, INODES, Limit, Owner
from watchdogd.readers.quota.output import Output, output
from watchdogd.readers.quota.size import amount, limit

_USERSPACE = re.compile(r"^TYPE\s+NAME\s+USED\s+QUOTA", re.MULTILINE)
_OWNED = re.compile(r"(?:POSIX|SMB) (\w+)\s+(\S+)\s+(\S+)\s+(\S+)(?:\s+(\S+)\s+(\S+))?")
_PROPERTIES = re.compile(r"^NAME\s+PROPERTY\s+VALUE", re.MULTILINE)
_PROPERTY = re.compile(r"(\S+)\s+(quota|refquota|used|referenced)\s+(\S+)")
_QGROUPS = re.compile(r"^[ \t]*+q?group_?id\b.*\brfer\b", re.IGNORECASE | re.MULTILINE)
_CEPH = re.compile(r'^(ceph\.(?:quota|dir)\.\w+)="?([0-9]+)"?$', re.MULTILINE)
_FILE = re.compile(r"# file: (.*)")


def fits(text: str) -> bool:
    """Whether it is one of these."""
    return any(form.search(text) for form in (_USERSPACE, _PROPERTIES, _QGROUPS, _CEPH))


def read(text: str | Output) -> list[Limit]:
    """The limits of all of them; what has none is told with what it uses. A row without amounts is missed."""
    said = output(text)
    return [*_userspace(said), *_properties(said), *_qgroups(said), *_attributes(said)]


def _userspace(said: Output) -> list[Limit]:
    found: list[Limit] = []
    if _USERSPACE.search(said.text):
        for line in said:
            if match := _OWNED.fullmatch(line.strip()):
                whose = Owner(match[1].lower(), match[2])
                with said.row():
                    found.append(Limit(BYTES, whose, used=amount(match[3]), hard=limit(match[4])))
                    if match[5] not in (None, "-"):
                        found.append(Limit(INODES, whose, used=amount(match[5]), hard=limit(match[6])))
    return found


def _properties(said: Output) -> list[Limit]:
    """A dataset's `quota` counts what it and all below it have used, `refquota` its own data."""
    told: dict[str, dict[str, float | None]] = defaultdict(dict)
    if _PROPERTIES.search(said.text):
        for line in said:
            if match := _PROPERTY.match(line.strip()):
                read = limit if match[2].endswith("quota") else amount
                with said.row():
                    told[match[1]][match[2]] = read(match[3])
    return [
        Limit(BYTES, f"{kind} of {name}", used=cells[used] or 0.0, hard=cells[kind], path=name)
        for name, cells in told.items()
        for kind, used in (("quota", "used"), ("refquota", "referenced"))
        if kind in cells and used in cells
    ]


def _qgroups(said: Output) -> list[Limit]:
    """Columns by their names: they differ with the options and the version."""
    found: list[Limit] = []
    names: list[str] = []
    for line in said:
        cells = line.split()
        if _QGROUPS.match(line):
            names = [cell.lower() for cell in cells]
            said.know()
        elif names and cells and re.fullmatch(r"[0-9]+/[0-9]+", cells[0]):
            row = dict(zip(names, cells, strict=False))
            with said.row():
                for used, hard in (("rfer", "max_rfer"), ("excl", "max_excl")):
                    if top := limit(row.get(hard, "none")):
                        held = amount(row.get(used, ""))
                        found.append(Limit(BYTES, f"quota of qgroup {cells[0]}", used=held, hard=top))
    return found


def _attributes(said: Output) -> list[Limit]:
    """Each file's attributes follow its name."""
    held: dict[str, dict[str, bytes]] = defaultdict(dict)
    name = ""
    for line in said:
        if match := _FILE.match(line):
            name = f"/{match[1].strip('/')}"
        elif match := _CEPH.match(line.strip()):
            held[name][match[1]] = match[2].encode()
            said.know()
    return [each for path, told in held.items() for each in ceph.limits(path, told)]
