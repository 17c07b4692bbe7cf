"""Values that the tests of notifications are made of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from watchdogd.errors import DeliveryError, HistoryError
from watchdogd.incidents.models import EventKind, Incident, IncidentEvent
from watchdogd.notify.notification import Item, Message, Notification, addressed
from watchdogd.plugin import Status

NOON = 1_780_000_000.0


def incident(number: int = 17, status: Status = Status.CRITICAL, **changes: object) -> Incident:
    """An open incident of run-17 that began 25 minutes before NOON."""
    values: dict[str, object] = {
        "check": "run-17/log_staleness",
        "run": "run-17",
        "target": "run-17",
        "subject": "",
        "opened_at": NOON - 1500,
        "summary": "no new line for 25m",
        "details": "iteration 811\niteration 812",
    }
    return Incident(number, status=status, **values | changes)  # type: ignore[arg-type]  # tests name fields freely


def event(
    kind: EventKind = EventKind.OPENED, about: Incident | None = None, **changes: object
) -> IncidentEvent:
    """What happened to an incident at NOON."""
    about = about or incident()
    values: dict[str, object] = {
        "at": NOON,
        "check": about.check,
        "run": about.run,
        "target": about.target,
        "summary": about.summary,
        "details": about.details,
        "incident": about,
    }
    return IncidentEvent(kind, **values | changes)  # type: ignore[arg-type]  # tests name fields freely


def message(number: int = 17, status: str = "CRITICAL", **changes: object) -> Message:
    """What is told of one incident."""
    values: dict[str, object] = {
        "headline": f"[{status}] run-{number}: no new line for 25m",
        "body": "Since noon.\n\n    iteration 812\n\nAnswer with:\n    watchdogd ack 17",
        "status": status,
        "target": f"run-{number}",
        "thread": f"incident-{number}",
        "at": NOON,
        "incidents": (number,),
        "items": (
            Item(status, f"run-{number}/log_staleness", "no new line", incident=number, since=NOON - 1500),
        ),
    }
    return Message(**values | changes)  # type: ignore[arg-type]  # tests name fields freely


def letter(
    number: int = 17, channel: str = "slack", name: str = "", now: float = NOON, **changes: object
) -> Notification:
    """A notification about one incident."""
    told = message(number, **{"at": now} | changes)  # type: ignore[arg-type]  # tests name fields freely
    return addressed(told, channel, now, name or f"incident-{number}-opened")


@dataclass
class Ledger:
    """A store as the outbox needs one: by key; what is sent, failed or expired stays so."""

    rows: dict[str, Notification] = field(default_factory=dict)
    calls: list[int] = field(default_factory=list)
    full: bool = False

    def record(self, notifications: Sequence[Notification]) -> None:
        """Store them with a round."""
        for notification in notifications:
            self.rows.setdefault(notification.key, replace(notification, id=len(self.rows) + 1))

    def settle(self, outcomes: Sequence[Notification]) -> None:
        """Store what became of them. HistoryError while `full`."""
        if self.full:
            raise HistoryError("history.db cannot be written: no space left on device")
        self.calls.append(len(outcomes))
        for outcome in outcomes:
            known = self.rows.get(outcome.key)
            if known is None or known.state in ("waiting", "diverted"):
                number = known.id if known else len(self.rows) + 1
                self.rows[outcome.key] = replace(outcome, id=number)

    def waiting(self) -> list[Notification]:
        """Return what is to be sent."""
        return [row for row in self.rows.values() if row.state == "waiting"]

    def notifications(self, *, since: float = 0.0, after: int = 0) -> list[Notification]:
        """Return what was created since then, and stored after that one."""
        return [row for row in self.rows.values() if row.created_at >= since and (row.id or 0) > after]

    def states(self) -> Mapping[str, str]:
        """The state of each key."""
        return {key: row.state for key, row in self.rows.items()}


@dataclass
class Script:
    """A sender that does what it is told: it raises the next of `faults`, or takes the message."""

    faults: list[DeliveryError | None] = field(default_factory=list)
    always: DeliveryError | None = None
    before: Callable[[Notification], None] = lambda _notification: None
    tried: list[str] = field(default_factory=list)
    taken: list[Notification] = field(default_factory=list)
    roots: list[tuple[str, ...]] = field(default_factory=list)
    closed: bool = False
    threaded: bool = False

    def send(self, notification: Notification, roots: Sequence[Notification], /) -> str:
        """Take it, or fail."""
        self.tried.append(notification.key)
        self.before(notification)
        fault = self.faults.pop(0) if self.faults else self.always
        if fault is not None:
            raise fault
        self.taken.append(notification)
        self.roots.append(tuple(root.receipt for root in roots))
        return f"receipt of {notification.key}"

    def close(self) -> None:
        """Told to end."""
        self.closed = True

    @property
    def keys(self) -> list[str]:
        """The keys that were taken, in order."""
        return [notification.key for notification in self.taken]

    @property
    def headlines(self) -> list[str]:
        """The first lines that were taken, in order."""
        return [notification.message.headline for notification in self.taken]
