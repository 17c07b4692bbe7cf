"""Policy of actions: from open incidents, limits and past actions to the next ones. Pure.

Each incident has one action at a time, in the configured order: stacks come before the requeue that ends what
they show. Each is decided anew in the round in which it begins, so that an incident that has ended, or was
acknowledged, stops the rest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from watchdogd.incidents import message_wording
from watchdogd.incidents.models import NextAction
from watchdogd.plugin import Advice
from watchdogd.remediation.models import BEGUN, DONE, EVIDENCE, FAILED, LOST, SKIPPED, Action, ActionRecord
from watchdogd.system import pathname
from watchdogd.system.times import fresh

DAY = 86400.0
REST = 600.0
"""Seconds before an action on a run is repeated, whatever asks for it: effects take time to show."""
GATHERED = 60.0
"""Seconds for which the evidence of one incident serves others of the same run."""
_FREE = frozenset({"evidence", "exec", "annotate"})
"""Kinds that change nothing about the run and so need no rest."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """Job of a run that is another user's: `why` watchdogd may not, and how its owner does it, by action."""

    why: str
    by_hand: Mapping[str, Advice]


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """An incident that asks for actions: for a run (empty: none), by a key, in this order.

    `foreign`: the run's job, if its owner alone may end it. `process`: the run is a plain process.
    """

    incident: int
    run: str
    trigger: str
    actions: tuple[Action, ...]
    foreign: Foreign | None = None
    process: bool = False


@dataclass(frozen=True, slots=True)
class ActionLimits:
    """Limits on all actions: `max_per_day` of each action for each run within any 24 hours.

    `certain`: it is known what was done before; if not, only harmless actions are done.
    """

    max_per_day: int = 3
    dry_run: bool = False
    certain: bool = True


@dataclass(frozen=True, slots=True)
class PendingAction:
    """An action that is asked for and not finished.

    `began`: when it began (None: not yet). `before`: the same action on the run, less than REST ago, which
    it must wait for. `refused`: why it will not be done, by the limits as they are.
    """

    request: ActionRequest
    action: Action
    began: float | None = None
    before: ActionRecord | None = None
    refused: str = ""

    def next(self, now: float) -> NextAction:
        """Return it in words, with when it comes if that is not at once."""
        found = self.action.next(process=self.request.process)
        if self.before is None:
            return replace(found, refused=self.refused)
        ago = now - self.before.at if self.before.ended else None
        return replace(found, when=message_wording.not_before(self.before.at + REST, ago))


def decide(
    cases: Iterable[ActionRequest], past: Sequence[ActionRecord], rules: ActionLimits, now: float, room: int
) -> list[ActionRecord]:
    """Return the actions to begin, at most `room`, and the skipped ones with the reason.

    `past` are all remembered actions.
    """
    known = {record.key: record for record in past}
    ordered: list[ActionRecord] = []
    for case in cases:
        for action in case.actions:
            if (before := known.get((case.incident, case.run, action.label))) and before.ended:
                continue
            if before or not _turn(case, action, known):
                break
            record = _ordered(case, action, [*past, *ordered], rules, now)
            if record is None or (not record.ended and room <= 0):
                break
            ordered.append(record)
            known[record.key] = record
            if not record.ended:
                room -= 1
                break
    return ordered


def pending(
    cases: Iterable[ActionRequest], past: Sequence[ActionRecord], rules: ActionLimits, now: float
) -> Iterator[PendingAction]:
    """Yield what is asked for and not finished, in order, with what the limits say of it."""
    known = {deed.key: deed for deed in past}
    for case in cases:
        for action in case.actions:
            deed = known.get((case.incident, case.run, action.label))
            if action == EVIDENCE or (deed and deed.ended):
                continue
            if deed:
                yield PendingAction(case, action, deed.at)
                continue
            if case.foreign and action.kind in case.foreign.by_hand:
                yield PendingAction(case, action, refused=case.foreign.why)
                continue
            before = _resting(action, _same(case.run, action, past), now)
            at = max(now, before.at + REST) if before else now
            expected = _limited(ActionRecord(case.incident, case.run, case.trigger, action, at), past, rules)
            refused = expected.outcome if expected.ended else ""
            yield PendingAction(case, action, None, None if refused else before, refused)


def forget(
    past: Iterable[ActionRecord], open_incidents: frozenset[int], now: float
) -> tuple[ActionRecord, ...]:
    """Return the actions that still matter: of the last day, of open incidents, or running."""
    return tuple(
        record
        for record in past
        if not record.ended or record.incident in open_incidents or abs(now - record.at) < DAY
    )


def _turn(case: ActionRequest, action: Action, known: dict[tuple[int, str, str], ActionRecord]) -> bool:
    """Return the sort key: evidence first, since actions may destroy it."""
    if action == EVIDENCE:
        return True
    return all(
        record.ended
        for record in known.values()
        if record.incident == case.incident and record.action == EVIDENCE
    )


def _ordered(
    case: ActionRequest, action: Action, past: Sequence[ActionRecord], rules: ActionLimits, now: float
) -> ActionRecord | None:
    """Return the action, begun or skipped; None if it must wait."""
    record = ActionRecord(case.incident, case.run, case.trigger, action, now)
    if action == EVIDENCE:
        other = _gathered(record, past)
        return _skipped(record, f"see evidence/{other}") if other else record
    if case.foreign and (by_hand := case.foreign.by_hand.get(action.kind)):
        return replace(_skipped(record, case.foreign.why), then=(by_hand,))
    if _resting(action, _same(case.run, action, past), now):
        return None
    return _limited(record, past, rules)


def _same(run: str, action: Action, past: Iterable[ActionRecord]) -> list[ActionRecord]:
    """Return the records of one action on one run that count against its limits."""
    return [each for each in past if (each.run, each.action) == (run, action) and _counts(each)]


def _resting(action: Action, same: Iterable[ActionRecord], now: float) -> ActionRecord | None:
    """Return the last of the `same` actions if it is too recent for another one."""
    recent = () if action.kind in _FREE else (each for each in same if abs(now - each.at) < REST)
    return max(recent, key=lambda each: each.at, default=None)


def _limited(record: ActionRecord, past: Iterable[ActionRecord], rules: ActionLimits) -> ActionRecord:
    """Return an action as it is, or skipped if a limit refuses it at that time."""
    same = _same(record.run, record.action, past)
    if sum(abs(record.at - each.at) < DAY for each in same) >= rules.max_per_day:
        return _skipped(record, f"{rules.max_per_day} today already (max_per_day)")
    if rules.dry_run:
        return _skipped(record, "dry run")
    if not (record.action.harmless or rules.certain):
        return _skipped(record, "the history cannot be read, so nobody knows what was done before")
    return record


def _counts(record: ActionRecord) -> bool:
    """Return True if it was done, or may have been."""
    return record.state in (BEGUN, DONE, FAILED, LOST)


def _gathered(record: ActionRecord, past: Sequence[ActionRecord]) -> int | None:
    """Return another incident of the run whose evidence was collected just now."""
    for each in past:
        same = each.action == EVIDENCE and each.run == record.run and each.state in (BEGUN, DONE)
        if same and record.run and fresh(each.at, record.at, GATHERED):
            return each.incident
    return None


def _skipped(record: ActionRecord, why: str) -> ActionRecord:
    return replace(record, state=SKIPPED, outcome=why, ended_at=record.at)


def uses(disk: str, places: Iterable[str]) -> bool:
    """Return True if one of a run's files (wildcards allowed) is below a disk's path.

    Paths are compared as written: links are not followed, since the file system may hang.
    """
    top = os.path.normpath(disk).rstrip("/") + "/"
    return any(_plain(place).startswith(top) for place in places if place)


def _plain(place: str) -> str:
    """Return the part of a path before its first wildcard."""
    plain = pathname.before_wildcard(place)
    return os.path.normpath(plain) + "/" if plain == place else plain
