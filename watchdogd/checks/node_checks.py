"""Parts that checks of a run's nodes share: no access, and subjects that recover."""

from __future__ import annotations

import shlex
from collections.abc import Container, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from watchdogd.plugin import Advice, Job, Result, Sign, Snapshot, Status, notice, ok, unknown

ROUNDS: Final = 100
"""For so many rounds: more than any `confirm`, and than what flapped has to be calm."""
KEPT: Final = 500
"""Subjects that are remembered."""


ASK_SLURM = (
    Advice("To see whether Slurm answers:", "scontrol ping"),
    Advice("Nothing else if it does: the next round asks again."),
)
"""What to do where the queue does not say what runs."""
ASK_NODES = (
    Advice("To see whether Slurm answers:", "scontrol ping"),
    Advice("To see which nodes are out of service, and why:", "sinfo -R"),
)
"""What to do where nodes do not answer."""


def leave_out(nodes: str) -> Advice:
    """Return how the next job is kept off nodes, as Slurm writes them."""
    return Advice(f"To keep the next job off {nodes}:", f"sbatch --exclude={nodes} ...")


@dataclass(slots=True)
class NodeCheckState:
    """State of a check of a run's nodes: whether no access was `reported`, and what recovers.

    `recovering`: for how many rounds each subject that was bad is no longer, see `recoveries`.
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
    """Report OK for each subject that was not OK before and of which nothing is said now.

    `recovering` (kept by the check: rounds since it was bad, by subject) is changed. Nothing is said of
    subjects that are `hidden` now. `quiet`: their incidents end without a message.
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
    return [each.ending(each.summary, timed=False) for each in ends]


def silent(run: str, nodes: Mapping[str, str]) -> Iterator[Result]:
    """Report each node that tells nothing, with why."""
    anew = Advice(
        "If its probe has ended, start it anew in the job:", f"watchdogd probe --run {shlex.quote(run)} &"
    )
    for node, why in nodes.items():
        up = Advice("To see whether it is up:", f"sinfo -N -n {shlex.quote(node)}")
        yield unknown(f"{node}: {why}", subject=node).saying(advice=(up, anew))


def smoothed(usual: float | None, newest: float, weight: float) -> float:
    """Return the usual value with the newest one taken in by its `weight`; None: there was none."""
    return newest if usual is None else round(usual + (newest - usual) * weight, 3)


def lasting(before: Sign | None, sign: Sign) -> Sign:
    """Return the sign, since the one before it began where that was as strong."""
    return replace(sign, since=before.since) if before and before.strength is sign.strength else sign


def nothing_to_judge(snapshot: Snapshot, jobs: Sequence[Job]) -> Result | None:
    """Return why there is nothing to look at: nobody knows the queue, or none of `jobs` runs; or None."""
    if snapshot.jobs is None:
        return unknown(f"{snapshot.trouble}, job state not known").saying(advice=ASK_SLURM)
    return None if jobs else not_judged("no job runs")


def not_judged(why: str) -> Result:
    """Return that nothing is said of it, which is no good news of what was wrong before."""
    return ok(f"not judged: {why}").ending(f"no longer judged, {why}", timed=False, recovered=False)


def no_access(run: str, what: str, why: str, *, reported: bool) -> Iterator[Result]:
    """Report that there is no way in, which is told once: `reported` says whether it was."""
    yield not_judged(why)
    if not reported:
        way = f"watchdogd probe --run {shlex.quote(run)} &"
        told = notice(f"{what} cannot be watched: {why}", label="WARNING")
        yield told.saying(advice=[Advice("Put this into its job script:", way)])
