"""Unix accounts: names of users and groups, and members of groups. Few imports, for the emergency verbs."""

from __future__ import annotations

import os
import pwd

_DIGITS = 10


def user_name(uid: int) -> str:
    """Return a user's name, or the number where there is none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def own_name() -> str:
    """Return the name of this process's effective user."""
    return user_name(os.geteuid())


def user_id(name: str) -> int | None:
    """Return a user's id; also of a number in place of a name; None for an unknown user."""
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        return int(name) if name.isascii() and name.isdecimal() and len(name) <= _DIGITS else None


def group_name(gid: int) -> str:
    """Return a Unix group's name, or the number where there is none."""
    import grp  # late, as it opens a library

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def group_id(name: str) -> int | None:
    """Return a Unix group's id; None where this machine does not know it."""
    import grp

    try:
        return grp.getgrnam(name).gr_gid
    except (KeyError, ValueError):
        return None


def group_members(gid: int) -> frozenset[str]:
    """Return the users that a Unix group lists.

    Users with it as their primary group are missing: only reading all users of a site would find them (see
    `is_member`).
    """
    import grp

    try:
        return frozenset(grp.getgrgid(gid).gr_mem)
    except KeyError:
        return frozenset()


def is_member(uid: int, gid: int) -> bool:
    """Return whether a user is in a Unix group, as a listed member or by the primary group."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return False
    return entry.pw_gid == gid or entry.pw_name in group_members(gid)


def members_of(name: str, uid: int) -> frozenset[str]:
    """Return the members of a Unix group, including `uid` if it is one; none for an unknown group.

    A group that lists nobody may be a primary group: then all users are searched.
    """
    import grp

    try:
        entry = grp.getgrnam(name)
    except KeyError:
        return frozenset()
    listed = {*entry.gr_mem} or {each.pw_name for each in pwd.getpwall() if each.pw_gid == entry.gr_gid}
    return frozenset(listed | ({user_name(uid)} if is_member(uid, entry.gr_gid) else set()))
