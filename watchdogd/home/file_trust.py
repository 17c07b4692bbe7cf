"""Trust in files: only those that nobody but their owner, root or the home's group can write are used.

The same applies to every parent folder; sticky folders such as /tmp, where only the owner can replace a file,
and folders of the home's group are trusted. Members of a home's group trust its owner, who could change all
of it anyway: so home may lie below the owner's own folder. Whoever only looks or presses a switch also trusts
the other members with the folders above home; whoever runs code that home names (plugins, drop-ins, commands
of config.toml) with their own rights does not.

POSIX ACLs (acl(5)), kept in an extended attribute, permit access beside owner, group and others; the group
bits of the mode are then only the ACL's mask.
"""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import stat
import struct
from dataclasses import dataclass
from pathlib import Path

from watchdogd.errors import Problem
from watchdogd.system.account import group_name, is_member, user_name

ACL_ACCESS, ACL_DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
"""ACL of a file or folder, and default ACL for new files in a folder."""
READ, WRITE = 4, 2
_VERSION = struct.Struct("<I")
_ENTRY = struct.Struct("<HHI")
_USER, _OWNING_GROUP, _GROUP, _MASK = 0x02, 0x04, 0x08, 0x10


@dataclass(frozen=True, slots=True)
class Acl:
    """Ids of users and groups named in an ACL with a certain right, and whether the owning group has it."""

    users: tuple[int, ...] = ()
    groups: tuple[int, ...] = ()
    owning_group: bool = False


def acl_of(place: str, right: int, name: str = ACL_ACCESS) -> Acl | None:
    """Return who has a right by the ACL; None without one, or where the file system has no ACLs."""
    try:
        return parse_acl(os.getxattr(place, name), right)
    except (OSError, ValueError):
        return None


def parse_acl(attribute: bytes, right: int) -> Acl:
    """Parse the attribute for one right. ValueError where it is no ACL."""
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


@dataclass(frozen=True, slots=True)
class Trusted:
    """Owners whose files are trusted beside the caller's and root's: a Unix group and `users` (ids).

    `members`: also files of any member of the group.
    """

    group: int | None = None
    users: frozenset[int] = frozenset()
    members: bool = False


NOBODY = Trusted()
FINE = Problem()
"""No problem."""


def team_of(home: str | Path, *, pressing: bool = False) -> Trusted:
    """Return whom the caller trusts with the files of this home.

    `pressing`: none of its code is run, as for a switch, an acknowledgement or the status; root may do that
    in everybody's home.
    """
    try:
        found = os.stat(home)
    except OSError:
        return NOBODY
    shared = found.st_mode & stat.S_ISGID and found.st_mode & stat.S_IWGRP
    group = found.st_gid if shared else None
    one_of_them = group is not None and group in {os.getegid(), *os.getgroups()}
    known = one_of_them or (pressing and os.geteuid() == 0)
    return Trusted(group, frozenset({found.st_uid} if known else ()), members=pressing and known)


def distrust(path: Path, trusted: Trusted = NOBODY) -> Problem:
    """Return why this file or folder must not be used, with the fix; empty where it may be."""
    real = os.path.realpath(path)
    return _distrust(real, trusted) or _above(os.path.dirname(real), trusted)


def _above(place: str, trusted: Trusted) -> Problem:
    while True:  # strings: a Path for each drop-in, each minute, would cost more than the stat calls
        reason, above = _distrust(place, trusted, itself=False), os.path.dirname(place)
        if reason or above == place:
            return reason
        place = above


def _distrust(place: str, trusted: Trusted, *, itself: bool = True) -> Problem:
    try:
        found = os.stat(place)
    except OSError as error:
        return Problem(f"{place} cannot be looked at: {error.strerror}")
    return _reason(place, found, trusted, itself=itself)


def exposed(path: Path, group: int | None = None) -> Problem:
    """Return who else can read this file of a secret, with the fix; empty where nobody can.

    The configured group may; a file that cannot be examined is not reported.
    """
    real = Path(os.path.realpath(path))
    try:
        found = real.stat()
    except OSError:
        return FINE
    fix = f"chmod {'640' if found.st_gid == group else '600'} {shlex.quote(str(real))}"
    if found.st_mode & stat.S_IROTH:
        return Problem(f"{real} can be read by everybody", fix)
    if not found.st_mode & stat.S_IRGRP:
        return FINE
    listed = acl_of(str(real), READ)
    if name := _stranger(listed, found, Trusted(group)):
        return Problem(f"{real} can be read by {name} by its ACL", f"setfacl -b {shlex.quote(str(real))}")
    others = found.st_gid not in (0, group) and (listed is None or listed.owning_group)
    if others and not _private(found.st_gid, os.geteuid()):
        return Problem(f"{real} can be read by group {group_name(found.st_gid)}", fix)
    return FINE


def _reason(place: str, found: os.stat_result, trusted: Trusted, *, itself: bool) -> Problem:
    sticky = bool(found.st_mode & stat.S_ISVTX) and not itself
    if not _is_known(found, trusted):
        owner = f"uid {found.st_uid} ({user_name(found.st_uid)})"
        only = "only your own, root's or your group's files are used"
        return Problem(f"{place} belongs to {owner}", only, typed=False)
    if found.st_mode & stat.S_IWOTH and not sticky:
        return Problem(f"{place} can be written by everybody", f"chmod o-w {shlex.quote(place)}")
    if not found.st_mode & stat.S_IWGRP or sticky:
        return FINE
    listed = acl_of(place, WRITE)
    if name := _stranger(listed, found, trusted):
        return Problem(f"{place} can be written by {name} by its ACL", f"setfacl -b {shlex.quote(place)}")
    others = found.st_gid not in (0, trusted.group) and (listed is None or listed.owning_group)
    if others and not any(_private(found.st_gid, uid) for uid in (os.geteuid(), found.st_uid)):
        name = group_name(found.st_gid)
        fix = f"chmod g-w {shlex.quote(place)}, or set [daemon] group to it"
        return Problem(f"{place} can be written by group {name}", fix, typed=False)
    return FINE


def inherited_access(folder: Path, trusted: Trusted = NOBODY) -> Problem:
    """Return who could write new files in this folder, by its default ACL, with the fix; or empty."""
    listed = acl_of(str(folder), WRITE, ACL_DEFAULT)
    name = _stranger(listed, folder.stat(), trusted) if listed else ""
    if not name:
        return FINE
    fix = f"setfacl -k {shlex.quote(str(folder))}"
    return Problem(f"files made in {folder} can be written by {name} by its default ACL", fix)


def _stranger(listed: Acl | None, found: os.stat_result, trusted: Trusted) -> str:
    """Return an untrusted user or group named in the ACL, or empty."""
    if listed is None:
        return ""
    for uid in listed.users:
        member = trusted.members and trusted.group is not None and is_member(uid, trusted.group)
        if uid not in (0, os.geteuid(), found.st_uid) and uid not in trusted.users and not member:
            return f"user {user_name(uid)}"
    own = (os.geteuid(), found.st_uid)
    for gid in listed.groups:
        if gid not in (0, trusted.group) and not any(_private(gid, uid) for uid in own):
            return f"group {group_name(gid)}"
    return ""


def _is_known(found: os.stat_result, trusted: Trusted) -> bool:
    if found.st_uid in (0, os.geteuid()) or found.st_uid in trusted.users:
        return True
    if trusted.group is None:
        return False
    return found.st_gid == trusted.group or (trusted.members and is_member(found.st_uid, trusted.group))


def _private(gid: int, uid: int) -> bool:
    """Return whether it is this user's private group (Debian's default): same name, no other members."""
    try:
        entry, owner = grp.getgrgid(gid), pwd.getpwuid(uid)
    except KeyError:
        return False
    name = owner.pw_name
    return owner.pw_gid == gid and entry.gr_name == name and set(entry.gr_mem) <= {name}
