"""Parts that checks of a run's nodes share: missing access, and subjects that recover."""

from __future__ import annotations

import re
import shlex
from collections.abc import Container, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from watchdogd.plugin import Advice, Job, Result, Run, Sign, Snapshot, Status, notice, ok, unknown

ROUNDS: Final = 100
"""Rounds for which OK is repeated: more than any `confirm`, and than a flapping subject must be calm."""
KEPT: Final = 500
"""How many subjects are remembered."""


ASK_SLURM = (
    Advice("To see whether Slurm answers:", "scontrol ping"),
    Advice("Nothing else if it does: the next round asks again."),
)
"""What to do if it is not known which jobs run."""
ASK_NODES = (
    Advice("To see whether Slurm answers:", "scontrol ping"),
    Advice("To see which nodes are out of service, and why:", "sinfo -R"),
)
"""What to do if nodes do not answer."""


_SLURM = re.compile(r"(?:sbatch|scontrol|sinfo) ")


def ask_queue(backend: str) -> tuple[Advice, ...]:
    """Return what to do if it is not known which jobs run; only of Slurm is a command known."""
    return ASK_SLURM if backend == "slurm" else ()


def ask_nodes(backend: str) -> tuple[Advice, ...]:
    """Return what to do if nodes do not answer; only of Slurm are commands known."""
    return ASK_NODES if backend == "slurm" else ()


def for_backend(result: Result, backend: str) -> Result:
    """Return the result without commands of Slurm where another batch system runs the job, or none."""
    if backend == "slurm":
        return result
    return replace(result, advice=tuple(each for each in result.advice if not _SLURM.match(each.command)))


def leave_out(nodes: str) -> Advice:
    """Return how to keep the next job off these nodes (a host list in Slurm's form)."""
    return Advice(f"To keep the next job off {nodes}:", f"sbatch --exclude={nodes} ...")


@dataclass(slots=True)
class NodeCheckState:
    """State of a check of a run's nodes: whether missing access was `reported`, and what recovers.

    `recovering`: the number of rounds since each bad subject was last bad, see `recoveries`.
    """

    reported: bool = False
    recovering: dict[str, int] = field(default_factory=dict)


def recoveries(
    recovering: MutableMapping[str, int],
    found: Iterable[Result],
    *,
    words: str = "is healthy again",
    quiet: bool = False,
    hidden: Container[str] = (),
) -> list[Result]:
    """Return an OK result for each subject that was bad before and is not mentioned now.

    `recovering` (kept by the check: rounds since each subject was bad) is updated. Subjects that are `hidden`
    now get no result. `quiet`: their incidents end without a message.
    """
    status = {result.subject: result.status for result in found if result.subject}
    over = [subject for subject in recovering if subject not in status and subject not in hidden]
    for subject in over:
        recovering[subject] += 1
    for subject in [subject for subject in over if recovering[subject] > ROUNDS]:
        del recovering[subject]
    for subject in (subject for subject, each in status.items() if each is not Status.OK):
        recovering.pop(subject, None)
        recovering[subject] = 0
    for subject in list(recovering)[:-KEPT]:
        del recovering[subject]
    ends = [Result(Status.OK, f"{subject} {words}", subject=subject, quiet=quiet) for subject in over]
    if quiet:
        return [each.ending("its job ended", recovered=False) for each in ends]
    return [each.ending(each.summary) for each in ends]


def silent(run: Run, what: str, nodes: Mapping[str, str]) -> Iterator[Result]:
    """Report each node that does not answer, and why."""
    anew = Advice(
        "If its probe has ended, start it anew in the job:",
        f"watchdogd probe --run {shlex.quote(run.name)} &",
    )
    for node, why in nodes.items():
        sinfo = f"sinfo -N -n {shlex.quote(node)}" if run.backend == "slurm" else ""
        up = Advice("To see whether it is up:", sinfo) if sinfo else Advice()
        yield unknown(f"{node}: {what} not known: {why}", subject=node).saying(advice=(up, anew))


def smoothed(usual: float | None, newest: float, weight: float) -> float:
    """Return the usual value after the newest one, which counts by its `weight`; None: no value before."""
    return newest if usual is None else round(usual + (newest - usual) * weight, 3)


def lasting(before: Sign | None, sign: Sign) -> Sign:
    """Return the sign, dated from the beginning of the one before if that was as strong."""
    return replace(sign, since=before.since) if before and before.strength is sign.strength else sign


def nothing_to_judge(snapshot: Snapshot, jobs: Sequence[Job]) -> Result | None:
    """Return why there is nothing to judge (the queue is not known, or none of `jobs` runs), or None."""
    if snapshot.jobs is None:
        return unknown(f"{snapshot.trouble}, job state not known").saying(advice=ask_queue(snapshot.backend))
    return None if jobs else not_judged(f"no {snapshot.noun} runs", f"its {snapshot.noun} ended")


def not_judged(why: str, closed: str) -> Result:
    """Return an OK result that judges nothing, so that it does not count as a recovery.

    `closed`: what ends an incident before it recovered: `its job ended`.
    """
    return ok(f"not judged: {why}").ending(closed, recovered=False)


def no_access(run: str, what: str, why: str, *, reported: bool) -> Iterator[Result]:
    """Report that there is no access; people are told once, unless it was `reported` already."""
    yield not_judged(why, "access to its nodes ended")
    if not reported:
        way = f"watchdogd probe --run {shlex.quote(run)} &"
        told = notice(f"{what} cannot be watched: {why}", label="WARNING")
        yield told.saying(advice=[Advice("Put this into its job script:", way)])
