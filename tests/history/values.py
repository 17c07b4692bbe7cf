"""Values to be stored, and a store to store them in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from watchdogd.config.loading import load
from watchdogd.history.models import Record
from watchdogd.history.store import Store
from watchdogd.home.layout import Home
from watchdogd.incidents.models import (
    AlertState,
    CheckState,
    EventKind,
    Incident,
    IncidentEvent,
    Observation,
    Silence,
)
from watchdogd.notify.notification import Item, Message, Notification
from watchdogd.plugin import Metric, Result, Status

_stores: list[Store] = []
NOW = 1_790_000_100.25


def new_home(folder: Path, group: int | None = None, url: str = "") -> Home:
    """A home with a configuration; `url` is that of its history, empty: the default."""
    home = Home(folder / "home")
    home.make(group)
    home.write(home.config, f'[history]\nurl = "{url}"\n' if url else "")
    return home


def opened(home: Home, *, owner: bool = True) -> Store:
    """The history of a home; `close_all` closes it at the end of the test at the latest."""
    store = Store.open(load(home).history.url, home, owner=owner)
    _stores.append(store)
    return store


def close_all() -> None:
    """Close what `opened` opened."""
    while _stores:
        _stores.pop().close()


def seen(
    at: float,
    *,
    check: str = "run-17/log_staleness",
    run: str = "run-17",
    target: str = "run-17",
    status: Status = Status.OK,
    summary: str = "log written 12 s ago",
    subject: str = "",
    **metrics: float,
) -> Observation:
    """One result."""
    named = {name: Metric(value, "s") for name, value in metrics.items()}
    return Observation(check, run, target, Result(status, summary, named, subject=subject), at)


def incident(number: int = 17, **changes: object) -> Incident:
    """An open incident, all fields set."""
    first = Incident(
        id=number,
        check="run-17/log_staleness",
        run="run-17",
        target="run-17",
        subject="node5",
        status=Status.CRITICAL,
        opened_at=NOW - 600,
        summary="no line for 31m",
        details="iteration 1200\niteration 1201",
        acknowledged_by="bob",
        acknowledged_at=NOW - 60.5,
        notified=Status.WARNING,
        first_notified_at=NOW - 500,
        notified_at=NOW - 400,
        silent="silenced by bob",
        doubt="squeue does not answer",
    )
    return replace(first, **changes)  # type: ignore[arg-type]  # names are checked by replace


def standing(
    at: float = NOW, *, streak: int = 3, about: Incident | None = None, **changes: object
) -> CheckState:
    """What is known of one check."""
    first = CheckState(
        check="run-17/log_staleness",
        subject="node5",
        status=Status.CRITICAL,
        summary="no line for 31m",
        at=at,
        since=NOW - 700,
        attempts=streak,
        flips=(NOW - 9000.5, NOW - 700),
        incident=about,
        hard=Status.CRITICAL,
        run="run-17",
        target="run-17",
    )
    return replace(first, **changes)  # type: ignore[arg-type]  # names are checked by replace


def alerts(*check_states: CheckState, **others: object) -> AlertState:
    """A book with silences."""
    silences = (Silence("scratch", NOW + 3600, "alice", "moving data"),)
    known = {(each.check, each.subject): each for each in check_states}
    return replace(AlertState(known, silences, next_id=42), **others)  # type: ignore[arg-type]  # as above


def notification(key: str = "k1@mail", state: str = "waiting", **changes: object) -> Notification:
    """A message on its way."""
    message = Message(
        headline="[CRITICAL] run-17: no line for 31m",
        body="Since 12:00\n    iteration 1201",
        status="CRITICAL",
        target="run-17",
        thread="incident-17",
        at=NOW,
        incidents=(17,),
        items=(Item("CRITICAL", "run-17/log_staleness", "no line for 31m", "node5", 17, NOW - 600),),
    )
    first = Notification(key, "mail", message, created_at=NOW, state=state, next_try=NOW + 5)
    return replace(first, **changes)  # type: ignore[arg-type]  # names are checked by replace


def opening(number: int = 17) -> IncidentEvent:
    """An incident opens."""
    return IncidentEvent(
        EventKind.OPENED,
        NOW,
        "run-17/log_staleness",
        "run-17",
        "run-17",
        "no line for 31m",
        incident=incident(number),
    )


def round_of(at: float, **values: float) -> Record:
    """A round that measured some things."""
    return Record(at, (seen(at, **values),))  # type: ignore[arg-type]  # metrics alone


def big(at: float, notes: int = 60) -> Record:
    """A round that surely needs new pages."""
    said = tuple(notification(f"{at}-{number}@mail", failure="x" * 2000) for number in range(notes))
    return Record(at, round_of(at, lag=at - NOW).observations, notifications=said)
