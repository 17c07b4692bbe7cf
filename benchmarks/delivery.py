"""From the incident to the message: one alone, and a storm of a thousand; beside Alertmanager."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import measure, ours, peers
from benchmarks.table import Line
from watchdogd.errors import DeliveryError
from watchdogd.notify import senders
from watchdogd.notify.channel_state import Policy
from watchdogd.notify.locks import Locks
from watchdogd.notify.message_outbox import Outbox

STORM, TURNS = 1000, 5
ROOT = Path(__file__).resolve().parents[1]


class Hook:
    """A web server in a process of its own; notes when each message came, and which."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.heard: list[tuple[float, dict[str, Any]]] = []
        self._server = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.hook"], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert self._server.stdout is not None
        self._said = self._server.stdout
        self.url = self._said.readline().strip()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self._said:
            moment, at, said = json.loads(line)
            self.heard.append((at, said))
            self.times.extend([moment] * len(said.get("alerts", [None])))

    def close(self) -> None:
        """Listen no longer."""
        self._server.terminate()
        self._server.wait()

    def until(self, count: int, begin: float) -> float:
        """Seconds from `begin` to the arrival of so many."""
        measure.wait_until(lambda: len(self.times) >= count, 120, f"{count} messages come")
        return self.times[count - 1] - begin


@contextmanager
def hook() -> Iterator[Hook]:
    """A web server for messages."""
    made = Hook()
    try:
        yield made
    finally:
        made.close()


def channel(url: str, folder: Path) -> str:
    """The configuration of a webhook that is told everything at once."""
    (folder / "url").write_text(url)
    (folder / "url").chmod(0o600)
    return (
        '[alerts]\nchannels = ["hook"]\ndigest_above = 100000\n'
        f'[channels.hook]\ntype = "webhook"\nurl = "file:{folder}/url"\nrate = "none"\n'
    )


def ours_storm() -> float:
    """Seconds from the start of a round that finds a thousand disks full to the last message."""
    with measure.folder() as folder, hook() as there:
        config = "".join(
            f'[disks.d{n}]\npath = "{folder}"\nquota = "statvfs"\nwarn_free = "100%"\n'
            "checks.disk_quota = { confirm = 1 }\n"
            for n in range(STORM)
        )
        with _delivering(folder, there, config) as (turned, outbox):
            begin = time.perf_counter()
            turned.engine.round(patience=ours.PATIENCE, send=outbox.add)
            return there.until(STORM, begin)


def ours_one() -> float:
    """Seconds from the start of a round that finds a log silent to the message."""
    with measure.folder() as folder, hook() as there:
        log = folder / "log"
        log.write_text("iteration 1\n")
        config = f'[runs.r]\nlog = "{log}"\nstale_after = "90s"\nchecks.log_staleness = {{ confirm = 1 }}\n'
        with _delivering(folder, there, config) as (turned, outbox):
            turned.one()  # the worker is warm from now on
            turned.now += 600.0
            begin = time.perf_counter()
            turned.engine.round(patience=ours.PATIENCE, send=outbox.add)
            return there.until(1, begin)


@contextmanager
def _delivering(folder: Path, there: Hook, config: str) -> Iterator[tuple[ours.Rounds, Outbox]]:
    home = ours.new_home(folder, channel(there.url, folder) + config)
    with ours.without_slurm(), ours.rounds(home) as turned:
        chosen = turned.engine.setup.config
        settle = turned.engine._storage.settle
        locks = Locks(home, turned.engine._patient.attempt)
        outbox = Outbox(senders.build(chosen, home), senders.policy(chosen), settle, locks=locks)
        for worker in outbox.workers.values():  # not the first message in this home
            worker.lock.take()
            worker.lock.release(stored=True)
        outbox.start()
        yield turned, outbox
        outbox.stop(10)


def ours_idle() -> float:
    """CPU seconds of a minute in which three channels have nothing to send."""
    nobody = senders.Undeliverable(DeliveryError("nothing is sent"))
    outbox = Outbox(dict.fromkeys(("a", "b", "c"), nobody), Policy(), lambda _rows: None)
    outbox.start()
    begin = time.process_time()
    time.sleep(60)
    used = time.process_time() - begin
    outbox.stop(10)
    return used


def theirs_takes(count: int) -> float:
    """Seconds from handing so many alerts to Alertmanager to the last message."""
    with measure.folder() as folder, hook() as there, peers.alertmanager(folder, there.url) as (_, url):
        alerts = [{"labels": {"alertname": f"disk{n}"}} for n in range(count)]
        begin = time.perf_counter()
        peers.post(f"{url}/api/v2/alerts", alerts)
        return there.until(count, begin)


def lines() -> Iterator[Line]:
    """Three rows of the table."""
    one, their_one = measure.in_turn(TURNS, ours_one, lambda: theirs_takes(1))
    many, their_many = measure.in_turn(3, ours_storm, lambda: theirs_takes(STORM))
    yield Line(
        "a round that finds an incident: check, stored, message at the webhook",
        f"{one * 1e3:.1f} ms",
        f"Alertmanager {their_one * 1e3:.1f} ms, stores nothing",
        one / their_one,
        "≤ 5 ×",
    )
    yield Line(
        "1,000 incidents in one round: checks, storing, until the last message is delivered",
        f"{many:.2f} s",
        f"Alertmanager {their_many:.2f} s",
        many / their_many,
        "≤ 10 ×",
    )
    yield Line("a minute of three channels that have nothing to send", f"{ours_idle() * 1e3:.1f} ms of CPU")
