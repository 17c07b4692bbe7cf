"""CephFS's extended attributes as limits: `ceph.quota.*` of a directory, used by what is beneath it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.errors import UnreadableError
from watchdogd.readers.quota.limit import BYTES, INODES, Limit
from watchdogd.system.number import count

if TYPE_CHECKING:
    from collections.abc import Mapping

ATTRIBUTES = (
    "ceph.quota.max_bytes",
    "ceph.quota.max_files",
    "ceph.dir.rbytes",
    "ceph.dir.rentries",
)


def limits(path: str, attributes: Mapping[str, bytes]) -> list[Limit]:
    """The limits that a directory itself carries (0: none). UnreadableError where a value is no number."""
    found = []
    for kind, maximum, used in (
        (BYTES, "ceph.quota.max_bytes", "ceph.dir.rbytes"),
        (INODES, "ceph.quota.max_files", "ceph.dir.rentries"),
    ):
        hard = _number(maximum, attributes)
        if hard:
            found.append(
                Limit(
                    kind,
                    f"quota of {path or 'the directory'}",
                    used=_number(used, attributes),
                    hard=hard,
                    path=path,
                )
            )
    return found


def _number(name: str, attributes: Mapping[str, bytes]) -> float:
    text = attributes.get(name, b"0").decode("ascii", "replace").strip().strip('"')
    number = count(text)
    if number is None:
        raise UnreadableError(f"{name} is no number: '{text[:100]}'")
    return float(number)
