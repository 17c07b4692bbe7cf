"""A Slurm script in a drop-in folder: submitted at its folder's interval and followed to its end.

The plugin runs in a worker at the daemon's interval.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from watchdogd.batch import slurm, slurm_snapshot
from watchdogd.batch.models import Ending, Snapshot
from watchdogd.checks.node_checks import ASK_SLURM
from watchdogd.daemon.dropins import dropin_job_result
from watchdogd.daemon.dropins.dropin_job_result import JobResult
from watchdogd.daemon.dropins.dropins import environment, refusal
from watchdogd.errors import SlurmError, SlurmOddError, SlurmSilentError
from watchdogd.home import markers
from watchdogd.home.file_trust import distrust, team_of
from watchdogd.home.layout import Home
from watchdogd.plugin import Advice, Result, Status, check, unknown
from watchdogd.system import umask
from watchdogd.system.smallfile import open_plain, read_head
from watchdogd.system.text import split_lines
from watchdogd.system.times import CronTimes

DEADLINE = 150.0
"""Seconds for one execution: two snapshots, and an sbatch that hangs."""
LOOK = 30.0
PATIENCE = 1800.0
"""Seconds of a silent Slurm, or of an unknown end, before that is reported."""
LAG = 60.0
"""Seconds to wait for accounting to complete the record of an ended job."""
SLACK = 1.0
SHOWN = 20
_RETRY, _RETRY_MOST = 60.0, 3600.0
_SCRIPT_LIMIT, _TAIL_LIMIT = 4_000_000, 20_000


@dataclass(frozen=True, slots=True)
class ScriptOptions:
    """Options for submitting a script.

    `output`: path, without job id and suffix, for output that the script does not direct outside home;
    `every`: seconds; `at`: times of day instead, counted from `since` on; `users`: those whose daemons share
    this home; `edited`: when the script was edited, in nanoseconds; `dry`: nothing is submitted.
    """

    path: str
    comment: str
    home: str
    output: str
    partition: str
    account: str
    every: float
    users: frozenset[str]
    edited: int
    dry: bool
    at: CronTimes | None = None
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class End:
    """Result of the last job, with the last lines of its output where it failed."""

    status: Status
    text: str
    tail: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """Consecutive refusals by sbatch, when to try again, and when the refused script was edited."""

    tries: int
    retry: float
    edited: int


@dataclass(slots=True)
class Followed:
    """State of a script's jobs.

    `job`: id of the job followed now, `name` its name, `seen` when it was last in the queue; `last`: id of
    the newest job, `submitted` when; `end`: result of the last ended one; `silent`: since when Slurm does not
    answer.
    """

    job: str | None = None
    name: str = ""
    seen: float = 0.0
    last: str | None = None
    submitted: float | None = None
    end: End | None = None
    refused: Refused | None = None
    silent: float | None = None


@check
def script(
    path: str,
    comment: str,
    home: str,
    output: str,
    partition: str,
    account: str,
    every: float,
    users: frozenset[str],
    edited: int,
    state: Followed,
    now: float,
    dry: bool = False,
    at: object = None,
    since: float = 0.0,
) -> Iterator[Result | Followed]:
    """Submit the script if it is due, and report on its job."""
    if not shutil.which("sbatch"):
        fix = Advice("Take the script out, or watch from where Slurm is.")
        yield unknown("there is no sbatch on this machine").saying(path, advice=[fix])
        return
    wish = ScriptOptions(path, comment, home, output, partition, account, every, users, edited, dry)
    if isinstance(at, CronTimes):
        wish = replace(wish, at=at, since=since)
    word = _step(wish, state, now)
    details = state.end.tail if state.end and word.status is not Status.OK else ""
    advice = (
        () if word.status is Status.OK or state.job else ASK_SLURM if state.silent else (_again(details),)
    )
    told = Result(word.status, word.text, details=details).saying(advice=word.advice or advice)
    yield told if word.since is None else told.dated(word.since)
    yield state


def _again(output: str) -> Advice:
    """Return what helps a script whose job failed; `output`: its last lines, as far as known."""
    what = "what its output below says" if output else "what its output says: the script names the file"
    return Advice(f"Correct {what}; watchdogd submits it again when it is due.")


def _step(wish: ScriptOptions, known: Followed, now: float) -> JobResult:
    if known.job is None and not _due(wish, known, now):
        return _last(known)
    seen = _look(wish, known, now)
    if seen.jobs is None:
        return _silent(known, seen.trouble, now)
    known.silent = None
    if known.job is None:
        _adopt(wish, known, seen, now)
    if known.job is not None:
        word = _follow(wish, known, known.job, seen, now)
        if word is not None:
            return dropin_job_result.worse(_last(known), word)
    return _submit(wish, known, now) if _due(wish, known, now) else _last(known)


def _due(wish: ScriptOptions, known: Followed, now: float) -> bool:
    """Return whether it is time to submit the script."""
    last, refused = known.submitted, known.refused
    if refused and refused.edited == wish.edited and now < refused.retry <= now + _RETRY_MOST:
        return False
    if wish.at is not None:
        return wish.at.following(wish.since if last is None else min(last, now)) <= now
    return last is None or last > now + SLACK or now - last >= wish.every - min(SLACK, wish.every / 20)


def _last(known: Followed) -> JobResult:
    end = known.end or End(Status.OK, "no job of it has ended yet")
    return JobResult(end.status, end.text)


def _look(wish: ScriptOptions, known: Followed, now: float) -> Snapshot:
    """Return a snapshot; taken twice where it is empty, as squeue of a busy controller may be."""
    before = {} if known.last is None else {known.last: known.seen}
    seen = slurm_snapshot.look((), wish.users, before, LOOK, now)
    empty = seen.jobs == () and not seen.endings
    return slurm_snapshot.look((), wish.users, before, LOOK, now) if empty else seen


def _silent(known: Followed, trouble: str, now: float) -> JobResult:
    """Return the last result with a note that Slurm is silent; UNKNOWN once that lasts."""
    known.silent = now if known.silent is None else known.silent
    since = min(known.silent, now)
    if now - since < PATIENCE:
        last = _last(known)
        return JobResult(last.status, f"{last.text}; Slurm does not answer now: {trouble}")
    return JobResult(Status.UNKNOWN, f"Slurm does not answer: {trouble}")


def _adopt(wish: ScriptOptions, known: Followed, seen: Snapshot, now: float) -> None:
    """Follow a job of this script that is not remembered: sbatch failed to report it, or the daemon died."""
    found = dropin_job_result.newest(seen.jobs or (), wish.comment)
    if found is None:
        since = (now - wish.every if known.submitted is None else known.submitted) - 60.0
        late = [each for each in seen.endings or () if (each.submitted_at or 0.0) > since]
        found = dropin_job_result.newest(
            (each for each in late if dropin_job_result.base(each) != known.last), wish.comment
        )
    if found is not None:
        _remember(known, dropin_job_result.base(found), found.name, min(found.submitted_at or now, now), now)


def _remember(known: Followed, job_id: str, name: str, submitted: float, now: float) -> None:
    known.job, known.last, known.name, known.submitted, known.seen = job_id, job_id, name, submitted, now
    known.refused = None


def _follow(
    wish: ScriptOptions, known: Followed, job_id: str, seen: Snapshot, now: float
) -> JobResult | None:
    """Judge the followed job; None once it is over and its end is noted."""
    jobs = [job for job in seen.jobs or () if dropin_job_result.belongs(job, job_id)]
    if jobs:
        known.seen, known.name = now, jobs[0].name
        return dropin_job_result.alive(jobs, job_id, wish.every, now)
    known.seen = min(known.seen, now)  # the clock may have been set back
    if markers.ended_with_watchdog(Home(Path(wish.home)), job_id):
        known.end = End(Status.OK, f"job {job_id} was ended with the watchdog")
        known.job = known.submitted = None  # an interrupted job is due again at once
        return None
    endings = _endings(wish, known, job_id, seen, now)
    if endings and now - known.seen < LAG and not all(each.complete for each in endings):
        return JobResult(Status.OK, f"job {job_id} is over; how it ended is being found out")
    if endings:
        word = dropin_job_result.over(endings, job_id)
        tail = "" if word.status is Status.OK else _tail(wish, endings)
    elif now - known.seen < PATIENCE:
        return JobResult(Status.OK, f"job {job_id} left the queue; how it ended is not known yet")
    else:
        why = f"job {job_id} is gone, not known how it ended"
        word, tail = JobResult(Status.UNKNOWN, why), ""
    known.end, known.job = End(word.status, word.text, tail), None
    return None


def _endings(wish: ScriptOptions, known: Followed, job_id: str, seen: Snapshot, now: float) -> list[Ending]:
    """Return the endings of the followed job's tasks, from accounting if the first snapshot has none."""
    found = [each for each in seen.endings or () if each.over and dropin_job_result.belongs(each, job_id)]
    if found:
        return found
    name = known.name or ","  # a name with a comma makes the snapshot ask accounting for all names
    again = slurm_snapshot.look((name,), wish.users, {}, LOOK, now)
    return [each for each in again.endings or () if each.over and dropin_job_result.belongs(each, job_id)]


def _submit(wish: ScriptOptions, known: Followed, now: float) -> JobResult:
    """Submit the script. After a refusal it is tried again at growing intervals."""
    if wish.dry:
        return dropin_job_result.worse(_last(known), JobResult(Status.OK, "a job would be submitted"))
    try:
        job_id = slurm.sbatch((*_options(wish), wish.path), "", environment(wish.home), umask.sane())
    except SlurmOddError as error:
        return JobResult(Status.UNKNOWN, f"not known yet whether a job was submitted: {error}")
    except SlurmSilentError as error:
        return _silent(known, str(error), now)  # the next look shows whether the job was taken
    except (SlurmError, OSError) as error:
        text = str(error) if isinstance(error, SlurmError) else f"the script cannot be read: {error.strerror}"
        tries = known.refused.tries if known.refused else 0
        pause = min(_RETRY * 2.0 ** min(tries, 6), _RETRY_MOST, wish.every)
        known.refused = Refused(tries + 1, now + pause, wish.edited)
        known.end = End(Status.CRITICAL, text)
        return JobResult(Status.CRITICAL, text)
    _remember(known, job_id, "", now, now)
    return dropin_job_result.worse(_last(known), JobResult(Status.OK, f"job {job_id} is submitted"))


def _options(wish: ScriptOptions) -> list[str]:
    """Return sbatch's options; those that the script sets itself are left out, since these would override it.

    SlurmError where the script may not be used, OSError where it cannot be read.
    """
    reason = distrust(Path(wish.path), team_of(wish.home))
    if reason:
        raise SlurmError(f"{refusal(wish.path, wish.home, reason)}: {reason.fix}")
    text, _ = read_head(wish.path, _SCRIPT_LIMIT, follow=True)
    named = given = slurm.script_options(text.decode("utf-8", "replace"))
    ending = wish.output.replace("%", "%%")
    # output within home would be a file for each run, for ever
    place = os.path.join(wish.home, named.get("chdir", ""), "")
    within = f"{os.path.realpath(wish.home)}/"
    paths = {key: os.path.join(place, named.get(key, "/")) for key in ("output", "error")}
    inside = {key for key, path in paths.items() if os.path.realpath(path).startswith(within)}
    named = {key: value for key, value in named.items() if key not in inside}
    ours = {
        "partition": wish.partition,
        "account": wish.account,
        "chdir": wish.home,
        "output": f"{ending}-%j.out",
        "error": f"{ending}-%j.err" if given.get("error") and "error" not in named else "",
    }
    missing = [f"--{key}={value}" for key, value in ours.items() if value and key not in named]
    return [f"--comment={wish.comment}", *missing]


def _tail(wish: ScriptOptions, endings: list[Ending]) -> str:
    """Return path and last lines of the first failed task's output, if that is in the file chosen here."""
    path = f"{wish.output}-{next(each for each in endings if not each.well).raw_id}.out"
    try:
        with open(open_plain(path), "rb") as file:
            file.seek(max(file.seek(0, 2) - _TAIL_LIMIT, 0))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join((f"{path}:", *split_lines(text)[-SHOWN:]))
