"""What each check is given of one look at a batch system."""

from __future__ import annotations

from pathlib import Path

from tests.history.values import new_home
from watchdogd.engine.call import Reply
from watchdogd.engine.looks import Looks
from watchdogd.engine.setup import Setup
from watchdogd.jobs import Job, Snapshot


def test_the_checks_of_a_run_share_what_a_look_says_of_it(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    home.write(
        home.config,
        "".join(
            f'[runs.{name}]\nbackend = "process"\npid_file = "/p"\nlog = "/l"\n' for name in ("ada", "bea")
        ),
    )
    asking = [check for check in Setup.load(home).checks if "snapshot" in check.entry.wants]
    ada = [check for check in asking if check.run_name == "ada"]
    bea = next(check for check in asking if check.run_name == "bea")
    assert len(ada) > 1
    jobs = tuple(Job(name, name, name, "cy", "RUNNING") for name in ("ada", "bea"))
    looks = Looks()
    for at, present in ((1.0, jobs), (2.0, jobs[1:])):
        looks.take(Reply("look at process", Snapshot(at, present, backend="process")), at)
        given = [looks.snapshot(check) for check in ada]
        assert all(each is given[0] for each in given)
        assert given[0] is not None
        assert given[0].taken_at == at
        assert given[0].jobs == present[:-1]
        theirs = looks.snapshot(bea)
        assert theirs is not None
        assert theirs.jobs == jobs[1:]
