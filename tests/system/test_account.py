"""Who is in a Unix group, by the accounts of this machine."""

from __future__ import annotations

import grp
import os
import pwd

import pytest

from watchdogd.system.account import group_members, group_name, is_member, members_of, user_name

GAMES = grp.getgrnam("games").gr_gid


def test_a_group_that_lists_nobody_has_those_whose_first_one_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    first = {entry.pw_name for entry in pwd.getpwall() if entry.pw_gid == GAMES}
    assert first
    monkeypatch.setattr(grp, "getgrnam", lambda name: grp.struct_group((name, "x", GAMES, [])))
    assert members_of("games", os.geteuid()) == first


def test_a_group_has_those_it_lists_and_who_asks_where_it_is_the_first_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grp, "getgrnam", lambda name: grp.struct_group((name, "x", GAMES, ["ines", "otto"])))
    owner = next(entry for entry in pwd.getpwall() if entry.pw_gid == GAMES)
    assert members_of("games", owner.pw_uid) == {"ines", "otto", owner.pw_name}
    assert members_of("games", 4711) == {"ines", "otto"}


def test_what_this_machine_does_not_know_is_nobody() -> None:
    assert (members_of("no-such-group", 0), group_members(4711)) == (frozenset(), frozenset())
    assert (is_member(4711, GAMES), user_name(4711), group_name(4711)) == (False, "4711", "4711")
