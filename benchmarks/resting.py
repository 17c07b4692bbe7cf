"""What a real daemon costs while nothing happens: its CPU over minutes, and its memory with many checks."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks import builtin, measure, peers
from benchmarks.table import Line

IDLE_CHECKS, WATCHED = 20, 100
_SETTLED = 90.0
"""Seconds until the first rounds and the first chores are over."""
_LEAST = 600.0
"""Seconds over which the idle daemon is looked at."""


@contextmanager
def daemon(checks: int) -> Iterator[int]:
    """`watchdogd run` of a home with so many checks; its pid."""
    with measure.folder() as folder:
        home = builtin.home(folder, checks)
        program = str(Path(sys.executable).with_name("watchdogd"))
        env = {**os.environ, "PATH": "/nonexistent"}
        with measure.running([program, "run", "--home", str(home.path)], env=env) as process:
            measure.wait_until(home.status.exists, 60, "the daemon's first round")
            yield process.pid


class Resting:
    """An idle daemon that runs while other things are measured."""

    def __init__(self) -> None:
        self._context = daemon(IDLE_CHECKS)
        self._pid = self._context.__enter__()
        self._born = time.monotonic()
        self._begin: tuple[float, float] | None = None

    def settle(self) -> None:
        """Wait until it idles; count from then on. Once is enough."""
        if self._begin is not None:
            return
        time.sleep(max(_SETTLED - (time.monotonic() - self._born), 0.0))
        self._begin = (time.monotonic(), measure.cpu(self._pid))

    def line(self) -> Line:
        """A row of the table; the daemon ends."""
        assert self._begin is not None
        since, before = self._begin
        time.sleep(max(_LEAST - (time.monotonic() - since), 0.0))
        took, spent = time.monotonic() - since, measure.cpu(self._pid) - before
        self._context.__exit__(None, None, None)
        return Line(
            f"idle: {IDLE_CHECKS} checks at 1 m, over {took / 60:.0f} minutes",
            f"{spent / took:.2%} of a core",
            reach="≤ 0.3 %",
        )


def lines() -> Iterator[Line]:
    """The row about memory; the peers rest at the same time."""
    second_round = time.monotonic() + 65
    with daemon(WATCHED) as pid, _peers() as theirs:
        time.sleep(max(second_round - time.monotonic(), 0.0))
        held = measure.pss(pid)
        beside = [f"{name} {measure.pss(peer):.0f} MB" for name, peer in theirs.items()]
    yield Line(
        f"memory with {WATCHED} checks: PSS of daemon and workers",
        f"{held:.0f} MB",
        ", ".join(beside),
        reach="≤ 110 MB",
    )


@contextmanager
def _peers() -> Iterator[dict[str, int]]:
    """Nagios Core and Monit with as many checks, and Alertmanager; their pids by name."""
    with ExitStack() as stack:
        nagios, monit, alertmanager = (stack.enter_context(measure.folder()) for _ in range(3))
        log = nagios / "a.log"
        log.write_text("x\n")
        files = [f"check file f{n} path {log}\n  if timestamp > 90 days then alert" for n in range(WATCHED)]
        yield {
            "Nagios Core": stack.enter_context(peers.nagios(nagios, ["/bin/true"] * WATCHED)),
            "Alertmanager": stack.enter_context(peers.alertmanager(alertmanager, "http://127.0.0.1:9/"))[0],
            "Monit": stack.enter_context(peers.monit(monit, files)),
        }
