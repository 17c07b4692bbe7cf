"""Waiting until runs obey their switches: jobs left the queue, or the training removed the save switch."""

from __future__ import annotations

import shlex
import sys
import time
from typing import TYPE_CHECKING

from watchdogd.batch import commands
from watchdogd.batch.run_models import run_of, slurm_users
from watchdogd.cli.output import one_line
from watchdogd.config.loading import load
from watchdogd.home import switches
from watchdogd.home.layout import Home
from watchdogd.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchdogd.batch.models import Snapshot
    from watchdogd.home.switches import Switch
    from watchdogd.plugin import Job, Run

_LOOK = 1.0
_ASK = 10.0
_DEADLINE = 30.0


def wait(home: str, found: list[Switch], patience: float) -> int:
    """Return 0 once every run has obeyed, 1 after `patience` seconds. Print changes to stderr."""
    begin = time.monotonic()
    followers = [Follower(Home.find(home), switch) for switch in found]
    last = ""
    while True:
        left = {each.switch.run: text for each in followers if (text := each.left())}
        passed = time.monotonic() - begin
        if not left:
            _print(f"obeyed after {format_duration(passed)}")
            return 0
        news = "; ".join(f"{run}: {text}" for run, text in left.items())
        if passed >= patience:
            for each in followers:
                if each.switch.run in left and (unheard := each.unpolled()):
                    _print(unheard)
            _print(f"not obeyed within {format_duration(patience)}: {news}")
            return 1
        if news != last:
            _print(f"{format_duration(passed)}: {news}")
            last = news
        time.sleep(min(_LOOK, patience - passed))


class Follower:
    """Follower of one switch until its run has obeyed. Asks the queue at most every ten seconds."""

    def __init__(self, home: Home, switch: Switch) -> None:
        self.switch = switch
        self._home = home
        self._left = "the queue was not asked yet"
        self._asked = float("-inf")
        self._looks = 0
        self._known: Mapping[str, float] = {}
        self._backend = ""
        self._working: list[Job] = []

    def left(self) -> str:
        """Return in words what the run still has to do, or empty if it has obeyed."""
        if self.switch.kind == "save":
            return "" if switches.is_obeyed(self.switch) else "not saved yet"
        config = load(self._home, pressing=True)
        if self._left and time.monotonic() - self._asked >= min(config.slurm.min_poll, _ASK):
            self._asked = time.monotonic()
            run = run_of(self.switch.run, config.runs[self.switch.run], config, self._home, "slurm")
            snapshot = self._look(run)
            self._left = living_jobs(snapshot, run.job_name) or self._uncounted(snapshot) or self._doubt()
            self._known = snapshot.known
            name = run.name if run.backend == "process" else run.job_name
            self._backend = run.backend
            self._working = [job for job in snapshot.of(name) if job.working]
            self._looks += 1
        return self._left

    def unpolled(self) -> str:
        """Return that no Guard is known to poll the switch, with the jobs to end; empty if one does."""
        end = commands.of(self._backend).end
        lines = [end.format(id=shlex.quote(job.handle)) for job in self._working]
        found = self.switch._replace(end="; ".join(lines) or self.switch.end)
        return switches.unpolled(found)

    def _uncounted(self, snapshot: Snapshot) -> str:
        """Return whose jobs of that name do not count, if none that counts was ever seen."""
        theirs = sorted({job.user for job in snapshot.elsewhere})
        if self._known or not theirs:
            return ""
        return (
            f"nothing is seen that counts, but a job of that name is {theirs[0]}'s: "
            f'if it is the run\'s, set user = "{theirs[0]}" under [runs.{self.switch.run}]'
        )

    def _doubt(self) -> str:
        """Ask twice if the queue was empty from the start: a busy controller may answer with nothing."""
        return "" if self._known or self._looks else "no job is seen; looking once more"

    def _look(self, run: Run) -> Snapshot:
        if run.backend == "process":
            from watchdogd.batch import processes

            return processes.look([run], _DEADLINE, time.time(), self._home.watcher)
        from watchdogd.batch import slurm_snapshot

        config = load(self._home, pressing=True)
        users = run.users or slurm_users(config, self._home.watcher)  # the daemon's, not the caller's
        return slurm_snapshot.look({run.job_name}, users, self._known, _DEADLINE, time.time(), ())


def living_jobs(snapshot: Snapshot, name: str) -> str:
    """Return the live jobs of that name in words, or why they are not known; empty if there are none."""
    if snapshot.jobs is None:
        return f"the queue does not answer ({snapshot.trouble})"
    states: dict[str, int] = {}
    for job in snapshot.of(name):
        states[job.state.lower()] = states.get(job.state.lower(), 0) + job.tasks
    if not states and snapshot.hidden:
        return f"this site does not show the jobs of {', '.join(sorted(snapshot.hidden))}: ask one of them"
    return ", ".join(f"{count} {state}" for state, count in sorted(states.items()))


def _print(text: str) -> None:
    print(one_line(text), file=sys.stderr, flush=True)
