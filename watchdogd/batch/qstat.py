"""`qstat -f` of PBS Professional, OpenPBS and TORQUE, as text or JSON, into Jobs and Endings.

In text, long values are broken within words: PBS continues after a tab, TORQUE after eight blanks, and a
value with its own line break without indent. PBS's JSON may be invalid: environment variables have escapes
that JSON does not know, and numbers with leading zeros. Times are local, without zone.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from watchdogd.batch import slurmtext
from watchdogd.batch.models import Ending, Job
from watchdogd.errors import UnreadableError
from watchdogd.system.number import digits, whole
from watchdogd.system.times import slurm_duration

Records = Mapping[str, Mapping[str, str]]
"""Job id → its fields as text, those of `Resource_List` as `Resource_List.walltime`."""

JSON, TEXT, ENDED = ("-F", "json"), (), ("-x",)
_JOB = re.compile(r"Job Id: (\S+)")
_FIELD = re.compile(r" {4}([A-Za-z_][\w.]*) = (.*)")
_LONE_ESCAPE = re.compile(r'(\\[\\"/bfnrt]|\\u[0-9a-fA-F]{4})|\\')
_LEADING_ZERO = re.compile(r'(":\s*)(-?0\d[\w.]*|-?\d+[A-Za-z_][\w.]*)(?=\s*[,}\n])')
_MANY = re.compile(r"\[\](?=\.|$)")
"""Array as a whole: `88[].server`; a subjob is `88[3].server`."""
_STATES = {
    letter: state
    for letters, state in {
        "RB": "RUNNING", "E": "COMPLETING", "SU": "SUSPENDED", "QHWTM": "PENDING", "CFX": "COMPLETED",
    }.items()
    for letter in letters
}  # fmt: skip
"""PBS's letters and the words in Job; qstat(1B). B: an array of which some subjobs have begun."""
_KILLED = {-29: "TIMEOUT", -27: "OUT_OF_MEMORY", -26: "OUT_OF_MEMORY"}
"""JOB_EXEC_KILL_WALLTIME, _MEM and _VMEM in OpenPBS's job.h; other negative ones: it could not run."""
_SIGNALS = 256
"""Exit status of a job killed by a signal, less the signal's number."""
_DELETED = "91"
"""Substate of a job that was deleted, or terminated by the server."""


def argv(*, form: Iterable[str] = JSON, ids: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the qstat of all jobs and subjobs with all fields, or of those with `ids`, ended ones too."""
    chosen = tuple(ids)
    return ("qstat", *(ENDED if chosen else ()), "-t", "-f", *form, *chosen)


def records(text: str) -> dict[str, dict[str, str]]:
    """Return each job's fields; UnreadableError where the text is not qstat's."""
    if text.lstrip().startswith("{"):
        return _of_json(text)
    return _of_text(text)


def jobs(found: Records) -> tuple[Job, ...]:
    """Return the living jobs in qstat's order. An array whose subjobs are listed is left out.

    A job with an invalid state is skipped; UnreadableError where all are.
    """
    arrays = {_array(job_id) for job_id in found if _array(job_id) != job_id}
    living = [job_id for job_id, fields in found.items() if job_id not in arrays and not _over(fields)]
    return tuple(slurmtext.read_records(lambda job_id: _job(job_id, found[job_id]), living))


def endings(found: Records) -> tuple[Ending, ...]:
    """Return the ended jobs, oldest first; never an array as a whole."""
    ends = [_ending(job_id, fields) for job_id, fields in found.items() if _over(fields)]
    ends = [end for end in ends if not _MANY.search(end.id)]
    return tuple(sorted(ends, key=lambda end: end.ended_at or 0.0))


def gpus(text: str, job_id: str) -> dict[str, int]:
    """Return the GPUs of one job by host, from `exec_vnode` (PBS) or `exec_gpus` (TORQUE)."""
    fields = records(text).get(job_id, {})
    found = dict.fromkeys(_hosts(fields), 0)
    for vnode in re.findall(r"\(([^()]*)\)", fields.get("exec_vnode", "")):
        for chunk in vnode.split("+"):
            host = re.split(r"[\[:]", chunk, maxsplit=1)[0]
            number = re.search(r":ngpus=(\d+)", chunk)
            found[host] = found.get(host, 0) + (digits(number[1]) if number else 0)
    for entry in filter(None, fields.get("exec_gpus", "").split("+")):
        host = entry.partition("/")[0].removesuffix("-gpu")
        found[host] = found.get(host, 0) + 1
    return found


def _of_text(text: str) -> dict[str, dict[str, str]]:
    """Parse text, with broken lines joined."""
    found: dict[str, dict[str, str]] = {}
    fields: dict[str, str] = {}
    name = ""
    for line in text.split("\n"):
        if job := _JOB.fullmatch(line.strip()):
            name, fields = "", {}
            found.setdefault(job[1], fields)  # a second one with this id is not the server's
        elif field := _FIELD.fullmatch(line):
            name = field[1]
            fields[name] = field[2]
        elif name and line.strip():
            joined = line.removeprefix("\t").removeprefix(" " * 8)
            fields[name] += joined if joined != line else f"\n{line}"
        elif line.strip():
            raise UnreadableError(f"qstat printed a line that is no job: {line!r}")
    return found


def _of_json(text: str) -> dict[str, dict[str, str]]:
    try:
        said = _parsed(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"qstat printed JSON that cannot be read: {error}") from None
    if not isinstance(said, dict) or not isinstance(said.get("Jobs", {}), dict):
        raise UnreadableError(f"qstat printed JSON that holds no jobs: {text[:80]!r}")
    return {job_id: _flat(fields) for job_id, fields in said.get("Jobs", {}).items()}


def _parsed(text: str) -> Any:
    """Parse JSON, corrected if PBS wrote it wrongly."""
    try:
        return json.loads(text, strict=False)
    except ValueError:
        corrected = _LONE_ESCAPE.sub(lambda match: match[1] or "", text)
        return json.loads(_LEADING_ZERO.sub(r'\1"\2"', corrected), strict=False)


def _flat(fields: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in fields.items() if isinstance(fields, dict) else ():
        if isinstance(value, dict):
            found |= {f"{name}.{inner}": str(one) for inner, one in value.items()}
        else:
            found[name] = str(value)
    return found


def _over(fields: Mapping[str, str]) -> bool:
    return fields.get("job_state", "").strip() in ("C", "F", "X")


def _array(job_id: str) -> str:
    """Return the array's id of a subjob; other ids unchanged."""
    return re.sub(r"\[\d+\]", "[]", job_id)


def _job(job_id: str, fields: Mapping[str, str]) -> Job:
    letter = fields.get("job_state", "").strip()
    if letter not in _STATES:
        raise UnreadableError(f"qstat says of job {job_id} the unknown state {letter!r}")
    state = _STATES[letter]
    waiting = state == "PENDING"
    started = None if waiting else _started(fields)
    limit = slurm_duration(fields.get("Resource_List.walltime", ""))
    hosts = [] if waiting else _hosts(fields)
    queued = re.search(r"Queued:(\d+)", fields.get("array_state_count", ""))
    return Job(
        id=job_id,
        raw_id=job_id,
        name=fields.get("Job_Name", ""),
        user=_user(fields),
        state=state,
        reason=_reason(letter, fields),
        array_id=_array(job_id) if "[" in job_id else "",
        tasks=max(digits(queued[1]), 1) if queued and _MANY.search(job_id) else 1,
        partition=fields.get("queue", ""),
        account=fields.get("Account_Name", ""),
        dependency=fields.get("depend", ""),
        nodes=",".join(hosts),
        node_count=len(hosts) or 1,
        submitted_at=_time(fields.get("qtime", "")) or _time(fields.get("ctime", "")),
        started_at=started,
        start_estimate=_time(fields.get("estimated.start_time", "")) if waiting else None,
        ends_at=started + limit if started and limit else None,
        time_limit=limit,
        stdout=_output(fields),
        work_dir=fields.get("Variable_List.PBS_O_WORKDIR", ""),
    )


_OUTPUTS = ("Error_Path", "Output_Path")


def _output(fields: Mapping[str, str]) -> str:
    """Return the path of its output while it runs, or empty: PBS usually copies it at the end."""
    direct = "d" in fields.get("Keep_Files", "d")
    return fields.get("Output_Path", "").partition(":")[2] if direct else ""


def _reason(letter: str, fields: Mapping[str, str]) -> str:
    """Return why it waits: its holds (in Slurm's words), or else PBS's comment.

    PBS puts a system hold on a job whose dependencies are unfinished, too.
    """
    comment, holds = fields.get("comment", "").strip(), fields.get("Hold_Types", "n")
    if letter == "W":
        return f"BeginTime {fields.get('Execution_Time', '')}".strip()
    if letter != "H":
        return comment
    if "u" in holds or "p" in holds:
        return "Hold_Types u"
    if fields.get("depend") and "o" not in holds:
        return "Dependency"
    return f"Hold_Types {holds}" + (f": {comment}" if comment else "")


def _ending(job_id: str, fields: Mapping[str, str]) -> Ending:
    started = _started(fields)
    status = whole(fields.get("Exit_status", fields.get("exit_status", "")))
    state, signal = _end_state(fields, started, status), None
    if status is not None and status > _SIGNALS:
        status, signal = 0, status - _SIGNALS
    return Ending(
        id=job_id,
        raw_id=job_id,
        name=fields.get("Job_Name", ""),
        user=_user(fields),
        state=state,
        exit_code=None if status is None or status < 0 else status,
        signal=signal,
        submitted_at=_time(fields.get("qtime", "")) or _time(fields.get("ctime", "")),
        started_at=started,
        ended_at=_ended(fields),
        nodes=",".join(_hosts(fields)),
        reason=fields.get("comment", "").strip(),
        outputs=tuple(fields[name].partition(":")[2] for name in _OUTPUTS if name in fields),
    )


def _end_state(fields: Mapping[str, str], started: float | None, status: int | None) -> str:
    """Return the end state in Slurm's words. PBS does not say who deleted a job."""
    deleted = fields.get("substate", "").strip() == _DELETED
    if status == 0:
        return "COMPLETED"
    if status is None:
        return "CANCELLED" if deleted or started is None else "FAILED"
    if status in _KILLED:
        return _KILLED[status]
    if status < 0 or status > _SIGNALS:
        limit, used = (
            slurm_duration(fields.get(f"{name}.walltime", "")) for name in ("Resource_List", "resources_used")
        )
        if limit and used and used >= limit:
            return "TIMEOUT"
        if deleted:
            return "CANCELLED"
    return "FAILED"


def _started(fields: Mapping[str, str]) -> float | None:
    return _time(fields.get("stime") or fields.get("start_time") or "")


def _ended(fields: Mapping[str, str]) -> float | None:
    """Return when it left its nodes (PBS), was complete (TORQUE), or last changed."""
    known = (_time(fields.get(name, "")) for name in ("obittime", "comp_time", "mtime"))
    return next((at for at in known if at), None) or slurmtext.time(fields.get("history_timestamp", ""))


def _user(fields: Mapping[str, str]) -> str:
    return fields.get("Job_Owner", "").partition("@")[0]


def _hosts(fields: Mapping[str, str]) -> list[str]:
    """Return the hosts of `node1/0*8+node2/0*8` or `node1/7+node1/6`, in order without repeats."""
    entries = fields.get("exec_host", "").split("+")
    return list(dict.fromkeys(entry.partition("/")[0] for entry in entries if entry))


def _time(text: str) -> float | None:
    try:
        return time.mktime(time.strptime(text.strip(), "%a %b %d %H:%M:%S %Y"))
    except (ValueError, OverflowError):
        return None
