"""POSIX ACLs (acl(5)), as the kernel keeps them in an extended attribute: whom they let read or write beside
the owner, the group and everybody. The mode's group bits are but the mask of such a file.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
"""Of a file or folder itself, and of what will be made in a folder."""
READ, WRITE = 4, 2
_VERSION = struct.Struct("<I")
_ENTRY = struct.Struct("<HHI")
_USER, _OWNING_GROUP, _GROUP, _MASK = 0x02, 0x04, 0x08, 0x10


@dataclass(frozen=True, slots=True)
class Acl:
    """The ids of users and groups that have a right by name, and whether the owning group has it."""

    users: tuple[int, ...] = ()
    groups: tuple[int, ...] = ()
    owning_group: bool = False


def who(place: str, right: int, name: str = ACCESS) -> Acl | None:
    """Who has a right by the ACL; None where there is none, or the file system knows no ACLs."""
    try:
        return parse(os.getxattr(place, name), right)
    except (OSError, ValueError):
        return None


def parse(attribute: bytes, right: int) -> Acl:
    """The same of the attribute's bytes. ValueError where they are none of this kind."""
    size = len(attribute) - _VERSION.size
    if size < 0 or size % _ENTRY.size or _VERSION.unpack_from(attribute) != (2,):
        raise ValueError("no ACL that is known")
    entries = list(_ENTRY.iter_unpack(attribute[_VERSION.size :]))
    mask = next((rights for tag, rights, _ in entries if tag == _MASK), READ | WRITE)
    having = [(tag, number) for tag, rights, number in entries if rights & mask & right]
    return Acl(
        tuple(number for tag, number in having if tag == _USER),
        tuple(number for tag, number in having if tag == _GROUP),
        any(tag == _OWNING_GROUP for tag, _ in having),
    )
