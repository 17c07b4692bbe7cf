"""Quotas printed by `zfs userspace`, `zfs get`, `btrfs qgroup show`, and of CephFS by getfattr and getxattr.

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
from collections.abc import Mapping

from watchdogd.errors import UnreadableError
from watchdogd.parsers.quota.models import BYTES, INODES, Owner, StorageLimit
from watchdogd.parsers.quota.tool_output import ToolOutput, as_output, parse_amount, parse_limit, read_limit
from watchdogd.system.number import count

CEPH_ATTRIBUTES = (
    "ceph.quota.max_bytes",
    "ceph.quota.max_files",
    "ceph.dir.rbytes",
    "ceph.dir.rentries",
)


def ceph_limits(path: str, attributes: Mapping[str, bytes]) -> list[StorageLimit]:
    """Return the limits of a directory; 0 means none. Raise UnreadableError if a value is no number."""
    found = []
    for kind, maximum, used in (
        (BYTES, "ceph.quota.max_bytes", "ceph.dir.rbytes"),
        (INODES, "ceph.quota.max_files", "ceph.dir.rentries"),
    ):
        hard = _ceph_number(maximum, attributes)
        if hard:
            found.append(
                StorageLimit(
                    kind,
                    f"quota of {path or 'the directory'}",
                    used=_ceph_number(used, attributes),
                    hard=hard,
                    path=path,
                )
            )
    return found


def _ceph_number(name: str, attributes: Mapping[str, bytes]) -> float:
    text = attributes.get(name, b"0").decode("ascii", "replace").strip().strip('"')
    number = count(text)
    if number is None:
        raise UnreadableError(f"{name} is no number: '{text[:100]}'")
    return float(number)


_USERSPACE = re.compile(r"^TYPE\s+NAME\s+USED\s+QUOTA", re.MULTILINE)
_OWNED = re.compile(r"(?:POSIX|SMB) (\w+)\s+(\S+)\s+(\S+)\s+(\S+)(?:\s+(\S+)\s+(\S+))?")
_PROPERTIES = re.compile(r"^NAME\s+PROPERTY\s+VALUE", re.MULTILINE)
_PROPERTY = re.compile(r"(\S+)\s+(quota|refquota|used|referenced)\s+(\S+)")
_QGROUPS = re.compile(r"^[ \t]*+q?group_?id\b.*\brfer\b", re.IGNORECASE | re.MULTILINE)
_CEPH = re.compile(r'^(ceph\.(?:quota|dir)\.\w+)="?([0-9]+)"?$', re.MULTILINE)
_FILE = re.compile(r"# file: (.*)")


def fits(text: str) -> bool:
    return any(form.search(text) for form in (_USERSPACE, _PROPERTIES, _QGROUPS, _CEPH))


def read(text: str | ToolOutput) -> list[StorageLimit]:
    """Return all limits; an owner without a limit still reports what is used. Bad rows count as missed."""
    said = as_output(text)
    return [*_userspace(said), *_properties(said), *_qgroups(said), *_attributes(said)]


def _userspace(said: ToolOutput) -> list[StorageLimit]:
    found: list[StorageLimit] = []
    if _USERSPACE.search(said.text):
        for line in said:
            if match := _OWNED.fullmatch(line.strip()):
                whose = Owner(match[1].lower(), match[2])
                with said.row():
                    found.append(read_limit(BYTES, whose, match[3], match[4]))
                    if match[5] not in (None, "-"):
                        found.append(read_limit(INODES, whose, match[5], match[6], base=1024))
    return found


def _properties(said: ToolOutput) -> list[StorageLimit]:
    """Read `quota` (counts a dataset and all below it) and `refquota` (counts only its own data)."""
    properties: dict[str, dict[str, float | None]] = defaultdict(dict)
    if _PROPERTIES.search(said.text):
        for line in said:
            if match := _PROPERTY.match(line.strip()):
                read = parse_limit if match[2].endswith("quota") else parse_amount
                with said.row():
                    properties[match[1]][match[2]] = read(match[3])
    return [
        StorageLimit(BYTES, f"{kind} of {name}", used=cells[used] or 0.0, hard=cells[kind], path=name)
        for name, cells in properties.items()
        for kind, used in (("quota", "used"), ("refquota", "referenced"))
        if kind in cells and used in cells
    ]


def _qgroups(said: ToolOutput) -> list[StorageLimit]:
    """Read columns by their names, which differ with options and version."""
    found: list[StorageLimit] = []
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
                    if top := parse_limit(row.get(hard, "none")):
                        held = parse_amount(row.get(used, ""))
                        found.append(StorageLimit(BYTES, f"quota of qgroup {cells[0]}", used=held, hard=top))
    return found


def _attributes(said: ToolOutput) -> list[StorageLimit]:
    """Read the attributes of each file, which follow a line with its name."""
    held: dict[str, dict[str, bytes]] = defaultdict(dict)
    name = ""
    for line in said:
        if match := _FILE.match(line):
            name = f"/{match[1].strip('/')}"
        elif match := _CEPH.match(line.strip()):
            held[name][match[1]] = match[2].encode()
            said.know()
    return [each for path, attributes in held.items() for each in ceph_limits(path, attributes)]
