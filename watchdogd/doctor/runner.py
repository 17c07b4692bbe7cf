"""Runner of all tests at once, each with a deadline, so that a hang is reported as a fault."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from watchdogd.daemon.setup import Setup
from watchdogd.doctor import cluster, delivery, home_storage, members, tools, watched
from watchdogd.doctor.diagnosis import Diagnosis, Installation, broken
from watchdogd.errors import ConfigError, WatchdogError
from watchdogd.home.layout import Home

Piece = Callable[[Installation], Iterator[Diagnosis]]

DEADLINE = 60.0
"""Seconds for all tests, which run in parallel."""
PIECES: Mapping[str, Piece] = {
    "config": watched.look_at_config,
    "home": home_storage.look,
    "members": members.look,
    "history": home_storage.look_at_history,
    "Slurm": cluster.look,
    "partition": cluster.look_at_partition,
    "runs": watched.look_at_runs,
    "disks": watched.look_at_disks,
    "secrets": delivery.look_at_secrets,
    "channels": delivery.look,
    "plugins": watched.look_at_plugins,
    "tools": tools.look,
}
"""Tests by topic, in the order of the table."""


@dataclass(slots=True)
class _Trial:
    """Test on a thread that is left behind where it hangs."""

    topic: str
    piece: Piece
    installation: Installation
    found: list[Diagnosis] = field(default_factory=list)
    error: BaseException | None = None

    def begin(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name=f"doctor {self.topic}", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        try:
            self.found.extend(self.piece(self.installation))
        except WatchdogError as error:
            self.found.append(
                broken(self.topic, str(error), "see 'watchdogd doctor' again once that is fixed")
            )
        except OSError as error:
            what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            self.found.append(broken(self.topic, what, "correct its rights or the path"))
        except BaseException as error:  # noqa: BLE001 - raised again by `examine`
            self.error = error


def examine(
    home: Home, pieces: Mapping[str, Piece] = PIECES, deadline: float = DEADLINE
) -> tuple[Diagnosis, ...]:
    """Run all tests. A broken configuration is the only finding then. HomeError where there is no home."""
    try:
        setup = Setup.load(home)
    except ConfigError as error:
        text = str(error)
        return (broken("config", text, f"edit {home.config}, then '{home.command('config')}'"),)
    installation = Installation.of(home, setup)
    trials = [_Trial(topic, piece, installation) for topic, piece in pieces.items()]
    until = time.monotonic() + deadline
    threads = [trial.begin() for trial in trials]
    found: list[Diagnosis] = []
    for trial, thread in zip(trials, threads, strict=True):
        thread.join(max(until - time.monotonic(), 0.0))
        if trial.error is not None:
            raise trial.error
        found += trial.found
        if thread.is_alive():
            text = f"no answer within {deadline:g} s: a file system or a server hangs"
            found.append(broken(trial.topic, text, "look at the mounts: df, and 'watchdogd check'"))
    return tuple(found)
