"""`qstat -f` of PBS Professional, OpenPBS and TORQUE into Jobs.

Long values are broken in the middle of words: PBS goes on after a tab, TORQUE after eight blanks, and a value
with a line break of its own without any indent. Times are local and have no zone.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from watchdogd.jobs import Job
from watchdogd.readers import slurmtext

if TYPE_CHECKING:
    from collections.abc import Mapping

_JOB = re.compile(r"Job Id: (\S+)")
_FIELD = re.compile(r" {4}([A-Za-z_][\w.]*) = (.*)")
_STATES = {
    "R": "RUNNING",
    "E": "COMPLETING",
    "S": "SUSPENDED",
    "U": "SUSPENDED",
    "Q": "PENDING",
    "H": "PENDING",
    "W": "PENDING",
    "T": "PENDING",
    "M": "PENDING",
    "B": "PENDING",
    "C": "COMPLETED",
    "F": "COMPLETED",
    "X": "COMPLETED",
}
"""PBS's letters in the words of Slurm that Job has; qstat(1B)."""


def read(text: str) -> tuple[Job, ...]:
    """The jobs, in the order of qstat."""
    return tuple(_job(job_id, fields) for job_id, fields in _records(text).items())


def gpus(text: str, job_id: str) -> dict[str, int]:
    """Host → GPUs of one job: from `exec_vnode` (PBS), or `exec_gpus` (TORQUE)."""
    fields = _records(text).get(job_id, {})
    found = dict.fromkeys(_hosts(fields), 0)
    for vnode in re.findall(r"\(([^()]*)\)", fields.get("exec_vnode", "")):
        for chunk in vnode.split("+"):
            host = re.split(r"[\[:]", chunk, maxsplit=1)[0]
            number = re.search(r":ngpus=(\d+)", chunk)
            found[host] = found.get(host, 0) + (int(number[1]) if number else 0)
    for entry in filter(None, fields.get("exec_gpus", "").split("+")):
        host = entry.partition("/")[0].removesuffix("-gpu")
        found[host] = found.get(host, 0) + 1
    return found


def _records(text: str) -> dict[str, dict[str, str]]:
    """Job id → its fields, with what was broken joined again."""
    jobs: dict[str, dict[str, str]] = {}
    fields: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if job := _JOB.fullmatch(line.strip()):
            name, fields = "", jobs.setdefault(job[1], {})
        elif field := _FIELD.fullmatch(line):
            name = field[1]
            fields[name] = field[2]
        elif name and line.strip():
            joined = line.removeprefix("\t").removeprefix(" " * 8)
            fields[name] += joined if joined != line else f"\n{line}"
    return jobs


def _job(job_id: str, fields: Mapping[str, str]) -> Job:
    started = _time(fields.get("stime") or fields.get("start_time") or "")
    limit = slurmtext.duration(fields.get("Resource_List.walltime", ""))
    hosts = _hosts(fields)
    return Job(
        id=job_id,
        raw_id=job_id,
        name=fields.get("Job_Name", ""),
        user=fields.get("Job_Owner", "").partition("@")[0],
        state=_STATES.get(fields.get("job_state", "").strip(), "UNKNOWN"),
        reason=fields.get("comment", ""),
        partition=fields.get("queue", ""),
        nodes=",".join(hosts),
        node_count=len(hosts) or 1,
        submitted_at=_time(fields.get("qtime", "")),
        started_at=started,
        ends_at=started + limit if started and limit else None,
        time_limit=limit,
    )


def _hosts(fields: Mapping[str, str]) -> list[str]:
    """`node1/0*8+node2/0*8`, or `node1/7+node1/6`: each host once, in their order."""
    entries = fields.get("exec_host", "").split("+")
    return list(dict.fromkeys(entry.partition("/")[0] for entry in entries if entry))


def _time(text: str) -> float | None:
    try:
        return time.mktime(time.strptime(text.strip(), "%a %b %d %H:%M:%S %Y"))
    except (ValueError, OverflowError):
        return None
