"""Parser of squeue's output.

Text with own separators, not JSON: `squeue --json` differs by version and costs 27 times as much. Free text
(working folder, comment, name) is in the last fields, so that it cannot shift others, and with a random
`mark` no text can imitate a separator. Run it with `ENVIRONMENT` added to command.environment().
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from watchdogd.batch import slurmtext
from watchdogd.batch.models import WAITING_STATES, Job
from watchdogd.batch.slurmtext import ENVIRONMENT, FIELD, RECORD
from watchdogd.errors import UnreadableError
from watchdogd.system.number import digits
from watchdogd.system.text import split_lines
from watchdogd.system.times import slurm_duration

__all__ = ["ENVIRONMENT", "FORMAT", "argv", "read"]

_LETTERS, _FREE = "iAFTruPaENYDVSelZkj", "Zkj"
FORMAT = RECORD + FIELD.join(f"%{letter}" for letter in _LETTERS)
"""Value for `squeue --format`; `%i` is the id that users see, `%A` the raw one, `%j` the name."""

_START = re.compile(rf"{RECORD}(?=\d[^{RECORD}{FIELD}]*{FIELD}\d+{FIELD}\d+{FIELD}[A-Z_]+)")
_UNASKABLE = re.compile(r"""[,'"\\]|^\s|\s$""")
_STATE = re.compile(r"[A-Z_]+")


def argv(
    users: Iterable[str] = (), *, ended: bool = False, names: Iterable[str] = (), mark: str = ""
) -> tuple[str, ...]:
    """Return the squeue command of a round: all jobs of `users` in all partitions; no users: of all.

    `ended`: include jobs that ended within the controller's MinJobAge. `names`: only those names, if squeue
    accepts them (not with a comma in one); others may be included. `mark`: from `slurmtext.mark`, also for
    `read`.
    """
    form = FORMAT.replace(RECORD, RECORD + mark)
    for letter in _FREE:
        form = form.replace(f"{FIELD}%{letter}", f"{FIELD}{mark}%{letter}")
    chosen, called = ",".join(sorted(users)), sorted(names)
    who: tuple[str, ...] = (f"--user={chosen}",) if chosen else ()
    if called and not any(map(_UNASKABLE.search, called)):
        who += (f"--name={','.join(called)}",)
    states = ("--states=all",) if ended else ()
    return ("squeue", "--noheader", "--all", "--noconvert", *states, *who, f"--format={form}")


def read(text: str, mark: str = "") -> tuple[Job, ...]:
    """Return the jobs in squeue's order, without invalid records; UnreadableError where all are."""
    slurmtext.must_end("squeue", text)
    mark = slurmtext.marked(text, mark)
    before, *records = text.split(RECORD + mark) if mark else _START.split(text)
    for line in split_lines(before):
        if line.strip() and not line.startswith("CLUSTER: "):
            raise UnreadableError(f"squeue printed a line that is no job: {slurmtext.shown(line)}")
    return tuple(slurmtext.read_records(lambda record: _job(record.removesuffix("\n"), mark), records))


def _job(record: str, mark: str) -> Job:
    first, *free = record.split(FIELD + mark) if mark else (record,)
    fields = [*first.split(FIELD), *free] if mark else record.split(FIELD, len(_LETTERS) - 1)
    if len(fields) != len(_LETTERS):
        raise UnreadableError(f"squeue printed a job that breaks off: {slurmtext.shown(record)}")
    of = dict(zip(_LETTERS, fields, strict=True))
    state = slurmtext.state(of["T"])
    nodes = re.match(r"\d+", of["D"])
    if not _STATE.fullmatch(state) or not nodes:
        raise UnreadableError(f"squeue printed a job that makes no sense: {slurmtext.shown(record)}")
    array, times = of["i"].partition("_")[1], {key: slurmtext.time(of[key]) for key in "VSe"}
    waiting = state in WAITING_STATES
    never = state == "CANCELLED" and times["S"] == times["e"]  # squeue's form for cancelled while waiting
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
        time_limit=slurm_duration(of["l"]),
        work_dir=slurmtext.text(of["Z"]),
    )
