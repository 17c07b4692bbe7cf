"""A witness of a chain: notes every round and who made it, how many successors wait, and what is alerted."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from itertools import groupby, pairwise

from tests.waiting import wait_until
from watchdogd.home.layout import Home

LAMP = "cron.every-1s/lamp"
PROGRAM = (
    '#!/bin/sh\nread -r status < "$WATCHDOGD_HOME/lamp"\necho "the lamp shows $status"\nexit "$status"\n'
)


class Witness:
    """Looks at home and queue until `watching` is left, and turns a lamp on and off, which a drop-in sees."""

    def __init__(self, home: Home, queue: Callable[[], list[tuple[str, str]]]) -> None:
        self.rounds: list[tuple[float, str]] = []
        self.turns = 0
        self._home = home
        self._queue = queue
        self._waiting: list[tuple[float, int]] = []
        self._ended = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """All three go on until this is left; what went wrong in one of them is raised then."""
        looks = (self._look_at_rounds, self._look_at_queue, self._turn)
        with ThreadPoolExecutor(len(looks)) as pool:
            futures = [pool.submit(look) for look in looks]
            try:
                yield
            finally:
                self._ended.set()
        for future in futures:
            future.result(240)

    def links(self) -> list[str]:
        """The link of each round, equal neighbours as one: had two acted at once, one would come again."""
        return [link for link, _ in groupby(link for _, link in self.rounds)]

    def longest_gap(self, since: float, until: float) -> float:
        """Seconds at most without a round, between two times of the clock."""
        times = [at for at, _ in self.rounds if since - 30 <= at <= until]
        return max((later - earlier for earlier, later in pairwise(times) if later >= since), default=0.0)

    def longest(self, wrong: Callable[[int], bool]) -> float:
        """Seconds at most for which the number of waiting links was wrong."""
        longest, begin = 0.0, None
        for at, count in self._waiting:
            begin = (begin or at) if wrong(count) else None
            longest = max(longest, at - begin if begin else 0.0)
        return longest

    def alerts(self) -> list[str]:
        """The status words of what was told of the lamp, in order."""
        log = self._home.path / "alerts.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [line[line.index("[") :].split()[0] for line in lines if f" {LAMP}: " in line]

    def _look_at_rounds(self) -> None:
        seen = ""
        while not self._ended.wait(0.05):
            try:
                picture = json.loads(self._home.status.read_text())
            except FileNotFoundError:
                continue
            if picture["last_round"] != seen and picture["link"]:
                seen = picture["last_round"]
                self.rounds.append((datetime.fromisoformat(seen).timestamp(), picture["link"]["job_id"]))

    def _look_at_queue(self) -> None:
        while not self._ended.wait(0.3):
            states = [state for _, state in self._queue()]
            if "RUNNING" in states:
                self._waiting.append((time.monotonic(), states.count("PENDING")))

    def _turn(self) -> None:
        """On, and off, and on: each turn once the one before was told, or never if it is not."""
        while not self._ended.is_set():
            self.turns += 1
            (self._home.path / "lamp").write_text("2\n" if self.turns % 2 else "0\n")
            wait_until(self._told, 150, f"turn {self.turns} of the lamp is told")
            self._ended.wait(1.5)

    def _told(self) -> bool:
        return len(self.alerts()) >= self.turns
