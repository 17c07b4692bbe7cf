"""Policy of actions: from open incidents, limits and past actions to the next ones. Pure.

Each incident has one action at a time, in the configured order: stacks come before the requeue that ends what
they show. Each is decided anew in the round in which it begins, so that an incident that has ended, or was
acknowledged, stops the rest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from watchdogd.remediation.models import BEGUN, DONE, EVIDENCE, FAILED, LOST, SKIPPED, Action, ActionRecord
from watchdogd.system import pathname
from watchdogd.system.clock import fresh

DAY = 86400.0
REST = 600.0
"""Seconds before any action on a run is repeated, whatever asks for it: effects take time to show."""
GATHERED = 60.0
"""Seconds for which the evidence of one incident serves others of the same run."""
_FREE = frozenset({"evidence", "exec", "annotate"})
"""Kinds that change nothing about the run and so need no rest."""


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """An incident that asks for actions: for a run (empty: none), by a key, in this order."""

    incident: int
    run: str
    trigger: str
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class ActionLimits:
    """Limits on all actions: `max_per_day` of each action for each run within any 24 hours.

    `certain`: it is known what was done before; if not, only harmless actions are done.
    """

    max_per_day: int = 3
    dry_run: bool = False
    certain: bool = True


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
    cases: Iterable[ActionRequest], past: Iterable[ActionRecord]
) -> Iterator[tuple[ActionRequest, Action, float | None]]:
    """Yield what is asked for and not finished: request, action, and when it began (None: not yet)."""
    known = {deed.key: deed for deed in past}
    for case in cases:
        for action in case.actions:
            deed = known.get((case.incident, case.run, action.label))
            if action != EVIDENCE and (deed is None or not deed.ended):
                yield case, action, deed.at if deed else None


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
    same = [each for each in past if (each.run, each.action) == (case.run, action)]
    if action.kind not in _FREE and any(_counts(each) and abs(now - each.at) < REST for each in same):
        return None
    if sum(_counts(each) and abs(now - each.at) < DAY for each in same) >= rules.max_per_day:
        return _skipped(record, f"{rules.max_per_day} today already (max_per_day)")
    if rules.dry_run:
        return replace(record, state=DONE, outcome="dry run, nothing was done", ended_at=now)
    if not (action.harmless or rules.certain):
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
