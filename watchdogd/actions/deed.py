"""Deeds as values: an action as configured, and what was done from its order to its outcome."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

HARMLESS = frozenset({"evidence", "stacks", "save-switch"})
"""Kinds that may happen twice where a crash leaves open whether they happened; all others: once at most."""
BEGUN, DONE, FAILED, SKIPPED, LOST = "begun", "done", "failed", "skipped", "lost"


@dataclass(frozen=True, slots=True)
class Action:
    """One entry of `on_hang` and its sisters. `words` are the command of `exec`, the script of `resubmit`.

    `kind` is stacks, save-switch, kill-switch, cancel, requeue, exec or resubmit; or evidence, which needs
    no configuration.
    """

    kind: str
    words: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Return its name as people say it; what limits count by."""
        return " ".join((self.kind, *self.words))

    @property
    def harmless(self) -> bool:
        """Return whether doing it twice is better than not at all."""
        return self.kind in HARMLESS


EVIDENCE = Action("evidence")


@dataclass(frozen=True, slots=True)
class Deed:
    """One action for one incident and run: recorded before it is done, and again with its outcome.

    `trigger` is the key that asked for it (`on_hang`), empty for evidence. `state` is `begun`, `done`,
    `failed`, `skipped` (never begun, and why) or `lost` (nobody knows whether it was done). Times are
    seconds since the epoch.
    """

    incident: int
    run: str
    trigger: str
    action: Action
    at: float
    state: str = BEGUN
    outcome: str = ""
    ended_at: float | None = None

    @property
    def key(self) -> tuple[int, str, str]:
        """Return what makes it one deed: it is done once."""
        return self.incident, self.run, self.action.label

    @property
    def ended(self) -> bool:
        """Return whether an outcome is known."""
        return self.state != BEGUN

    def as_json(self) -> dict[str, Any]:
        """To be kept."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Deed:
        """Read what `as_json` gave. KeyError, TypeError or ValueError where it is something else."""
        action = Action(str(kept["action"]["kind"]), tuple(map(str, kept["action"]["words"])))
        return cls(**{**kept, "action": action})

    def __str__(self) -> str:
        """`requeue for incident 12 (on_hang): job 501 is requeued`."""
        why = f" ({self.trigger})" if self.trigger else ""
        verdict = {FAILED: " failed", SKIPPED: " was not done", LOST: " may have been done or not"}
        return f"{self.action.label} for incident {self.incident}{why}{verdict.get(self.state, '')}: " + (
            self.outcome or "under way"
        )
