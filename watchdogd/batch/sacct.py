"""Parser of sacct's output: Endings, the latest record of each job, and the ends of steps.

Free text (comment, submit line, name) is in the last fields; a record may span lines, since names may; with a
random `mark`, no text can imitate a separator. Accounting stores comments only at some sites
(AccountingStoreFlags), and submit lines since 21.08: own jobs are recognised by either.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from watchdogd.batch import slurmtext
from watchdogd.batch.models import OWN_MARK, Ending
from watchdogd.batch.slurmtext import ENVIRONMENT, FIELD
from watchdogd.errors import UnreadableError
from watchdogd.system.number import whole
from watchdogd.system.text import split_lines

__all__ = ["ENVIRONMENT", "argv", "read"]

_FIELDS = (
    "JobIDRaw", "JobID", "State", "ExitCode", "Submit", "Start", "End", "User", "UID", "NodeList", "Reason",
    "Comment", "SubmitLine", "JobName",
)  # fmt: skip
_BY = re.compile(r"CANCELLED by (\S+)")
_UNASKABLE = re.compile(r"""[,'"`\\\[\]]|^\s|\s$""")
_REFUSED = re.compile(r'Invalid field requested: "(\w+)"')
_CAUSES = ("OUT_OF_MEMORY", "NODE_FAIL")
"""States of steps that are the cause of the job's end, whatever its own state."""
_KILLS = (1, 2, 9, 15)
"""Signals by which steps are killed from outside."""
_SLACK = 60.0
"""Seconds by which a step's times may lie outside its job's."""
_NEEDED = frozenset({"JobIDRaw", "JobID", "State", "ExitCode", "JobName"})


def argv(
    users: Iterable[str],
    names: Iterable[str] = (),
    *,
    since_minutes: int,
    states: Collection[str] = (),
    without: Collection[str] = (),
    mark: str = "",
) -> tuple[str, ...]:
    """Return the sacct command of a round: jobs of `users` with one of `names` in the last `since_minutes`.

    Without `states`, sacct leaves out what was never eligible to start, such as a job that was cancelled
    while it was held (tested with 22.05); with them, it lists the jobs that ended so.

    sacct fails altogether for an unknown user (tested with 22.05). A name with a comma, a quote or a
    backslash cannot be given: then all names are listed. `without`: fields that this sacct does not know (see
    `refused_field`). `mark`: from `slurmtext.mark`, also for `read`.
    """
    wanted = sorted(names)
    only = () if any(map(_UNASKABLE.search, wanted)) or not wanted else (f"--name={','.join(wanted)}",)
    return (
        "sacct",
        "--allocations",
        "--duplicates",
        "--noheader",
        "--parsable2",
        f"--delimiter={FIELD}{mark}",
        f"--user={','.join(sorted(users))}",
        *only,
        f"--starttime=now-{since_minutes}minutes",
        *((f"--state={','.join(states)}", "--endtime=now") if states else ()),
        f"--format={','.join(each for each in _FIELDS if each not in without)}",
    )


def steps_argv(
    jobs: Iterable[str], *, since_minutes: int, without: Collection[str] = (), mark: str = ""
) -> tuple[str, ...]:
    """Return the sacct command that lists the steps of these jobs, by raw ids."""
    return (
        *("sacct", "--duplicates", "--noheader", "--parsable2", f"--delimiter={FIELD}{mark}"),
        f"--jobs={','.join(sorted(jobs))}",
        f"--starttime=now-{since_minutes}minutes",
        f"--format={','.join(each for each in _FIELDS if each not in without)}",
    )


def accounting_name(name: str) -> str:
    """Return a job's name with all quotes alike: accounting stores `"` as a backtick (tested with 22.05)."""
    return re.sub("['\"]", "`", name)


def refused_field(complaint: str) -> str:
    """Return the optional field that this sacct does not know, by its error; else empty."""
    match = _REFUSED.search(complaint)
    return match[1] if match and match[1] in _FIELDS and match[1] not in _NEEDED else ""


def read(text: str, without: Collection[str] = (), mark: str = "") -> tuple[Ending, ...]:
    """Return one Ending for each job, oldest end first, living ones last.

    Invalid records are skipped; UnreadableError with the offending line where all are.
    """
    return read_all(text, without, mark)[0]


def read_all(
    text: str, without: Collection[str] = (), mark: str = ""
) -> tuple[tuple[Ending, ...], tuple[Ending, ...]]:
    """Return the Endings of `read`, and those of earlier attempts (requeues), oldest first."""
    latest: dict[str, Ending] = {}
    earlier: list[Ending] = []
    for ending in _records(text, without, mark):
        held = latest.get(ending.raw_id)
        if "." in ending.raw_id:
            continue
        if held is None or (held.submitted_at or 0) <= (
            ending.submitted_at or 0
        ):  # a requeue is a submission
            latest[ending.raw_id] = ending
            earlier += [held] if held else []
        else:
            earlier.append(ending)
    return tuple(sorted(latest.values(), key=_order)), tuple(sorted(earlier, key=_order))


def read_steps(text: str, without: Collection[str] = (), mark: str = "") -> tuple[Ending, ...]:
    """Return the steps only (`615.0`, `615.batch`), in order. Errors as of `read`."""
    return tuple(each for each in _records(text, without, mark) if "." in each.raw_id)


def with_step(end: Ending, steps: Iterable[Ending]) -> Ending:
    """Return the end with its most informative step, where that says more than the job.

    The script may go on after the step and return another exit code.
    """
    own = [
        step
        for step in steps
        if step.raw_id.partition(".")[0] == end.raw_id and _within(end, step) and _telling(end, step)
    ]
    if not own:
        return end
    step = min(own, key=lambda each: (each.state not in _CAUSES, each.ended_at or 0.0))
    name = step.raw_id.partition(".")[2]
    return replace(end, step=f"{name if name == 'batch' else f'step {name}'}: {step.how}")


def _telling(end: Ending, step: Ending) -> bool:
    """Return whether the step's end is the cause of the job's end rather than a consequence.

    A step whose task died by a signal is CANCELLED, with the signal (tested with 22.05).
    """
    if step.state in _CAUSES:
        return step.state != end.state
    crashed = step.state in ("FAILED", "CANCELLED") and step.signal not in (None, 0, end.signal, *_KILLS)
    return crashed and end.state == "FAILED"


def _within(end: Ending, step: Ending) -> bool:
    """Return whether it is of this attempt: ids are reused, and a requeue has steps with the same numbers."""
    begin, over = end.started_at or 0.0, end.ended_at or float("inf")
    return begin - _SLACK <= (step.ended_at or 0.0) <= over + _SLACK


def _records(text: str, without: Collection[str], mark: str) -> list[Ending]:
    slurmtext.must_end("sacct", text)
    between = FIELD + slurmtext.marked(text, mark)
    before, *records = _start(between).split(text)
    for line in filter(str.strip, split_lines(before)):
        raise UnreadableError(f"sacct printed a line that is no job: {slurmtext.shown(line)}")
    names = [each for each in _FIELDS if each not in without]
    counted = -1 if between != FIELD else len(names) - 1
    return slurmtext.read_records(
        lambda record: _ending(record.removesuffix("\n").split(between, counted), names), records
    )


def _order(ending: Ending) -> tuple[bool, float]:
    return ending.ended_at is None, ending.ended_at or 0.0


def _start(between: str) -> re.Pattern[str]:
    """Return the pattern of a record's beginning; `between`: the separator of fields."""
    word = rf"[^{FIELD}\n]*{between}"  # begins with one digit or letter only: linear time
    return re.compile(rf"^(?=\d{word}\d{word} *[A-Z_]{word}\d+:\d+{between})", re.MULTILINE)


def _ending(fields: Sequence[str], names: Sequence[str]) -> Ending:
    if len(fields) != len(names):
        said = slurmtext.shown(FIELD.join(fields))
        raise UnreadableError(f"sacct printed a job that breaks off: {said}")
    of = {**dict.fromkeys(_FIELDS, ""), **dict(zip(names, fields, strict=True))}
    code, _, signal = of["ExitCode"].partition(":")
    ended = whole(code), whole(signal)
    if None in ended:
        raise UnreadableError(
            f"sacct printed a job that makes no sense: {slurmtext.shown(FIELD.join(fields))}"
        )
    by = _BY.match(of["State"])
    own = f"--comment={OWN_MARK}" in of["SubmitLine"] and not of["Comment"]
    nodes, started, over = (
        slurmtext.text(of["NodeList"]),
        slurmtext.time(of["Start"]),
        slurmtext.time(of["End"]),
    )
    never = started == over and not nodes  # of a job that never started, Start is its End (22.05)
    return Ending(
        id=of["JobID"],
        raw_id=of["JobIDRaw"],
        name=of["JobName"],
        user=of["User"] or of["UID"],
        state=slurmtext.state(of["State"]),
        exit_code=ended[0],
        signal=ended[1],
        submitted_at=slurmtext.time(of["Submit"]),
        started_at=None if never else started,
        ended_at=over,
        nodes=nodes,
        cancelled_by=by[1] if by else "",
        comment=OWN_MARK if own else of["Comment"],
        reason=slurmtext.text(of["Reason"]),
    )
