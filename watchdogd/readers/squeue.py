"""squeue's text into Jobs.

Text with separators of our own, not JSON: `squeue --json` differs by version and costs 27 times as much. The
free text (working folder, comment, name) stands last, so that nothing in it can shift a field. Run it with
`ENVIRONMENT` on top of command.environment().
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from watchdogd.errors import UnreadableError
from watchdogd.jobs import WAITING_STATES, Job
from watchdogd.readers import slurmtext
from watchdogd.readers.number import digits
from watchdogd.readers.slurmtext import ENVIRONMENT, FIELD, RECORD

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ENVIRONMENT", "FORMAT", "argv", "read"]

_LETTERS = "iAFTruPaENYDVSelZkj"
FORMAT = RECORD + FIELD.join(f"%{letter}" for letter in _LETTERS)
"""What to hand to `squeue --format`; `%i` is the id that people see, `%A` the raw one, `%j` the name."""

_START = re.compile(rf"{RECORD}(?=\d[^{RECORD}{FIELD}]*{FIELD}\d+{FIELD}\d+{FIELD}[A-Z_]+)")
_UNASKABLE = re.compile(r"""[,'"\\]|^\s|\s$""")
_STATE = re.compile(r"[A-Z_]+")


def argv(users: Iterable[str] = (), *, ended: bool = False, names: Iterable[str] = ()) -> tuple[str, ...]:
    """The one squeue of a round: all jobs of `users`, of every partition; no users: everybody's.

    `ended`: also those that ended within the controller's MinJobAge, in the same question. `names`: only
    those of these names, as far as squeue can be told (a comma in a name cannot): others may be among them.
    """
    chosen, called = ",".join(sorted(users)), sorted(names)
    who: tuple[str, ...] = (f"--user={chosen}",) if chosen else ()
    if called and not any(map(_UNASKABLE.search, called)):
        who += (f"--name={','.join(called)}",)
    states = ("--states=all",) if ended else ()
    return ("squeue", "--noheader", "--all", "--noconvert", *states, *who, f"--format={FORMAT}")


def read(text: str) -> tuple[Job, ...]:
    """The jobs in the order of squeue; UnreadableError with the offending line where one makes no sense."""
    slurmtext.must_end("squeue", text)
    before, *records = _START.split(text)
    for line in before.splitlines():
        if line.strip() and not line.startswith("CLUSTER: "):
            raise UnreadableError(f"squeue printed a line that is no job: {slurmtext.shown(line)}")
    return tuple(_job(record.removesuffix("\n")) for record in records)


def _job(record: str) -> Job:
    fields = record.split(FIELD, len(_LETTERS) - 1)
    if len(fields) != len(_LETTERS):
        raise UnreadableError(f"squeue printed a job that breaks off: {slurmtext.shown(record)}")
    of = dict(zip(_LETTERS, fields, strict=True))
    state = slurmtext.state(of["T"])
    nodes = re.match(r"\d+", of["D"])
    if not _STATE.fullmatch(state) or not nodes:
        raise UnreadableError(f"squeue printed a job that makes no sense: {slurmtext.shown(record)}")
    array, times = of["i"].partition("_")[1], {key: slurmtext.time(of[key]) for key in "VSe"}
    waiting = state in WAITING_STATES
    never = state == "CANCELLED" and times["S"] == times["e"]  # so squeue writes what was cancelled waiting
    return Job(
        id=of["i"],
        raw_id=of["A"],
        name=of["j"],
        user=of["u"],
        state=state,
        reason=slurmtext.text(of["r"]),
        array_id=of["F"] if array else "",
        tasks=slurmtext.tasks(of["i"]),
        partition=of["P"],
        account=slurmtext.text(of["a"]),
        comment=slurmtext.text(of["k"]),
        dependency=slurmtext.text(of["E"]),
        nodes="" if waiting else slurmtext.text(of["N"]),
        expected_nodes=slurmtext.text(of["Y"]) if waiting else "",
        node_count=digits(nodes[0]),
        submitted_at=times["V"],
        started_at=None if waiting or never else times["S"],
        start_estimate=times["S"] if waiting else None,
        ends_at=None if waiting else times["e"],
        time_limit=slurmtext.duration(of["l"]),
        work_dir=slurmtext.text(of["Z"]),
    )
