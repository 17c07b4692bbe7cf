"""What happened in a campaign, and what arrived: all that the judge is given. Times in seconds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

EVERYONE = "*"
"""In place of a channel: the fault keeps everything from being told."""


@dataclass(slots=True)
class Fault:
    """A fault between `begin` and `end`.

    `excuses` are the channels on which nobody could have told anything until `after` seconds behind its end,
    and the targets of which nobody could have known anything. `crash`: a sender may have been ended between
    sending and marking. `strands`: nobody who was ended can come back meanwhile. `unwritten`: nor can it be
    marked what was sent. `explains` are patterns of first lines that it may bring.
    """

    name: str
    begin: float
    end: float = float("inf")
    excuses: tuple[str, ...] = ()
    after: float = 0.0
    crash: bool = False
    strands: bool = False
    unwritten: bool = False
    explains: tuple[str, ...] = ()


@dataclass(slots=True)
class Truth:
    """What was so between `begin` and `end`, and is told with one of `statuses` within `bound` seconds.

    An `event` has no end: it is told however short it was, and nothing is told of its end.
    """

    name: str
    target: str
    begin: float
    bound: float
    end: float = float("inf")
    statuses: tuple[str, ...] = ("CRITICAL",)
    event: bool = False
    words: str = ""


@dataclass(slots=True)
class Request:
    """What somebody asked for, and it was done: `ack` of an incident, `silence` of a target until `end`."""

    verb: str
    target: str
    at: float
    incident: int = 0
    end: float = float("inf")


@dataclass(slots=True)
class Message:
    """What arrived. `confirmed`: its sender got the whole answer, and knows that it arrived."""

    channel: str
    key: str
    status: str
    target: str
    headline: str
    at: float
    confirmed: bool = True
    incidents: tuple[int, ...] = ()


@dataclass(slots=True)
class Sample:
    """How large all processes of the home together are: megabytes, descriptors of the largest, how many."""

    at: float
    memory: float
    descriptors: int
    processes: int


@dataclass(slots=True)
class Pace:
    """How many times as long as its own processor time a process of the campaign took that ended `at`."""

    at: float
    slower: float


@dataclass(slots=True)
class Journal:
    """A whole campaign. `beats` are the pings of good rounds; `left` is what should not be there in
    the end, a line each.
    """

    seed: int = 0
    mode: str = ""
    channels: tuple[str, ...] = ()
    end: float = 0.0
    faults: list[Fault] = field(default_factory=list)
    truths: list[Truth] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    pace: list[Pace] = field(default_factory=list)
    beats: list[float] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[tuple[float, str]]:
        """Yield all of it in the order of time, for people."""
        for fault in self.faults:
            yield fault.begin, f"fault {fault.name} begins"
            yield fault.end, f"fault {fault.name} is over"
        for truth in self.truths:
            yield truth.begin, f"truth {truth.name} of {truth.target} begins"
            if not truth.event:
                yield truth.end, f"truth {truth.name} of {truth.target} is over"
        for request in self.requests:
            yield request.at, f"request {request.verb} {request.target} {request.incident or ''}"
        for each in self.messages:
            doubt = "" if each.confirmed else "  (unconfirmed)"
            yield each.at, f"      {each.channel}: {each.headline}{doubt}"

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, path: Path) -> Journal:
        """Read what `save` wrote."""
        raw: dict[str, Any] = json.loads(path.read_text())
        parts = (("faults", Fault), ("truths", Truth), ("requests", Request))
        for name, kind in (*parts, ("messages", Message), ("samples", Sample), ("pace", Pace)):
            raw[name] = [kind(**each) for each in raw[name]]
        return cls(**raw)
