"""Tests of a shared home for its members: whether they can enter it, read what they need, and submit.

Judged by the permissions of each file and folder for the group's real members, so that the owner, who may do
everything, learns in advance what will not work for them.
"""

from __future__ import annotations

import os
import pwd
import shlex
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from watchdogd.config.loading import personal
from watchdogd.doctor.diagnosis import Diagnosis, Installation, fine, warning
from watchdogd.home.layout import Home
from watchdogd.system import account

TOPIC = "members"
READ, WRITE, SEARCH = 4, 2, 1
MOST = 50
"""Maximum members tested: a group may include a whole site."""
_NAMED = 3
_ACL = "system.posix_acl_access"
_LETTERS = ((READ, "r"), (WRITE, "w"), (SEARCH, "x"))


@dataclass(frozen=True, slots=True)
class GroupMember:
    """Member of the group: name, user id, and ids of all the user's groups."""

    name: str
    uid: int
    groups: frozenset[int]


@dataclass(frozen=True, slots=True)
class PathRights:
    """File or folder with owner, group and mode; `acl`: it has further permissions that are not read."""

    path: str
    uid: int
    gid: int
    mode: int
    acl: bool = False

    @classmethod
    def of(cls, path: str) -> PathRights | None:
        """Return the permissions of a path; None where it cannot be examined."""
        try:
            found = os.stat(path)
            return cls(path, found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode), _ACL in _extras(path))
        except OSError:
            return None

    def gives(self, member: GroupMember) -> int:
        """Return a member's permissions here (READ, WRITE, SEARCH)."""
        if self.acl or member.uid == 0:
            return READ | WRITE | SEARCH
        shift = 6 if member.uid == self.uid else 3 if self.gid in member.groups else 0
        return self.mode >> shift & 7


def look(installation: Installation) -> Iterator[Diagnosis]:
    """Test a shared home for its members; nothing where it is private."""
    home, wished = installation.home, installation.config.daemon.group
    if home.group is None:
        if wished:
            text = f"{home.path} is not shared with group {wished} yet"
            yield warning(TOPIC, text, f"a start by {account.user_name(home.path.stat().st_uid)} shares it")
        return
    if texts := personal(home):
        text = f"'{texts[0]}' in config.toml is another place for each member"
        yield warning(TOPIC, text, "write the whole path")
    secrets = {key: secret.path for key, secret in installation.config.secrets(relayed=False) if secret.path}
    yield from found_in(home, home.group, secrets)


def found_in(home: Home, group: int, secrets: dict[str, str] | None = None) -> Iterator[Diagnosis]:
    """Yield what members of the group cannot do in this home, or that they can do everything.

    `secrets`: files of secrets, by their keys in config.toml.
    """
    crowd = members(group, home.path.stat().st_uid)
    bad = [*_way(home, crowd, group), *_inside(home, crowd, group)]
    bad += [each for key, path in (secrets or {}).items() for each in secret(key, path, crowd, group)]
    yield from bad
    if not bad:
        who = _names([member.name for member in crowd])
        yield fine(TOPIC, f"{who} can acknowledge, silence and press switches in {home.path}")


def members(group: int, owner: int) -> tuple[GroupMember, ...]:
    """Return the group's members other than home's owner, `MOST` at most.

    Where it lists nobody else, one without a name stands for those who may be in it.
    """
    found = []
    for name in sorted(account.group_members(group)):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != owner:
            groups = frozenset({*os.getgrouplist(name, entry.pw_gid), group})
            found.append(GroupMember(name, entry.pw_uid, groups))
        if len(found) == MOST:
            break
    return tuple(found) or (GroupMember("a member", -1, frozenset({group})),)


def way(places: Iterable[PathRights], crowd: Sequence[GroupMember], group: int) -> Iterator[Diagnosis]:
    """Warn of folders above home that members cannot pass."""
    for place in places:
        kept_out = [member.name for member in crowd if not place.gives(member) & SEARCH]
        if kept_out:
            text = f"{_names(kept_out)} cannot go through {place.path} ({_shown(place)})"
            yield warning(TOPIC, text, _chmod(place, group, SEARCH))


def needs(
    place: PathRights, right: int, crowd: Sequence[GroupMember], group: int, what: str
) -> Iterator[Diagnosis]:
    """Warn where members lack a right to a path in home; `what`: what they cannot do without it."""
    without = [member.name for member in crowd if place.gives(member) & right != right]
    if without:
        yield warning(
            TOPIC, f"{_names(without)} {what}: {place.path} ({_shown(place)})", _chmod(place, group, right)
        )


def secret(key: str, path: str, crowd: Sequence[GroupMember], group: int) -> Iterator[Diagnosis]:
    """Warn of a secret's file that some members cannot read: they cannot start the watchdog."""
    places = [each for each in map(PathRights.of, (path, *_above(path))) if each]
    without = [
        member.name
        for member in crowd
        if any(not place.gives(member) & (SEARCH if at else READ) for at, place in enumerate(places))
    ]
    if without and places and places[0].path == path:
        text = f"{_names(without)} cannot start it: {key}: secret file {path} is not theirs to read"
        name = shlex.quote(account.group_name(group))
        yield warning(TOPIC, text, f"put it where they can go: chgrp {name} FILE && chmod 640 FILE")


def _way(home: Home, crowd: Sequence[GroupMember], group: int) -> Iterator[Diagnosis]:
    literal, real = os.path.abspath(home.path), os.path.realpath(home.path)
    above = dict.fromkeys((*_above(literal), *_above(real)))
    yield from way(filter(None, map(PathRights.of, reversed(above))), crowd, group)


def _inside(home: Home, crowd: Sequence[GroupMember], group: int) -> Iterator[Diagnosis]:
    wanted = (
        (home.path, READ | SEARCH, "cannot look into home"),
        (home.inbox, WRITE | SEARCH, "cannot hand anything in"),
        (home.switches, WRITE | SEARCH, "cannot press a switch"),
        (home.config, READ, "cannot read which runs there are"),
        (home.status, READ, "cannot see the status"),
    )
    for path, right, what in wanted:
        place = PathRights.of(str(path))
        if place is not None:
            yield from needs(place, right, crowd, group, what)


def _above(path: str) -> Iterator[str]:
    """Yield the folders above, nearest first."""
    while (folder := os.path.dirname(path)) != path:
        yield folder
        path = folder


def _extras(path: str) -> list[str]:
    try:
        return os.listxattr(path)
    except OSError:  # the file system has no extended attributes
        return []


def _chmod(place: PathRights, group: int, right: int) -> str:
    """Return the command that gives the group this right, and who must run it."""
    letters = "".join(letter for bit, letter in _LETTERS if right & bit)
    path = shlex.quote(place.path)
    if place.gid == group:
        command = f"chmod g+{letters} {path}"
    elif right == SEARCH:
        command = f"chmod o+x {path}"
    else:
        command = f"chgrp {shlex.quote(account.group_name(group))} {path} && chmod g+{letters} {path}"
    return command if place.uid == os.geteuid() else f"have {account.user_name(place.uid)} run: {command}"


def _shown(place: PathRights) -> str:
    return f"{stat.filemode(place.mode)[1:]}, {account.user_name(place.uid)}:{account.group_name(place.gid)}"


def _names(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
