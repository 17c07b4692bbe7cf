"""Processes on every node of a job, started by srun, with one deadline for all.

`srun --jobid --overlap` shares the job's resources; with `--gres=none` a step would not see the GPUs where
ConstrainDevices is set. That option is for Slurm before 20.11, which has no `--overlap` and whose steps share
all but generic resources. Slurm starts steps only for the job's owner (tested with 22.05: not even for root).
Inherited SLURM_* variables would make srun hang: `command.environment` removes them.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from watchdogd.system import command
from watchdogd.system.command import Failure
from watchdogd.system.text import split_lines

_LABELLED = re.compile(r"\s*(\d+): ?(.*)")
_NODE = re.compile(r"^@@ node (\S+)", re.MULTILINE)
_DENIED = re.compile(r"access/permission denied|invalid user", re.IGNORECASE)
_LAUNCH = re.compile(r"[Tt]ask launch for \S+ failed on node (\S+): (.*)")
_NOISE = re.compile(r"srun: (?:error: )?(?:Job step aborted|Timed out waiting|Terminating|Force Terminated)")
_NO_OVERLAP = re.compile(r"unrecognized option '?--overlap")
_STARTING = 1.5
"""Seconds that must be left for a second attempt."""


@dataclass(frozen=True, slots=True)
class NodeOutputs:
    """Outputs by node, and nodes without one, each with the reason.

    `denied`: Slurm starts no step of this user in the job. `trouble`: why no node could be asked.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)
    denied: bool = False
    trouble: str = ""


def run_on_nodes(job: str, nodes: Collection[str], argv: Sequence[str], *, deadline: float) -> NodeOutputs:
    """Run `argv` on each of these nodes of the job with this raw id, all at once, for `deadline` seconds.

    `argv` must print `@@ node NAME` ($SLURMD_NODENAME) first, and must end by itself: what hangs in a node's
    kernel is left behind. A node that cannot start it stops the start on all: srun runs again without it.
    """
    until = time.monotonic() + deadline
    texts: dict[str, str] = {}
    silent: dict[str, str] = {}
    sharing = "--overlap"
    while left := [node for node in nodes if node not in texts and node not in silent]:
        seconds = max(round(until - time.monotonic(), 1), 0.1)
        answer = command.ask(_srun(job, left, argv, sharing), deadline=seconds, env=command.environment())
        if sharing == "--overlap" and _NO_OVERLAP.search(answer.errors):
            sharing = "--gres=none"
            continue
        texts |= _texts(answer.output)
        refused = {node: why.strip() for node, why in _LAUNCH.findall(answer.errors) if node in left}
        if not texts and not refused and not answer.ok:
            return _nothing(answer, left, silent)
        silent |= refused
        if not refused or until - time.monotonic() < _STARTING:
            why = answer.why or reason(answer.errors) or "it said nothing"
            silent |= {node: why for node in left if node not in texts and node not in silent}
    return NodeOutputs(texts, silent)


def _nothing(answer: command.Answer, nodes: Sequence[str], silent: Mapping[str, str]) -> NodeOutputs:
    """Return the result where no node could be asked."""
    if _DENIED.search(answer.errors):
        return NodeOutputs(denied=True, trouble=reason(answer.errors))
    if answer.silent and answer.failure is not Failure.UNSTARTED:
        return NodeOutputs(silent={**silent, **dict.fromkeys(nodes, answer.why)})
    return NodeOutputs(silent=silent, trouble=reason(answer.errors) or answer.complaint())


def _srun(job: str, nodes: Sequence[str], argv: Sequence[str], sharing: str) -> tuple[str, ...]:
    return (
        "srun",
        f"--jobid={job}",
        sharing,
        f"--nodelist={','.join(nodes)}",
        f"--nodes={len(nodes)}",
        f"--ntasks={len(nodes)}",
        "--ntasks-per-node=1",
        "--cpu-bind=none",
        "--mpi=none",
        "--chdir=/",
        "--input=none",
        "--kill-on-bad-exit=0",
        "--job-name=watchdogd",
        "--label",
        "--",
        *argv,
    )


def _texts(output: str) -> dict[str, str]:
    """Return the outputs by node, from mixed lines labelled with task numbers."""
    tasks: dict[str, list[str]] = defaultdict(list)
    for line in split_lines(output):
        if match := _LABELLED.match(line):
            tasks[match[1]].append(match[2])
    return {
        node: "\n".join(lines) for lines in tasks.values() for node in _NODE.findall("\n".join(lines))[:1]
    }


def reason(errors: str) -> str:
    """Return srun's first line that gives a reason."""
    lines = [line.strip() for line in split_lines(errors) if line.strip() and not _NOISE.match(line)]
    return lines[0] if lines else ""
