"""Reasons for which a job waits, in Slurm's and PBS's words: whether they pass by themselves, and the fix.

Words are those of slurm.h's job_state_reason as squeue prints them (22.05 to 24.11); of PBS, holds as `qstat`
here words them (`Hold_Types u`), and the scheduler's comments.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass


class Wait(enum.Enum):
    """How a wait ends: by itself, when the user releases the job, or never."""

    PASSES = "passes"
    HELD = "held"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class PendingReason:
    """Meaning of a reason: `why` in words, and the fix.

    `fix`: command with `{id}` for the job; `then`: what to do afterwards; `by_admin`: only administrators may
    run it.
    """

    wait: Wait
    why: str = ""
    fix: str = ""
    then: str = ""
    by_admin: bool = False

    @property
    def purpose(self) -> str:
        """Return what the command is for."""
        if self.by_admin:
            return "Ask the cluster's administrators to do this"
        return f"Cancel it, {self.then}" if self.then else "To let it start"

    def fix_for(self, job_id: str) -> str:
        typed = self.fix.format(id=job_id)
        if self.by_admin:
            return f"ask the cluster's administrators to '{typed}'"
        return ", ".join(filter(None, (typed, self.then)))


_RELEASE = "scontrol release {id}"
_AGAIN = "scancel {id}", "and submit it anew with what this cluster has"
_ANEW = "scancel {id}", "and submit it anew"
_ADMIN = "scontrol release {id}", "", True
_LIMIT = "scancel {id}", "and ask for less, or ask the administrators for more"
_MORE = "scancel {id}", "and ask for more, or for another QOS"

_KNOWN = {
    "JobHeldUser": PendingReason(Wait.HELD, "held by its user", _RELEASE),
    "job requeued in held state": PendingReason(Wait.HELD, "requeued and held", _RELEASE),
    "JobHeldAdmin": PendingReason(Wait.NEVER, "held by an administrator", *_ADMIN),
    "launch failed requeued held": PendingReason(
        Wait.NEVER, "its launch failed and Slurm holds it", _RELEASE
    ),
    "DependencyNeverSatisfied": PendingReason(
        Wait.NEVER, "a job it depends on ended otherwise than it asks", *_ANEW
    ),
    "BadConstraints": PendingReason(Wait.NEVER, "no node has what it asks for", *_AGAIN),
    "PartitionTimeLimit": PendingReason(
        Wait.NEVER,
        "it asks for more time than its partition gives",
        "scontrol update JobId={id} TimeLimit=<the partition's limit>",
    ),
    "MaxMemPerLimit": PendingReason(Wait.NEVER, "it asks for more memory than its partition gives", *_AGAIN),
    "PartitionNodeLimit": PendingReason(
        Wait.NEVER, "it asks for more nodes than its partition gives", *_AGAIN
    ),
    "InvalidAccount": PendingReason(Wait.NEVER, "its account is not valid", *_AGAIN),
    "InvalidQOS": PendingReason(Wait.NEVER, "its QOS is not valid", *_AGAIN),
    "AccountNotAllowed": PendingReason(Wait.NEVER, "its account may not use this partition", *_AGAIN),
    "QOSNotAllowed": PendingReason(Wait.NEVER, "its QOS may not use this partition", *_AGAIN),
    "ReservationDeleted": PendingReason(Wait.NEVER, "its reservation is gone", *_AGAIN),
    "ReservationInvalid": PendingReason(Wait.NEVER, "its reservation is not valid", *_AGAIN),
    "BurstBufferOperation": PendingReason(Wait.NEVER, "its burst buffer failed and Slurm holds it", *_ANEW),
    "QOSUsageThreshold": PendingReason(Wait.NEVER, "its account has used more than its QOS allows", *_LIMIT),
    "JobHoldMaxRequeue": PendingReason(Wait.NEVER, "requeued too often, so Slurm holds it", _RELEASE),
    "MaxRequeue": PendingReason(Wait.NEVER, "requeued too often, so Slurm holds it", _RELEASE),
    "DeadLine": PendingReason(Wait.NEVER, "its deadline cannot be met", *_AGAIN),
    "AssociationResourceLimit": PendingReason(Wait.NEVER, "its association's limit", *_LIMIT),
}
_OF_STATES = {
    "SPECIAL_EXIT": PendingReason(
        Wait.NEVER, "it left with the special exit state, so Slurm holds it", _RELEASE
    ),
    "RESV_DEL_HOLD": _KNOWN["ReservationDeleted"],
}
_LIKE = (
    (
        re.compile(r".*requeued[ _]held"),
        PendingReason(Wait.NEVER, "its start failed and Slurm holds it", _RELEASE),
    ),
    (re.compile(r"QOSMin\w+"), PendingReason(Wait.NEVER, "it asks for less than its QOS demands", *_MORE)),
    (
        re.compile(r"(QOS|Assoc)(Max\w*Per(Job|Node)\w*|MaxWall\w*|Max\w*MinutesPerJob\w*)"),
        PendingReason(Wait.NEVER, "it asks for more than its limit lets one job have", *_LIMIT),
    ),
    (
        re.compile(r"(QOS|Assoc)(Grp|Max)(?!\w*Run)\w*(Minutes|Wall)\w*"),
        PendingReason(Wait.NEVER, "the budget that its limit counts is used up", *_LIMIT),
    ),
)
"""Reasons by pattern; the first match counts. Group minutes and wall time are budgets, which come back only
as usage decays."""
_NOT_PERMITTED = re.compile(r"Job's[ _](account|QOS)[ _]not[ _]permitted[ _]")
"""slurmctld's sentence `Job's account not permitted to use this partition (gpu allows a,b not c)`."""
_PBS_HELD = PendingReason(Wait.HELD, "held by its user", "qrls {id}")
_PBS_KEPT = PendingReason(Wait.NEVER, "held by the system or an operator", "qrls -h so {id}", "", True)
_PBS_NEVER = PendingReason(Wait.NEVER, "no node has what it asks for", "qdel {id}", "and submit it anew")


def judge(reason: str, state: str = "PENDING") -> PendingReason:
    """Return the meaning of a waiting job's reason; an unknown one is assumed to pass."""
    bare = reason.strip().strip("()")
    bare = bare.replace("_", " ") if bare.replace("_", " ") in _KNOWN else bare  # scontrol writes no spaces
    if state in _OF_STATES:
        return _OF_STATES[state]
    if bare in _KNOWN:
        return _KNOWN[bare]
    if state == "REQUEUE_HOLD":
        return PendingReason(Wait.HELD, "requeued and held", _RELEASE)
    if refused := _NOT_PERMITTED.match(bare):
        return _KNOWN["AccountNotAllowed" if refused[1] == "account" else "QOSNotAllowed"]
    if bare.startswith("Hold_Types "):
        return _PBS_HELD if bare == "Hold_Types u" else _PBS_KEPT
    if bare.lower().startswith("can never run"):
        return _PBS_NEVER
    like = (judged for pattern, judged in _LIKE if pattern.fullmatch(bare[:200]))
    return next(like, PendingReason(Wait.PASSES))
