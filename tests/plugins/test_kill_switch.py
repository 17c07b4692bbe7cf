"""The kill switch as the checks see it: whatever lies at its path, it is read at once."""

from __future__ import annotations

import os
from pathlib import Path

from watchdogd.plugins.job_liveness.check import kill_switch
from watchdogd.system import account

ME = account.user_name(os.getuid())


def test_a_folder_is_no_switch_as_for_the_guard(tmp_path: Path) -> None:
    assert kill_switch(str(tmp_path)) is None


def test_a_pipe_is_set_by_its_owner_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run-17.kill")
    found = kill_switch(str(tmp_path / "run-17.kill"))
    assert found is not None
    assert (found.by, found.reason) == (ME, "")


def test_the_first_who_pressed_it_is_who_set_it(tmp_path: Path) -> None:
    switch, later = tmp_path / "run-17.kill", tmp_path / "kill"
    switch.write_text('{"by": "bob", "reason": "lunch", "at": 5}\n{"by": "eve"}\n')
    os.utime(switch, (1e9, 1e9))
    later.touch()
    for places in ((switch, later), (later, switch), (tmp_path, switch), (tmp_path / "none", switch)):
        found = kill_switch(*map(str, places))
        assert found is not None
        assert (found.set_at, found.by, found.reason) == (5, f"{ME} (the file says bob)", "lunch")


def test_where_nothing_lies_nothing_is_set(tmp_path: Path) -> None:
    assert kill_switch(str(tmp_path / "none" / "kill")) is None
    assert kill_switch("") is None
