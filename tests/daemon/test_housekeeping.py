"""What is done each hour, and what each day."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from tests.history.values import new_home, seen
from watchdogd.daemon.housekeeping import do_chores
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.wiring import assembled
from watchdogd.history.models import Record
from watchdogd.home.layout import Home
from watchdogd.incidents.models import AlertState


def folded(home: Home) -> float:
    """Up to when readings are folded, in seconds since the epoch."""
    with closing(sqlite3.connect(home.history)) as database:
        ((value,),) = database.execute("select value from facts where name = 'thinned'")
    return float(json.loads(value)["folded"])


def test_numbers_are_thinned_each_hour_and_the_backup_is_made_each_day(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    backup = home.path / "history.backup.db"
    now = time.time()
    long_ago = now - 3 * 3600.0
    with assembled(home, Setup.load(home)) as parts:

        def measured(after: float) -> None:
            at = long_ago + after
            parts.storage.record(Record(at=at, observations=(seen(at, age=1.0),), alerts=AlertState()))

        measured(0.0)
        do_chores(parts, now)
        assert folded(home) > now - 900
        backup.unlink()
        measured(1.0)  # a late reading: what is folded has to be folded anew
        do_chores(parts, now + 60)
        assert folded(home) < now - 7200
        os.utime(home.path / ".thinning", (now - 3601, now - 3601))
        do_chores(parts, now + 60)
        assert folded(home) > now - 900
        assert not backup.exists()
        os.utime(home.path / ".chores", (now - 86_401, now - 86_401))
        do_chores(parts, now + 60)
        assert backup.exists()
