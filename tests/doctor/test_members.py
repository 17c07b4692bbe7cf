"""A team's home as its members meet it, by rights alone."""

from __future__ import annotations

import pytest

from watchdogd.doctor.members import READ, SEARCH, WRITE, GroupMember, PathRights, needs, way

TEAM, HERS, PROJECT = 4711, 1001, 4712
BOB = GroupMember("bob", 1002, frozenset({1002, TEAM, PROJECT}))
CAROL = GroupMember("carol", 1003, frozenset({1003, TEAM}))


@pytest.mark.parametrize(
    ("uid", "gid", "mode", "kept_out"),
    [
        (HERS, HERS, 0o700, "bob, carol"),
        (HERS, HERS, 0o710, "bob, carol"),
        (HERS, HERS, 0o711, ""),
        (0, 0, 0o755, ""),
        (HERS, TEAM, 0o2770, ""),
        (HERS, TEAM, 0o705, "bob, carol"),
        (0, PROJECT, 0o2750, "carol"),
        (BOB.uid, HERS, 0o700, "carol"),
        (BOB.uid, HERS, 0o611, "bob"),
    ],
)
def test_who_can_go_through_a_folder_above_home(uid: int, gid: int, mode: int, kept_out: str) -> None:
    found = list(way([PathRights("/some/where", uid, gid, mode)], (BOB, CAROL), TEAM))
    assert [each.text.partition(" cannot go through /some/where (")[0] for each in found] == (
        [kept_out] if kept_out else []
    )


@pytest.mark.parametrize(
    ("place", "right", "fix"),
    [
        (PathRights("/h/config.toml", 0, TEAM, 0o600), READ, "chmod g+r /h/config.toml"),
        (
            PathRights("/h/config.toml", 0, 0, 0o640),
            READ,
            "chgrp 4711 /h/config.toml && chmod g+r /h/config.toml",
        ),
        (PathRights("/h/inbox", 0, TEAM, 0o2750), WRITE | SEARCH, "chmod g+wx /h/inbox"),
        (PathRights("/h/in box", 0, TEAM, 0o2700), WRITE | SEARCH, "chmod g+wx '/h/in box'"),
        (PathRights("/h/inbox", HERS, TEAM, 0o2750), WRITE, "have 1001 run: chmod g+w /h/inbox"),
        (PathRights("/h/inbox", 0, TEAM, 0o3770), READ | WRITE | SEARCH, ""),
        (PathRights("/h/status.json", 0, 0, 0o644), READ, ""),
        (PathRights("/h/status.json", 0, 0, 0o600, acl=True), READ, ""),
    ],
)
def test_what_members_cannot_do_in_home_and_the_command_that_fixes_it(
    monkeypatch: pytest.MonkeyPatch, place: PathRights, right: int, fix: str
) -> None:
    monkeypatch.setattr("watchdogd.system.account.user_name", str)
    monkeypatch.setattr("os.geteuid", lambda: 0)  # home is ours
    found = list(needs(place, right, (CAROL,), TEAM, "cannot do it"))
    assert [each.fix for each in found] == ([fix] if fix else [])


def test_of_many_members_some_are_named() -> None:
    crowd = [GroupMember(f"user{number}", 2000 + number, frozenset({TEAM})) for number in range(12)]
    (found,) = way([PathRights("/home/alice", HERS, HERS, 0o700)], crowd, TEAM)
    assert found.text.startswith("user0, user1, user2 and 9 more cannot go through /home/alice")
