"""A Slurm script in a drop-in folder: submitted at its cadence as it is, and followed to its end.

It runs in a worker at the daemon's rhythm. Between looks `memory` holds: `job` (the id that is followed),
`name` (its job name), `seen` (when it was last in the queue), `submitted` (when the last one was), `last`
(its id), `end` (status, sentence and output of the last end), `tries`, `retry` and `edited` (after a
refusal), `silent` (since when Slurm does not answer). All times are seconds since the epoch.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from watchdogd.batch import sbatchlines, snapshot, submit
from watchdogd.batch.models import Ending, Snapshot
from watchdogd.engine import fate
from watchdogd.engine.executable import environment
from watchdogd.engine.fate import Word
from watchdogd.errors import SlurmError, SlurmOddError, SlurmSilentError
from watchdogd.home import stopmark
from watchdogd.home.layout import Home
from watchdogd.home.trust import distrust, team_of
from watchdogd.plugin import Result, Status, check, unknown
from watchdogd.system import umask
from watchdogd.system.plainfile import head, open_plain

DEADLINE = 150.0
"""Seconds for one execution: two looks at the queue, and an sbatch that hangs."""
LOOK = 30.0
PATIENCE = 1800.0
"""Seconds for which a Slurm that does not answer, or does not know how a job ended, is no news."""
LAG = 60.0
"""Seconds for which accounting may lag behind before an end is told without what only it knows."""
SLACK = 1.0
SHOWN = 20
_RETRY, _RETRY_MOST = 60.0, 3600.0
_SCRIPT_LIMIT, _TAIL_LIMIT = 4_000_000, 20_000


@dataclass(frozen=True, slots=True)
class Wish:
    """How a script is submitted. `output` is where its output goes when it names no file, without the job's
    id and ending; `every` in seconds; `users` are those whose daemons share this home; `edited` is when the
    script was (nanoseconds); `dry`: nothing is submitted."""

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
    memory: dict[str, Any],
    now: float,
    dry: bool = False,
) -> Result:
    """Submit what is due, and say what its job has come to."""
    if not shutil.which("sbatch"):
        return unknown("there is no sbatch on this machine: take the script out, or run it where Slurm is")
    wish = Wish(path, comment, home, output, partition, account, every, users, edited, dry)
    word = _step(wish, memory, now)
    details = memory["end"][2] if "end" in memory and word.status is not Status.OK else ""
    return Result(word.status, word.text, details=details)


def _step(wish: Wish, memory: dict[str, Any], now: float) -> Word:
    if "job" not in memory and not _due(wish, memory, now):
        return _last(memory)
    seen = _look(wish, memory, now)
    if seen.jobs is None:
        return _silent(memory, seen.trouble, now)
    memory.pop("silent", None)
    if "job" not in memory:
        _adopt(wish, memory, seen, now)
    if "job" in memory:
        word = _follow(wish, memory, seen, now)
        if word is not None:
            return fate.worse(_last(memory), word)
    return _submit(wish, memory, now) if _due(wish, memory, now) else _last(memory)


def _due(wish: Wish, memory: dict[str, Any], now: float) -> bool:
    """Whether the next one is to be submitted, as far as the time goes."""
    last = memory.get("submitted")
    if memory.get("edited") == wish.edited and now < memory["retry"] <= now + _RETRY_MOST:
        return False
    return last is None or last > now + SLACK or now - last >= wish.every - min(SLACK, wish.every / 20)


def _last(memory: dict[str, Any]) -> Word:
    """What the last one came to."""
    status, text, _ = memory.get("end", (int(Status.OK), "no job of it has ended yet", ""))
    return Word(Status(status), text)


def _look(wish: Wish, memory: dict[str, Any], now: float) -> Snapshot:
    """The queue; asked twice where it is empty, since a busy controller can time out with that (facts)."""
    known = {memory["last"]: memory["seen"]} if "last" in memory else {}
    seen = snapshot.look((), wish.users, known, LOOK, now)
    empty = seen.jobs == () and not seen.endings
    return snapshot.look((), wish.users, known, LOOK, now) if empty else seen


def _silent(memory: dict[str, Any], trouble: str, now: float) -> Word:
    """Slurm does not answer: the last word stands for a while."""
    since = min(memory.setdefault("silent", now), now)
    if now - since < PATIENCE:
        last = _last(memory)
        return Word(last.status, f"{last.text}; Slurm does not answer now: {trouble}")
    return Word(Status.UNKNOWN, f"Slurm does not answer: {trouble}")


def _adopt(wish: Wish, memory: dict[str, Any], seen: Snapshot, now: float) -> None:
    """Follow a job that was submitted, though nobody remembers it: sbatch failed to say so, or we ended."""
    found = fate.newest(seen.jobs or (), wish.comment)
    if found is None:
        since = memory.get("submitted", now - wish.every) - 60.0
        late = [each for each in seen.endings or () if (each.submitted_at or 0.0) > since]
        found = fate.newest((each for each in late if fate.base(each) != memory.get("last")), wish.comment)
    if found is not None:
        _remember(memory, fate.base(found), found.name, min(found.submitted_at or now, now), now)


def _remember(memory: dict[str, Any], job_id: str, name: str, submitted: float, now: float) -> None:
    memory.update(job=job_id, last=job_id, name=name, submitted=submitted, seen=now)
    for key in ("tries", "retry", "edited"):
        memory.pop(key, None)


def _follow(wish: Wish, memory: dict[str, Any], seen: Snapshot, now: float) -> Word | None:
    """What is to be said of the followed job; None once it is over and its end is noted in `memory`."""
    job_id = memory["job"]
    jobs = [job for job in seen.jobs or () if fate.belongs(job, job_id)]
    if jobs:
        memory.update(seen=now, name=jobs[0].name)
        return fate.alive(jobs, job_id, wish.every, now)
    memory["seen"] = min(memory["seen"], now)  # the clock may have been set back
    if stopmark.ended_job(Home(Path(wish.home)), job_id):
        memory["end"] = [int(Status.OK), f"job {job_id} was ended with the watchdog", ""]
        del memory["job"]
        memory.pop("submitted", None)  # what was cut short is due at once
        return None
    endings = _endings(wish, memory, seen, now)
    if endings and now - memory["seen"] < LAG and not all(fate.told(each) for each in endings):
        return Word(Status.OK, f"job {job_id} is over; how it ended is being found out")
    if endings:
        word = fate.over(endings, job_id)
        tail = "" if word.status is Status.OK else _tail(wish, endings)
    elif now - memory["seen"] < PATIENCE:
        return Word(Status.OK, f"job {job_id} left the queue; how it ended is not known yet")
    else:
        told = f"job {job_id} left the queue, and nobody can say how it ended"
        word, tail = Word(Status.UNKNOWN, told), ""
    memory["end"] = [int(word.status), word.text, tail]
    del memory["job"]
    return None


def _endings(wish: Wish, memory: dict[str, Any], seen: Snapshot, now: float) -> list[Ending]:
    """How the followed job's tasks ended; accounting is asked by name where the first look does not know."""
    found = [each for each in seen.endings or () if each.over and fate.belongs(each, memory["job"])]
    if found:
        return found
    name = memory["name"] or ","  # one with a comma makes the look ask accounting for all names
    again = snapshot.look((name,), wish.users, {}, LOOK, now)
    return [each for each in again.endings or () if each.over and fate.belongs(each, memory["job"])]


def _submit(wish: Wish, memory: dict[str, Any], now: float) -> Word:
    """Submit it. What Slurm refuses is tried again, less and less often."""
    if wish.dry:
        return fate.worse(_last(memory), Word(Status.OK, "a job would be submitted"))
    try:
        job_id = submit.sbatch((*_options(wish), wish.path), "", environment(wish.home), umask.sane())
    except SlurmOddError as error:
        return Word(Status.UNKNOWN, f"whether a job was submitted is not known yet: {error}")
    except SlurmSilentError as error:
        return _silent(memory, str(error), now)  # the next look shows whether the job was taken
    except (SlurmError, OSError) as error:
        text = str(error) if isinstance(error, SlurmError) else f"{wish.path}: {error.strerror}"
        memory["tries"] = memory.get("tries", 0) + 1
        memory["retry"] = now + min(_RETRY * 2.0 ** min(memory["tries"] - 1, 6), _RETRY_MOST, wish.every)
        memory["edited"] = wish.edited
        memory["end"] = [int(Status.CRITICAL), text, ""]
        return Word(Status.CRITICAL, text)
    _remember(memory, job_id, "", now, now)
    return fate.worse(_last(memory), Word(Status.OK, f"job {job_id} is submitted"))


def _options(wish: Wish) -> list[str]:
    """sbatch's options. On its command line they win over the script's own lines, so what the script names
    is left out. SlurmError where the script may not be used, OSError where it cannot be read."""
    reason = distrust(Path(wish.path), team_of(wish.home))
    if reason:
        raise SlurmError(f"is refused: {reason}")
    text, _ = head(wish.path, _SCRIPT_LIMIT, follow=True)
    named = sbatchlines.named(text.decode("utf-8", "replace"))
    ours = {
        "partition": wish.partition,
        "account": wish.account,
        "chdir": wish.home,
        "output": f"{wish.output.replace('%', '%%')}-%j.out",
    }
    missing = [f"--{key}={value}" for key, value in ours.items() if value and key not in named]
    return [f"--comment={wish.comment}", *missing]


def _tail(wish: Wish, endings: list[Ending]) -> str:
    """The last lines of the first failed task's output, where it is in our own file."""
    failed = next(each for each in endings if not each.well)
    try:
        with open(open_plain(f"{wish.output}-{failed.raw_id}.out"), "rb") as file:
            file.seek(max(file.seek(0, 2) - _TAIL_LIMIT, 0))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-SHOWN:])
