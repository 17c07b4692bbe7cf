"""What one round leaves behind, and what the next daemon finds: values between the engine and the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from watchdogd.incident import Book

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchdogd.incident import Event, Observation
    from watchdogd.notify.notification import Notification


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which nobody watched, and why."""

    begin: float
    end: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One round, stored in one transaction: all of it or nothing.

    `book` is the whole book after the round; the store writes what differs from what it wrote last.
    `memories` are the plugin memories that changed, by check; `started` the times at which checks were
    last started; `touches` who pressed what (switches, acks, silences), one line of text each.
    """

    at: float
    observations: tuple[Observation, ...] = ()
    book: Book = field(default_factory=Book)
    events: tuple[Event, ...] = ()
    notifications: tuple[Notification, ...] = ()
    memories: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    started: Mapping[str, float] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    touches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Past:
    """What a starting daemon finds in the history. `last_round` is None in a new home."""

    book: Book = field(default_factory=Book)
    memories: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    started: Mapping[str, float] = field(default_factory=dict)
    last_round: float | None = None
    waiting: tuple[Notification, ...] = ()
