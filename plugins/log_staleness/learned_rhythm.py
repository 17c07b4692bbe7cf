"""Progress and pauses that a run's log has shown so far, and since when it shows no progress.

Progress is a clock that rises (see `line_templates`). Which clocks count depends on their kind: if any is
known to count work, by its name, its total or the measures beside it, bare counts of something else cannot
hide that it stopped. A pause is known by the line before it: a silence after "saving" may last as long as
earlier ones after such a line. What was never seen before is allowed more time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple
from zlib import crc32

from watchdogd.parsers.logs.line_shapes import shape_of
from watchdogd.plugins.log_staleness import line_templates
from watchdogd.plugins.log_staleness.line_templates import Template
from watchdogd.plugins.log_staleness.stall_limit import (
    MOST,
    MULTIPLE,
    ONLY_WAITS,
    Pauses,
    longest,
    longest_of,
    patience,
)

BEAT, OWN = -1, -2
"""Templates of the Guard's heartbeats, and of the number found by the user's own pattern."""
KEPT = 64
"""How many templates are remembered."""
UNKNOWN = 1800.0
"""Seconds allowed for what was never seen before."""
YOUNG, USUAL, KNOWN = 900.0, 420.0, 300.0
"""Least seconds allowed: for a young run, for one that has not paused yet, for one whose pauses are known."""
GROWN_UP = 5400.0
"""Seconds of progress after which a run's usual pauses have been seen."""
GROWN_UP_RISES = 40
"""The same in rises: if steps take long, what happens every few steps is seen later."""
LONG = 120.0
"""A pause of so many seconds is searched for the line that began it."""
SELDOM = 8
"""Only a line that comes less than once in so many rises can have begun a pause."""
SOON = 60.0
"""Seconds within which the next rise is never late, since looks are so far apart."""
NEWS = 420.0
"""Seconds allowed after a line of a new kind, if such lines keep coming."""
FIRST = 600.0
"""The same if it comes only once: something has begun that was never seen."""
NOVEL = 3600.0
"""Seconds without progress after which lines of new kinds no longer mean that something begins."""
SLACK = 0.5
"""How much less a clock weighs if it has been regular for a while (see `Template.weight`)."""
LOST = 5
"""After so many lines in a row without the number they had before, that counts as lasting."""
OFTEN = 10
"""After so many lines of a template it is known what follows them."""
MANY, OVER = 20, 4
"""A count outweighs the one before it once it has risen MANY times, and OVER times as often."""
AGAIN = 2
"""After so many restarts of a count, reaching its total is no end."""
RARE = 2
"""Up to so many lines of a new kind mean that something new has begun; more are just output."""
DONE = 7200.0
"""Seconds that a run may be silent after its last step; less if the count itself took less time."""


class Reason(StrEnum):
    """Where a limit comes from."""

    START = "until a job's first progress line"
    KNOWN = "learned from the run's own rhythm"
    YOUNG = "while the run is young"
    SELDOM = "after a kind of line that came seldom"
    NEW = "until the run's rhythm is known"
    DONE = "after the last step"


@dataclass(frozen=True, slots=True)
class Limit:
    """Seconds that are allowed, and where the number comes from."""

    seconds: float
    reason: Reason


NOTHING = Template("", [], [], 0.0)


def _takes_over(each: Template, before: Sequence[Template]) -> bool:
    """Return True if its count certainly continues those of `before`, which have stopped.

    It starts where one of these was, in lines of another form; or these were full; or it rises so much more
    often that it did within ONLY_WAITS what they did not in all their time.
    """
    if any(each.continues(one) for one in before):
        return True
    last = max(before, key=lambda one: one.rose)
    if last.ended and each.whole:
        return True
    most, took = max(one.rises for one in before), max(each.rose - each.begun, 1.0)
    return each.grows and each.rises >= MANY and each.rises * ONLY_WAITS / took >= OVER * most


class _Cycling(NamedTuple):
    """Template whose clocks restart: when one last rose before this look, and what its lines say."""

    rose: float
    said: set[str]


@dataclass(slots=True)
class LogState:
    """State of one job's log.

    `wrote`: when bytes last came; `said`: template of the last line. `begun`: when the job's first line came.
    `moved`: when a clock that counts last rose; `rises`: in how many looks one did.
    `novel`: when a line of a new template came. `pauses`: the longest times between two rises.
    `since`: when progress was first seen. `weight`: the least weight with which a clock counts (see
        `Template.weight`); `bare`: none weighs more than something that waits.
    `until`: when what rises now stops counting, since it may belong to something that waits; else 0.
    `sure`: when something last rose that cannot belong to such.
    """

    templates: dict[int, Template] = field(default_factory=dict)
    wrote: float = 0.0
    said: int = 0
    moved: float = 0.0
    since: float = 0.0
    novel: float = 0.0
    pauses: Pauses = field(default_factory=list)
    rises: int = 0
    weight: float = 0.0
    bare: bool = False
    until: float = 0.0
    sure: float = 0.0
    begun: float = 0.0

    def advance(
        self,
        lines: Iterable[tuple[str, bool]],
        at: float,
        rested: float | None = 0.0,
        *,
        counts: bool = True,
    ) -> None:
        """Add the lines of one look, each with whether it may go on; the last was written at `at`.

        `counts`: whether their numbers count, or only those given to `count`. `rested`: until when the run
        could not work (it was suspended), which is no pause of its own; None: there was no look for a while,
        so that the lines show no pause.
        """
        first, key = True, 0
        rows: dict[int, list[list[float]]] = {}
        cycling: dict[int, _Cycling] = {}
        for text, unfinished in lines:
            shape = shape_of(text)
            values = shape.layout.values(text)
            key = shape.layout.key
            known = self.templates.get(key)
            if known is None and unfinished and not values:
                continue
            if first:
                self._note_silence(at, rested)
                first = False
            if known is None or known.healthy:
                self._take(rows, at)
            if known is None:
                known = self.templates[key] = line_templates.new(text, shape, at)
                known.healthy = line_templates.healthy(text, self.templates)
                self.novel = self.novel if unfinished else at
            self._note_lost(known)
            if known.repeats:
                cycling.setdefault(key, _Cycling(known.rose, set())).said.add(known.said(text, values))
            rows.setdefault(key, []).append(values if counts else [])
            self.said = key
            self._note_member(known, key, values, at)
        self._take(rows, at)
        self.wrote = max(self.wrote, at)
        self.begun = self.begun or at
        if not first:
            for key, each in cycling.items():
                self.templates[key].note_cycle(each.rose, each.said)
            self._note_progress(self._moved(), at, rested)
            self._forget()

    def _note_member(self, known: Template, key: int, values: list[float], at: float) -> None:
        """Process a line about one of several (a trial in a table): each has its own numbers."""
        about = known.about
        if about is None or len(values) < 2 or len(values) != len(known.numbers):
            return
        member = crc32(f"{key} {values[about]}".encode())
        own = self.templates.get(member)
        if own is None:
            text = f"{known.text} of {values[about]:g}"
            own = Template(text, known.names, known.bounds, at, member=True, times=known.times)
            self.templates[member] = own
        own.take([values], at)

    def _take(self, rows: dict[int, list[list[float]]], at: float) -> None:
        """Process the numbers of lines, by template."""
        for key, each in rows.items():
            self.templates[key].take(each, at)
        rows.clear()

    def _note_lost(self, lost: Template) -> None:
        """Count one more line without a number where there was one; restart after one that had it."""
        if not lost.healthy:
            return
        before = self.templates.get(lost.healthy)
        again = before is not None and before.last > lost.last
        lost.lost = 1 if again else lost.lost + 1

    @property
    def lost(self) -> Template | None:
        """Template whose lines have had NaN or infinity for some time in place of a number."""
        found = (each for each in self.templates.values() if each.lost >= LOST and self._stays_lost(each))
        return max(found, key=lambda each: each.lost, default=None)

    def _stays_lost(self, lost: Template) -> bool:
        before = self.templates.get(lost.healthy)
        return before is None or before.last <= lost.last

    def count(self, key: int, number: float, at: float, rested: float | None = 0.0) -> None:
        """Process a number that is known to be the training's.

        `key`: BEAT for the step of its Guard, OWN for the number found by the user's own pattern.
        """
        if key == BEAT and at > self.wrote:
            self._note_silence(at, rested)
            self.wrote, self.said = at, BEAT
        known = self.templates.setdefault(key, Template("", [0], [], at))
        known.take([[number]], at)
        self._note_progress(at if known.count == 1 else known.rose, at, rested)
        self.weight, self.until = 2.0, 0.0

    def renew(self, at: float = 0.0) -> None:
        """Begin another job, or the same one again, from `at` on.

        Its numbers start anew; what is known of the run's pauses is kept.
        """
        for each in self.templates.values():
            each.numbers, each.rose, each.changed, each.lost = [], 0.0, 0.0, 0
        self.wrote = self.moved = self.until = self.sure = 0.0
        self.novel = self.begun = at

    def forget_pauses(self) -> None:
        """Forget the run's pauses, which were learned from another source of progress than this job's."""
        for each in self.templates.values():
            each.after, each.stood = [], []
        self.pauses, self.rises, self.since = [], 0, 0.0

    def set_back(self, seconds: float) -> None:
        """Follow a clock that was set back."""
        for name in ("wrote", "moved", "novel", "sure", "begun"):
            if at := getattr(self, name):
                setattr(self, name, at - seconds)

    def _note_silence(self, at: float, rested: float | None) -> None:
        before = self.templates.get(self.said)
        if before and rested is not None and self.wrote:
            before.after = longest(before.after, at, at - max(self.wrote, rested))

    def _note_progress(self, moved: float, at: float, rested: float | None) -> None:
        if moved <= self.moved:
            return
        if self.moved and rested is not None:
            self._note_pause(at, moved, moved - max(self.moved, rested))
        self.rises += 1
        self.since = self.since or moved
        self.moved = moved

    def _note_pause(self, at: float, moved: float, gap: float) -> None:
        """Note a pause; a long one is allowed again after the line that began it, such as "saving"."""
        began = self._announced(moved) if gap >= LONG else None
        if began:
            began.stood = longest(began.stood, at, gap)
        else:
            self.pauses = longest(self.pauses, at, gap)

    def _announced(self, moved: float) -> Template | None:
        """Return the line of the rarest kind since the last rise, if it is rare.

        A line that came when most of the pause was over, such as an evaluation's result, did not begin it.
        """
        early = min((self.moved + moved) / 2, moved - LONG / 2)
        since = (each for each in self.templates.values() if self.moved <= each.last <= early)
        rarest = min(since, key=lambda each: each.count, default=None)
        return rarest if rarest and rarest.count * SELDOM <= max(self.rises, SELDOM) else None

    @property
    def _began_anew(self) -> bool:
        """True if a line since the last rise is of a new kind and is not repeated."""
        return any(each.count <= RARE and each.begun >= self.moved for each in self.templates.values())

    @property
    def _allowed(self) -> Pauses:
        """Earlier pauses that may occur now.

        These are the ones that no line announced, and those announced by a line that came since the last rise
        (all pauses, if that line is new).
        """
        new = self._began_anew
        since = [each for each in self.templates.values() if new or each.last >= self.moved]
        return [*self.pauses, *(pause for each in since for pause in each.stood)]

    @property
    def announced(self) -> str:
        """Rare line since the last rise that began long pauses before, or is of a new kind; else empty."""
        if not self.moved:
            return ""
        rare = [each for each in self.templates.values() if each.last >= self.moved and not each.weight]
        known = [each for each in rare if each.stood or (each.count < RARE and each.last >= self.wrote)]
        return max(known, key=lambda each: each.last, default=NOTHING).text

    def _moved(self) -> float:
        """Return when a clock that counts last rose.

        A clock that weighs more than all before begins the run's progress anew: what counted until then was
        something else.
        """
        own, late = self._clocks()
        self.until, self.sure = 0.0, self.begun
        most = min(max((weight for weight, _ in own), default=0.0), 2.0)
        if not most:
            return self._measured()
        if most > self.weight:
            self.weight, self.pauses, self.rises = most, [], 0
            self.moved = max(each.expected for weight, each in own if weight >= most)
        self.bare, least = most < 1, min(most, self.weight)
        rose = max((each.rose for weight, each in own if weight >= least), default=0.0)
        waits = [(weight, each) for weight, each in late if weight >= least - SLACK]
        if self.bare:
            self.until = self.begun + ONLY_WAITS
        elif waits:
            strong = (each.begun + ONLY_WAITS for weight, each in waits if weight >= max(least, 1.0))
            self.sure, self.until = rose, max(rose, min(strong, default=0.0))
        return max([rose, *(each.rose for _, each in waits)])

    def _measured(self) -> float:
        """Return when a measure last changed, if no number is a clock.

        A measure without a loss beside it, and without a trend, may come from a monitor, whatever the run
        does.
        """
        known = [each for each in self.templates.values() if each.count >= OFTEN or each.names]
        works = max((each.changed for each in known if each.trends or each.names), default=0.0)
        other = max((each.changed for each in known), default=0.0)
        if other > works:
            self.sure, self.until = max(works, self.begun), self.begun + ONLY_WAITS
        return max(works, min(other, self.until))

    def _clocks(self) -> tuple[list[tuple[float, Template]], list[tuple[float, Template]]]:
        """Return the clocks with their weights: the run's own, and those that began once these had stopped.

        A clock that began later may belong to something that waits or watches. It counts as the run's next
        stage if it is the training's by name or has a total, has gone on for longer than the clock before, or
        certainly continues it.
        """
        found = [(weight, each) for each in self.templates.values() if (weight := each.weight)]
        own, late = list[tuple[float, Template]](), list[tuple[float, Template]]()
        began = rose = 0.0
        for weight, each in sorted(found, key=lambda clock: clock[1].begun):
            next_one = 0.0 < rose <= each.begun
            if next_one and weight >= 1 and _takes_over(each, [before for _, before in own]):
                weight = max(weight, self.weight)
            elif (next_one and weight < 3 and not each.bounded) and (
                weight < 1 or each.rose - each.begun < rose - began
            ):
                late.append((weight, each))
                continue
            own.append((weight, each))
            if weight >= self.weight - SLACK:
                began, rose = began or each.begun, max(rose, each.rose)
        return own, late

    @property
    def progressed(self) -> float:
        """Time of the last progress.

        What may only be waiting counts for a while: it hides a hang for that long, and then never counted.
        """
        return self.moved if not self.until or self.moved < self.until else self.sure

    @property
    def worked(self) -> float:
        """Time at which a clock of its own last rose that is more than a bare count."""
        return max((each.rose for weight, each in self._clocks()[0] if weight >= 2), default=0.0)

    @property
    def stirred(self) -> float:
        """Time at which a number last rose that may become a clock, if there is none yet."""
        rose = (each.stirred for each in self.templates.values())
        return min(max(rose, default=0.0), self.begun + MOST)

    def _forget(self) -> None:
        """Keep the most frequent and the most recent templates."""
        if len(self.templates) <= KEPT:
            return
        ranked = sorted(
            self.templates.items(),
            key=lambda item: (
                item[1].weight > 0,
                bool(item[1].after or item[1].stood),
                item[1].count > 2,
                item[1].last,
            ),
        )
        for key, _ in ranked[: len(self.templates) - KEPT]:
            if key != self.said:
                del self.templates[key]

    @property
    def full(self) -> float:
        """Seconds allowed if the training may be over, or 0.

        It may be over if the clock that rose last has reached its total; not if that clock has restarted
        after its total before, nor if a clock that rose more often is short of its total (this was an
        evaluation within the training).
        """
        full = [each.full for each in self.templates.values() if each.rose >= self.moved > 0]
        reached = [number for number in full if number]
        reached = [number for number in reached if number.resets < AGAIN]
        rises = max((number.rises for number in reached), default=0)
        if not reached or any(each.unfinished > rises for each in self.templates.values()):
            return 0.0
        return min(max(max(number.rose - number.began for number in reached), UNKNOWN), DONE)

    def floor(self, now: float) -> float:
        """Return the least seconds allowed; fewer after long progress, or if the pauses are known."""
        lived = now - self.since if self.since else 0.0
        rhythm = (self.moved - self.since) / max(self.rises - 1, 1)
        grown_up = max(GROWN_UP, GROWN_UP_RISES * rhythm)
        if lived > 4 * grown_up or sum(gap > max(LONG, 2 * rhythm) for _, gap in self._paused) > 1:
            return KNOWN
        return USUAL if lived > grown_up else YOUNG

    @property
    def _paused(self) -> Pauses:
        return [*self.pauses, *(pause for each in self.templates.values() for pause in each.stood)]

    def silence(self, now: float) -> Limit:
        """Return for how long nothing may be written after the last line."""
        if full := self.full:
            return Limit(full, Reason.DONE)
        before = self.templates.get(self.said, NOTHING)
        often = before.count >= OFTEN or (len(before.after) > 1 and self.rises > OFTEN)
        # a line that was never the last of a look: what the run does is known, but not what follows it
        pauses = before.after if often and before.after else self._silences()
        seconds = patience(self._least(before, now, often=often), pauses, now, known=often)
        return self._limit(seconds, known=often)

    def _limit(self, seconds: float, *, known: bool) -> Limit:
        if not known:
            return Limit(seconds, Reason.SELDOM if self.rises > OFTEN else Reason.NEW)
        return Limit(seconds, Reason.YOUNG if seconds == YOUNG else Reason.KNOWN)

    def _least(self, before: Template, now: float, *, often: bool) -> float:
        """Return the least seconds allowed after such a line: the more often it came, the fewer."""
        if often:
            return self.floor(now)
        if self.rises <= OFTEN or not (before.after or before.count > RARE):
            return UNKNOWN
        return max(self.floor(now), USUAL) if before.count > RARE else YOUNG

    def due(self, now: float) -> float:
        """Return after how many seconds the next rise is late, which is no hang yet."""
        if self.rises < 2:
            return UNKNOWN
        return max((1.5 if self.rises > OFTEN else MULTIPLE) * self.known(now), SOON)

    def known(self, now: float) -> float:
        """Return the longest earlier pause that may occur now, in seconds; 0 if there was none."""
        return longest_of(self._allowed, now)

    def usual(self, now: float) -> float:
        """Return the longest earlier pause that no line announced."""
        return longest_of(self.pauses, now)

    def _silences(self) -> Pauses:
        return [pause for each in self.templates.values() for pause in each.after]

    def standstill(self, now: float) -> tuple[float, Limit] | None:
        """Return since when no clock rose although lines come, and how long it may; None: not judged."""
        novel = min(self.novel, self.moved + NOVEL) if self.moved else self.novel
        if self.wrote <= novel:
            return None
        if full := self.full:
            return max(self.progressed, novel), Limit(full, Reason.DONE)
        if not self.moved:
            return max(novel, self.stirred), Limit(UNKNOWN, Reason.START)
        since = max(self.progressed, novel)
        often = self.rises > OFTEN
        least = self.floor(now) if often else UNKNOWN
        if novel > self.moved:
            least = max(least, FIRST if self._began_anew else NEWS)
        cycles = (each.begun for each in self.templates.values() if each.repeats and each.last >= since)
        seconds = max(
            patience(least, self._allowed, now, known=often),
            self.until - since,
            max(cycles, default=0.0) + UNKNOWN - since,  # games, trials: the first ones may all be alike
        )
        if self.wrote <= since + SOON or self._nothing_since(
            novel
        ):  # it is silent, which is judged elsewhere
            seconds = max(seconds, self.wrote - since + self.silence(now).seconds)
        return since, self._limit(seconds, known=often)

    def _nothing_since(self, novel: float) -> bool:
        """Return True if nothing came after a line, up to `novel`; what came later is not known."""
        before = self.templates.get(self.said, NOTHING)
        return before.count <= RARE and before.begun <= novel
