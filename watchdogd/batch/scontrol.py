"""Parsers of `scontrol show job` and `scontrol show config`."""

from __future__ import annotations

import re

from watchdogd.batch import slurmtext
from watchdogd.system.number import count, digits
from watchdogd.system.text import split_lines

_JOB = r"^JobId=(\d+) .*\n(?:(?!JobId=).*\n)*?"
"""Lines of one job up to a certain line."""
_EXIT = re.compile(rf"{_JOB} +Requeue=\d+ .*?ExitCode=(\d+):(\d+)", re.MULTILINE)
_STATE = re.compile(rf"{_JOB} +JobState=([A-Z_]+)", re.MULTILINE)
_USER = re.compile(rf"{_JOB} +UserId=([^(\n]+)\(\d+\)", re.MULTILINE)
_STDOUT = re.compile(r"^ +StdOut=(.*)$", re.MULTILINE)
_FILE = re.compile(r"^ +(StdErr|StdOut|WorkDir)=(/.*)$", re.MULTILINE)
_EXCLUDED = re.compile(r"(?:^|\s)ExcNodeList=(\S+)", re.MULTILINE)
_REQUESTED = re.compile(r"(?:^|\s)ReqNodeList=(\S+)", re.MULTILINE)
_HETEROGENEOUS = re.compile(r"(?:^|\s)(?:Het|Pack)JobId=\d", re.MULTILINE)
_DEMAND = {
    name: re.compile(rf"(?:^|\s){name}={value}", re.MULTILINE)
    for name, value in {"Partition": r"(\S+)", "Features": r"(\S+)"}.items()
}
_NODE_COUNT = re.compile(r"(?:^|\s)(?:NumNodes=|(?:Req)?TRES=(?:\S*,)?node=)(\d+)", re.MULTILINE)
_HOST = re.compile(r"^ +BatchHost=(\S+)", re.MULTILINE)
_PRIVATE = re.compile(r"^PrivateData\s*=\s*(\S+)", re.MULTILINE)


def exit_codes(text: str) -> dict[str, tuple[int, int]]:
    """Return raw id → (exit code, signal) in `scontrol show job ID`; an array's id shows all its tasks."""
    return {raw_id: (digits(code), digits(number)) for raw_id, code, number in _EXIT.findall(text)}


def states(text: str) -> dict[str, str]:
    """Return raw id → state in `scontrol show job ID`."""
    return dict(_STATE.findall(text))


def users(text: str) -> dict[str, str]:
    """Return raw id → user of the job."""
    return dict(_USER.findall(text))


def unknown_job(complaint: str) -> bool:
    """Return whether the controller says that there is no such job."""
    return "Invalid job id specified" in complaint


def hides_jobs(text: str) -> bool:
    """Return whether users do not see others' jobs (PrivateData=jobs), by `scontrol show config`."""
    match = _PRIVATE.search(text)
    return match is not None and "jobs" in match[1].split(",")


def stdout(text: str) -> str:
    """Return the path of the first job's output, or empty."""
    return _first(_STDOUT, text).strip()


def files(text: str, raw_id: str) -> dict[str, str]:
    """Return `StdErr`, `StdOut` and `WorkDir` of one job in `scontrol show job`, as far as they are set."""
    shown = re.split(r"^(?=JobId=)", text, flags=re.MULTILINE)
    return dict(_FILE.findall(next((each for each in shown if each.startswith(f"JobId={raw_id} ")), "")))


def excluded(text: str) -> str:
    """Return the host list that the first job excludes, or empty."""
    return _first(_EXCLUDED, text)


def requested(text: str) -> str:
    """Return the host list that the first job requests, or empty."""
    return _first(_REQUESTED, text)


def demand(text: str) -> tuple[str, int, str]:
    """Return partition, number of nodes and required features of the job in `scontrol show job`.

    Of a job that was requeued and is still ending, `NumNodes` counts the nodes that are not free yet, while
    its (Req)TRES keep the number that it asked for.
    """
    found = {name: match[1] for name, form in _DEMAND.items() if (match := form.search(text))}
    features = found.get("Features", "")
    nodes = max(map(digits, _NODE_COUNT.findall(text)), default=0)
    return found.get("Partition", ""), nodes, "" if features == "(null)" else features


def is_heterogeneous(text: str) -> bool:
    """Return whether `scontrol show job` shows a component of a heterogeneous job."""
    return _HETEROGENEOUS.search(text) is not None


def host(text: str) -> str:
    """Return the node of the first job's script, or empty before it has one."""
    return _first(_HOST, text)


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1] if match and match[1] != "(null)" else ""


def settings(text: str) -> dict[str, str]:
    """Return the settings in `scontrol show config`, a line each: `SelectType = select/cons_tres`."""
    pairs = (line.partition(" = ") for line in split_lines(text))
    return {key.strip(): value.strip() for key, sign, value in pairs if sign}


def words(text: str) -> dict[str, str]:
    """Return the `Key=value` words in the first line of `scontrol --oneliner show`."""
    pairs = (word.partition("=") for word in text.strip().partition("\n")[0].split())
    return {key: value for key, sign, value in pairs if sign}


_NODES = re.compile(r"^[ \t]*+Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES(?:_IDX)?=(.*)$", re.MULTILINE)
_GPU = re.compile(r"(?:^|,)gpu(?::[^:,()]+)*?(?::(\d+))?\((?:IDX:)?([^()]*+)\)")


def allocated_gpus(text: str) -> dict[str, int]:
    """Return node → GPUs of `Nodes=node[1-2] CPU_IDs=0-3 Mem=0 GRES=gpu:a100:4(IDX:0-3)`.

    Slurm before 20.11 writes `GRES_IDX=gpu:a100(IDX:0-3)`. Empty without such lines: the job waits, or
    `--details` was left out.
    """
    return {
        node: sum(_gpu_count(*found) for found in _GPU.findall(gres))
        for nodes, gres in _NODES.findall(text)
        for node in slurmtext.expand_hostlist(nodes)
    }


def _gpu_count(number: str, indices: str) -> int:
    """Return the number given, or else the count of the indices `0-1,3`."""
    if number:
        return digits(number)
    spans = [span.partition("-") for span in indices.split(",")]
    numbers = ((count(first), count(last or first)) for first, _, last in spans)
    return sum(last - first + 1 for first, last in numbers if first is not None and last is not None)
