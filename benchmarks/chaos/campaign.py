"""One campaign: its steps are played on a stage, and all is written down."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.chaos.faults import SUMMER
from benchmarks.chaos.journal import Fault, Journal, Truth
from benchmarks.chaos.plan import Scene, Step
from benchmarks.chaos.stage import COLLEAGUE, OWNER, Stage

CALM = 200.0
"""Seconds at most that all may take to calm down, once nothing is wrong any more."""
SAMPLING = 4.0
ACKNOWLEDGED = 0.3
"""The share of incidents of which somebody says that he works on it."""


def play(
    seed: int, mode: str, steps: Sequence[Step], other: Path | None = None, keep: Path | None = None
) -> Journal:
    """Return the journal of a campaign; `other`: package of another version, `keep`: where home goes."""
    with Stage(mode, seed, other) as stage:
        stage.begin(list(summers(steps)))
        campaign = _Campaign(stage, seed)
        try:
            campaign.run(steps)
            campaign.calm_down()
        finally:
            campaign.end_all()
        stage.end()
        if keep:
            stage.keep(keep)
        stage.journal.messages = sorted(
            stage.receivers.messages(stage.journal.faults), key=lambda each: each.at
        )
        beats = stage.receivers.web["beat"].requests
        stage.journal.beats = sorted(each.arrived for each in beats if not each.path.endswith("/fail"))
        stage.journal.end = time.time() + 1e6  # it was waited until all was calm: no deadline is left open
        return stage.journal


def summers(steps: Sequence[Step]) -> Iterator[tuple[float, bool]]:
    """Yield when summer begins and ends: zones are known beforehand."""
    for step in steps:
        if step.act.name == SUMMER:
            yield step.at, True
            yield step.at + step.lasting, False


class _Campaign:
    def __init__(self, stage: Stage, seed: int) -> None:
        self._stage = stage
        self._people = random.Random(seed)
        self._open: list[tuple[float, Iterator[None], Fault | Truth]] = []
        self._sampled = 0.0
        self._seen: set[int] = set()

    def run(self, steps: Sequence[Step]) -> None:
        """Play all steps to their ends, in their order also where one was held up."""
        begin = time.monotonic()
        waiting = list(steps)
        while waiting or self._open:
            now = time.monotonic() - begin
            part = min(self._open, key=lambda each: each[0], default=None)
            if part and part[0] <= min(now, waiting[0].at if waiting else now):
                self._finish(part)
            elif waiting and waiting[0].at <= now:
                self._begin(waiting.pop(0))
            else:
                time.sleep(0.1)
            self._look()

    def _begin(self, step: Step) -> None:
        print(step.line(), flush=True)
        note = step.act.note(step, time.time())
        if isinstance(note, Truth):
            self._stage.journal.truths.append(note)
        else:
            self._stage.journal.faults.append(note)
        part = step.act.play(Scene(self._stage, step, note, random.Random(step.seed)))
        next(part)
        self._open.append((step.at + step.lasting, part, note))

    def _finish(self, part: tuple[float, Iterator[None], Fault | Truth]) -> None:
        self._open.remove(part)
        next(part[1], None)
        part[2].end = time.time()

    def _look(self) -> None:
        self._stage.cron()
        self._stage.pacer.look()
        if time.monotonic() >= self._sampled + SAMPLING:
            self._sampled = time.monotonic()
            self._stage.sample()
            self._acknowledge()

    def _acknowledge(self) -> None:
        """Somebody takes on some of what came to the first channel."""
        for each in self._stage.receivers.messages(self._stage.journal.faults):
            for number in each.incidents if each.channel == "hook" else ():
                if number in self._seen or each.status not in ("CRITICAL", "WARNING"):
                    continue
                self._seen.add(number)
                if self._people.random() < ACKNOWLEDGED:
                    user = self._people.choice((OWNER, COLLEAGUE))
                    self._stage.request("ack", each.target, str(number), user=user, incident=number)

    def calm_down(self) -> None:
        """Wait until nothing is open and nothing waits, for CALM seconds at most, and say for what."""
        until = time.monotonic() + CALM
        calm, waits_for = 0, ""
        while calm < 2 and time.monotonic() < until:
            for _ in range(40):
                self._look()
                time.sleep(0.1)
            before, waits_for = waits_for, self._waits_for()
            calm = 0 if waits_for else calm + 1
            if waits_for not in ("", before):
                print(f"waits for {waits_for}", flush=True)

    def _waits_for(self) -> str:
        """What is not calm yet, in words."""
        status = self._stage.ask("status")
        if not status or not status["alive"]:
            return f"a daemon: {status and status.get('holder')}"
        if status["incidents"]:
            return f"the end of {[each['summary'] for each in status['incidents']]}"
        waiting = self._stage.ask("outbox")
        if waiting is None:
            return "an answer of outbox"
        return f"the delivery of {[each['headline'] for each in waiting]}" if waiting else ""

    def end_all(self) -> None:
        """End what a failure left open, so that the stage can be torn down."""
        for part in list(self._open):
            self._finish(part)
