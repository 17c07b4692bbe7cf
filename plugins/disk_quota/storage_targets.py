"""Verdicts on single storage targets of Lustre, which fill before the whole file system does. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from watchdogd.parsers.quota.lfs_quota import StorageTarget
from watchdogd.parsers.quota.models import BYTES, INODES
from watchdogd.plugin import Advice, Amount, Result, Status, critical, ok, unknown, warning

WARN, CRIT = 0.05, 0.01
"""Free shares below which a target is reported, unless the disk has percentages of its own."""
SUBJECTS = {BYTES: "targets", INODES: "target inodes"}

Wished = tuple[Amount | None, Amount | None]
"""Configured free amounts of the whole disk for WARNING and CRITICAL; shares apply to its parts too."""


def judge(path: str, targets: Sequence[StorageTarget], wished: Mapping[str, Wished]) -> Iterator[Result]:
    """Report one result for bytes and one for inodes, as far as targets tell of them."""
    for kind, subject in SUBJECTS.items():
        chosen = [target for target in targets if target.of == kind]
        if chosen:
            yield _judged(path, chosen, _shares(*wished[kind]), subject)


def _shares(warn: Amount | None, crit: Amount | None) -> tuple[float, float]:
    """Return the free shares that count; a missing half of a pair is the default, on its right side."""
    warned = warn.share if warn else None
    alarmed = crit.share if crit else None
    if warned is None:
        return max(WARN, alarmed or 0.0), CRIT if alarmed is None else alarmed
    return warned, min(CRIT, warned / 2) if alarmed is None else alarmed


def _judged(path: str, targets: Sequence[StorageTarget], shares: tuple[float, float], subject: str) -> Result:
    free = {each.name: each.free / (each.used + each.free or 1.0) for each in targets if each.size}
    silent = sorted(each.name for each in targets if not each.size)
    unseen = f"; no figures of {len(silent)} of them" if silent else ""
    details = [f"no figures: {', '.join(silent)}"] if silent else []
    if not free:
        count = len(silent)
        none = (
            f"its {count} storage targets report no figures"
            if count > 1
            else "its storage target reports no figures"
        )
        down = Advice("Ask the administrators whether these targets are down.")
        return unknown(none, subject=subject, details=details[0]).saying(advice=[down])
    fullest = min(free, key=lambda name: free[name])
    share = f"{100 * free[fullest]:.3g} % {'of its inodes ' if subject != SUBJECTS[BYTES] else ''}free"
    tight = sorted(name for name, left in free.items() if left < max(shares))
    if not tight:
        text = f"the fullest of {len(targets)} storage targets is {fullest}, {share}{unseen}"
        fine = ok(text, subject=subject, details="\n".join(details))
        return fine.ending("no storage target is nearly full any more", f"{fullest} has {share}")
    result = critical if free[fullest] < shares[1] else warning
    judged = result(
        f"{len(tight)} of {len(targets)} storage targets nearly full, {fullest} has {share}",
        subject=subject,
        details="\n".join(["nearly full: " + ", ".join(tight), *details]),
    )
    spread = Advice(
        "Ask the administrators; new large files can be striped over other targets (lfs setstripe)."
    )
    judged = judged.saying(
        path, f"files that are striped over them can grow only until they are full{unseen}", advice=[spread]
    )
    return judged.triggers("on_disk") if judged.status is Status.CRITICAL else judged
