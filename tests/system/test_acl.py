"""POSIX ACLs are seen where files of others are run or read."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdogd.home import file_trust
from watchdogd.home.file_trust import Trusted, distrust, exposed, inherited_access

BOB, TEAM = 4242, 4711
NOBODY = 0xFFFFFFFF
OWNER, USER, OWNING, GROUP, MASK, OTHER = 1, 2, 4, 8, 16, 32


def attribute(*more: tuple[int, int, int], mask: int = 6, owning: int = 0) -> bytes:
    """As setfacl writes it: the owner may all, `more` are named."""
    entries = [(OWNER, 6, NOBODY), *more, (OWNING, owning, NOBODY), (MASK, mask, NOBODY), (OTHER, 0, NOBODY)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *each) for each in sorted(entries))


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text("")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    ("named", "mask", "trusted", "who"),
    [
        ((USER, 6, BOB), 6, Trusted(), f"user {BOB}"),
        ((USER, 2, BOB), 6, Trusted(), f"user {BOB}"),
        ((USER, 4, BOB), 6, Trusted(), ""),
        ((USER, 6, BOB), 4, Trusted(), ""),
        ((USER, 6, 0), 6, Trusted(), ""),
        ((USER, 6, BOB), 6, Trusted(users=frozenset({BOB})), ""),
        ((GROUP, 6, TEAM), 6, Trusted(), f"group {TEAM}"),
        ((GROUP, 6, TEAM), 6, Trusted(TEAM), ""),
    ],
)
def test_whom_an_acl_lets_write_is_seen(
    plugin: Path, named: tuple[int, int, int], mask: int, trusted: Trusted, who: str
) -> None:
    os.setxattr(plugin, file_trust.ACL_ACCESS, attribute(named, mask=mask))
    reason = distrust(plugin, trusted)
    assert (f"can be written by {who} by its ACL: setfacl -b {plugin}" in reason) if who else not reason


def test_of_a_file_with_an_acl_the_mode_shows_the_mask_alone(plugin: Path) -> None:
    os.chown(plugin, 0, TEAM)
    os.setxattr(plugin, file_trust.ACL_ACCESS, attribute((USER, 6, 0)))
    assert plugin.stat().st_mode & 0o060 == 0o060
    assert distrust(plugin) == ""
    os.setxattr(plugin, file_trust.ACL_ACCESS, attribute((USER, 6, 0), owning=6))
    assert f"can be written by group {TEAM}" in distrust(plugin)


def test_folders_above_default_acls_and_secrets(plugin: Path) -> None:
    os.setxattr(plugin.parent, file_trust.ACL_ACCESS, attribute((USER, 7, BOB), mask=7))
    assert f"{plugin.parent} can be written by user {BOB}" in distrust(plugin)
    os.removexattr(plugin.parent, file_trust.ACL_ACCESS)
    assert inherited_access(plugin.parent) == ""
    os.setxattr(plugin.parent, file_trust.ACL_DEFAULT, attribute((GROUP, 7, TEAM), mask=7))
    assert f"can be written by group {TEAM} by its default ACL" in inherited_access(plugin.parent)
    assert inherited_access(plugin.parent, Trusted(TEAM)) == ""
    os.setxattr(plugin, file_trust.ACL_ACCESS, attribute((USER, 4, BOB)))
    assert f"can be read by user {BOB} by its ACL" in exposed(plugin)


@given(st.binary(max_size=64) | st.binary(max_size=64).map(lambda tail: b"\2\0\0\0" + tail))
def test_any_bytes_are_an_acl_or_none(attribute: bytes) -> None:
    try:
        found = file_trust.parse_acl(attribute, file_trust.WRITE)
    except ValueError:
        return
    assert len(found.users) + len(found.groups) <= len(attribute) // 8
