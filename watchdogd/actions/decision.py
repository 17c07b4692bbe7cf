"""Decision on what is to be done now: pure, from open incidents, rules and deeds to the next deeds.

Of each incident one thing is done at a time, in the order in which it is configured: stacks before the
requeue that ends what they show. Each is decided anew in the round in which it begins, so that an incident
which has ended, or which somebody took, stops the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from watchdogd.actions.deed import BEGUN, DONE, EVIDENCE, FAILED, LOST, SKIPPED, Action, Deed
from watchdogd.system.clock import fresh
from watchdogd.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DAY = 86400.0
REST = 600.0
"""Seconds until an action is repeated for a run, whatever asks for it: what it changed takes time to show."""
GATHERED = 60.0
"""Seconds for which the evidence of one incident serves others of the same run."""
_FREE = frozenset({"evidence", "exec"})
"""Kinds that change nothing of the run by themselves, and so need no rest."""


@dataclass(frozen=True, slots=True)
class Case:
    """An incident that asks for something: of a run (empty: of none), by a key, in this order."""

    incident: int
    run: str
    trigger: str
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules that hold for all: `max_per_day` of each action for each run within any 24 hours.

    `certain`: it is known what was done before; where not, only what is harmless is done.
    """

    max_per_day: int = 3
    dry_run: bool = False
    certain: bool = True


def decide(cases: Iterable[Case], past: Sequence[Deed], rules: Rules, now: float, room: int) -> list[Deed]:
    """Choose the deeds to begin, `room` at most, and those that are skipped, with the reason.

    `past` are all deeds that are remembered.
    """
    known = {deed.key: deed for deed in past}
    ordered: list[Deed] = []
    for case in cases:
        for action in case.actions:
            if (before := known.get((case.incident, case.run, action.label))) and before.ended:
                continue
            if before or not _turn(case, action, known):
                break
            deed = _ordered(case, action, [*past, *ordered], rules, now)
            if deed is None or (not deed.ended and room <= 0):
                break
            ordered.append(deed)
            known[deed.key] = deed
            if not deed.ended:
                room -= 1
                break
    return ordered


def forget(past: Iterable[Deed], open_incidents: frozenset[int], now: float) -> tuple[Deed, ...]:
    """Return those that still matter: of the last day, of incidents that are open, or under way."""
    return tuple(
        deed for deed in past if not deed.ended or deed.incident in open_incidents or abs(now - deed.at) < DAY
    )


def _turn(case: Case, action: Action, known: dict[tuple[int, str, str], Deed]) -> bool:
    """Evidence comes first: what is done may destroy it."""
    if action == EVIDENCE:
        return True
    return all(
        deed.ended for deed in known.values() if deed.incident == case.incident and deed.action == EVIDENCE
    )


def _ordered(case: Case, action: Action, past: Sequence[Deed], rules: Rules, now: float) -> Deed | None:
    """Return the deed, begun or skipped; None where it has to wait."""
    deed = Deed(case.incident, case.run, case.trigger, action, now)
    if action == EVIDENCE:
        other = _gathered(deed, past)
        return _skipped(deed, f"see evidence/{other}") if other else deed
    same = [each for each in past if (each.run, each.action) == (case.run, action)]
    if action.kind not in _FREE and any(_counts(each) and abs(now - each.at) < REST for each in same):
        return None
    if sum(_counts(each) and abs(now - each.at) < DAY for each in same) >= rules.max_per_day:
        limit = f"max_per_day = {rules.max_per_day}"
        return _skipped(deed, f"{limit}: it was done so often within {format_duration(DAY)}")
    if rules.dry_run:
        return replace(deed, state=DONE, outcome="dry run, nothing was done", ended_at=now)
    if not (action.harmless or rules.certain):
        return _skipped(deed, "the history cannot be read, so nobody knows what was done before")
    return deed


def _counts(deed: Deed) -> bool:
    """Return whether it was done, or may have been."""
    return deed.state in (BEGUN, DONE, FAILED, LOST)


def _gathered(deed: Deed, past: Sequence[Deed]) -> int | None:
    """Another incident of the run whose evidence was gathered just now."""
    for each in past:
        same = each.action == EVIDENCE and each.run == deed.run and each.state in (BEGUN, DONE)
        if same and deed.run and fresh(each.at, deed.at, GATHERED):
            return each.incident
    return None


def _skipped(deed: Deed, why: str) -> Deed:
    return replace(deed, state=SKIPPED, outcome=why, ended_at=deed.at)
