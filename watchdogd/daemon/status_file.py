"""status.json: the daemon's status as plain JSON, written every round and read by the verbs."""

from __future__ import annotations

import errno
import json
from dataclasses import asdict
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from watchdogd.incidents.confirmation import flapping
from watchdogd.incidents.models import AlertPolicy, AlertState, Incident, Observation
from watchdogd.plugin import Advice, Progress, Sign, Strength
from watchdogd.system.smallfile import STATUS_LIMIT, parse_json, read_plain
from watchdogd.units import finite, iso

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from watchdogd.daemon.registry.check_factory import Check
    from watchdogd.history.models import Gap
    from watchdogd.home.layout import Home
    from watchdogd.system.bounded_io import BoundedIO


def incident_json(incident: Incident) -> dict[str, Any]:
    return {
        "id": incident.id,
        "run": incident.run or None,
        "check": incident.check,
        "subject": incident.subject or None,
        "status": incident.status.name,
        "state": incident.state,
        "opened_at": iso(incident.opened_at),
        "since": iso(incident.began),
        "resolved_at": None if incident.resolved_at is None else iso(incident.resolved_at),
        "summary": incident.summary,
        "target": incident.target,
        "acknowledged_by": incident.acknowledged_by or None,
        "acknowledged_at": None if incident.acknowledged_at is None else iso(incident.acknowledged_at),
        "facts": list(incident.facts),
        "advice": [_advice_json(each) for each in incident.advice],
        "details": incident.details,
    }


def observation_json(observation: Observation, stamp: Callable[[float], str] = iso) -> dict[str, Any]:
    """Return a result as `check --json` prints it; `stamp` formats times, in whole seconds."""
    result = observation.result
    return {
        "check": observation.check,
        "run": observation.run or None,
        "subject": result.subject or None,
        "status": result.status.name,
        "summary": result.summary,
        "metrics": {
            name: {
                "value": finite(metric.value),
                "unit": metric.unit,
                "warn": finite(metric.warn),
                "crit": finite(metric.crit),
            }
            for name, metric in result.metrics.items()
        },
        "details": result.details,
        **({"facts": list(result.facts)} if result.facts else {}),
        **({"advice": [_advice_json(each) for each in result.advice]} if result.advice else {}),
        "progress": _progress_json(result.progress, stamp),
        **({"signs": [_sign_json(sign, stamp) for sign in result.signs]} if result.signs else {}),
        **({"run_state": result.run_state} if result.run_state else {}),
        **({"kind": result.kind} if result.kind else {}),
        **({"cells": _cells_json(result.cells, stamp)} if result.cells else {}),
        "at": stamp(observation.at // 1),
        "target": observation.target,
    }


def _advice_json(advice: Advice) -> dict[str, str]:
    return {"sentence": advice.sentence, "command": advice.command, "action": advice.action}


def _cells_json(cells: Mapping[str, str | float], stamp: Callable[[float], str]) -> dict[str, str]:
    return {title: cell if isinstance(cell, str) else stamp(cell // 1) for title, cell in cells.items()}


def declared_json(checks: Iterable[Check]) -> dict[str, Any]:
    """Return, by plugin, its checks, columns and charts, and whether it watches runs or disks."""
    found: dict[str, Any] = {}
    for check in checks:
        declared = check.entry.declared
        if check.entry.name not in found:
            charts = None if declared.charts is None else [asdict(chart) for chart in declared.charts]
            found[check.entry.name] = {
                "checks": [],
                "watches": declared.watches,
                "columns": [asdict(column) for column in declared.columns],
                "charts": charts,
            }
        found[check.entry.name]["checks"].append(check.name)
    return found


_HOW_FAR = ("done", "total", "unit", "pace", "said")
"""Fields of Progress that are left out where unknown."""


def _known(value: float | str | None) -> float | str | None:
    return finite(value) if not isinstance(value, str) else value or None


def _progress_json(progress: Progress | None, stamp: Callable[[float], str]) -> dict[str, Any] | None:
    if progress is None:
        return None
    return {
        "stalled": progress.stalled,
        "at": None if progress.at is None else stamp(progress.at // 1),
        "within": finite(progress.within),
        "pause": progress.pause,
        **{name: value for name in _HOW_FAR if (value := _known(getattr(progress, name))) is not None},
    }


def _sign_json(sign: Sign, stamp: Callable[[float], str]) -> dict[str, Any]:
    return {
        "kind": sign.kind,
        "what": sign.what,
        "at": stamp(sign.at // 1),
        "since": stamp(sign.since // 1),
        "strength": sign.strength.name,
    }


def signs_of(seen: Mapping[str, Any]) -> tuple[Sign, ...]:
    """Parse the signs in a result of `observation_json`."""
    return tuple(
        Sign(
            str(sign["kind"]),
            str(sign["what"]),
            datetime.fromisoformat(sign["at"]).timestamp(),
            datetime.fromisoformat(sign["since"]).timestamp(),
            Strength[sign["strength"]],
        )
        for sign in seen.get("signs", ())
    )


def progress_of(seen: Mapping[str, Any]) -> Progress | None:
    """Parse the progress in a result of `observation_json`."""
    progress = seen.get("progress")
    if not progress:
        return None
    at = None if progress["at"] is None else datetime.fromisoformat(progress["at"]).timestamp()
    known = {name: progress[name] for name in _HOW_FAR if name in progress}
    return Progress(bool(progress["stalled"]), at, progress["within"], str(progress["pause"]), **known)


def open_incidents(alerts: AlertState) -> list[Incident]:
    """Return all open incidents, most severe first."""
    found = [state.incident for state in alerts.states.values() if state.incident]
    live = [incident for incident in found if incident.resolved_at is None]
    return sorted(live, key=lambda incident: incident.weight)


def snapshot(
    alerts: AlertState,
    latest: Mapping[str, Iterable[Observation]],
    *,
    now: float,
    link: dict[str, Any] | None,
    gaps: Iterable[Gap],
    every: float,
    troubles: Iterable[str],
    policies: Mapping[str, AlertPolicy],
    declared: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the content of status.json.

    `every`: usual seconds between rounds, by which readers notice a dead daemon. `declared`: see
    `declared_json`. `flapping` incidents are marked: their messages are held back.
    """
    stamp = cache(iso)  # results of one round share few different times
    comes_and_goes = {
        state.incident.id
        for state in alerts.states.values()
        if state.incident and flapping(state, policies.get(state.check, AlertPolicy()), now)
    }
    return {
        "alive": True,
        "link": link,
        "last_round": iso(now),
        "round_every": every,
        "incidents": [
            {**incident_json(incident), "flapping": incident.id in comes_and_goes}
            for incident in open_incidents(alerts)
        ],
        "gaps": [{"begin": iso(gap.begin), "end": iso(gap.end), "reason": gap.reason} for gap in gaps],
        "declared": declared or {},
        "checks": [observation_json(seen, stamp) for results in latest.values() for seen in results],
        "silences": [
            {
                "target": silence.target,
                "until": iso(silence.until),
                "by": silence.by,
                "reason": silence.reason,
            }
            for silence in alerts.silences
            if silence.until > now
        ],
        "troubles": list(troubles),
    }


ROOM = 16_384
"""status.json is padded to a multiple of these bytes, so that it can be overwritten on a full disk."""


class StatusWriter:
    """Writer of status.json; on a full disk the file is overwritten in place.

    A tick or a new link has run few checks yet: results of its predecessor are kept until these checks run.
    """

    def __init__(self, home: Home, patient: BoundedIO) -> None:
        self._home = home
        self._patient = patient
        self._inherited: list[dict[str, Any]] | None = None

    def publish(self, status: dict[str, Any], known: Sequence[str]) -> None:
        """Write status.json; `known`: names of all checks in order.

        OSError or StuckError where home cannot be written.
        """
        self._patient.attempt(partial(self._write, status, known))

    def _write(self, status: dict[str, Any], known: Sequence[str]) -> None:
        home, status = self._home, status | {"checks": self._with_inherited(status["checks"], known)}
        text = json.dumps(status)
        try:
            home.write(home.status, text.ljust(len(text) + ROOM - len(text) % ROOM))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            if not home.overwrite(home.status, text):
                home.overwrite(home.status, json.dumps(status | {"checks": []}))
            why = "it takes no new file: it is full (bytes or inodes) or over quota: free space"
            raise OSError(error.errno, why, str(home.path)) from None

    def _with_inherited(self, said: list[dict[str, Any]], known: Sequence[str]) -> list[dict[str, Any]]:
        """Add the predecessor's results of checks that have not run yet, ordered as `known`."""
        if self._inherited is None:
            self._inherited = left_behind(self._home)
        heard, order = {seen["check"] for seen in said}, {name: place for place, name in enumerate(known)}
        self._inherited = [seen for seen in self._inherited if seen["check"] in order.keys() - heard]
        return sorted([*said, *self._inherited], key=lambda seen: order.get(seen["check"], len(order)))


def left_behind(home: Home) -> list[dict[str, Any]]:
    """Return the results in the existing status.json; none where it cannot be read."""
    try:
        found = parse_json(read_plain(home.status, limit=STATUS_LIMIT))["checks"]
        return [seen for seen in found if isinstance(seen["check"], str)]
    except (OSError, ValueError, KeyError, TypeError):
        return []
