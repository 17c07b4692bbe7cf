"""What the Guard's heartbeats tell of a training, taken into the same memory as its log (see `logbook`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watchdogd.checks import numbers
from watchdogd.checks.counter import advance
from watchdogd.checks.logbook import BEGAN, rested
from watchdogd.logs.state import BEAT
from watchdogd.readers.trainlog import Report

if TYPE_CHECKING:
    from watchdogd.readers.beat import Beat


def take_beat(beat: Beat, memory: dict[str, Any], now: float) -> None:
    """The Guard's heartbeat is progress where its step grew, and tells the loss where no log line does."""
    last, looked = memory.get("beat"), memory.get("looked")
    if _left_behind(beat, memory) or (last and last["written"] == beat.written):
        return
    seen = looked is None or looked <= beat.written <= now
    at = min(beat.written, now) if seen else now
    memory["beat"] = {"written": beat.written, "at": at, "where": beat.where, "losses": beat.losses}
    if beat.step is not None and advance(
        memory.setdefault("counter", {}), Report("step of the heartbeat", beat.step)
    ):
        memory["clocks"].count(BEAT, beat.step, at, rested(memory))
        _note_step(beat.step, memory, at, last["at"] if last else 0.0)
    _note_asked(beat, memory, at)
    again = beat.losses is not None and last is not None and _loss_of(last) == _loss_of(memory["beat"])
    if beat.loss is None or again:
        return
    if memory.get("loss", {}).get("beats", not memory.get("losses")):
        numbers.note_loss(beat.loss, memory, at)
        memory["loss"]["beats"] = True


def _left_behind(beat: Beat, memory: dict[str, Any]) -> bool:
    """Whether an earlier job wrote it: one that is requeued has the same id, a plain process has none.

    What lies there when a job is first seen, and was written before its start or by the process that beat
    for the one before, has to change before it counts: whatever the clocks say.
    """
    if "beat" in memory:
        return False
    this = [beat.where, beat.written]
    if "stray" not in memory:
        early = beat.written < memory.get("job_since", 0.0)
        memory["stray"] = this if early or beat.where == memory.get("beat_before") else []
    return bool(this == memory["stray"])


def _loss_of(beat: dict[str, Any]) -> tuple[Any, Any]:
    """Which loss it was: a loop that tells one every hundredth step beats with it until the next."""
    return beat["where"], beat.get("losses")


def _note_asked(beat: Beat, memory: dict[str, Any], at: float) -> None:
    """Since when the Guard asks to save, and why."""
    if not beat.asked:
        memory.pop("asked", None)
    elif "asked" not in memory:
        memory["asked"] = [beat.asked, at]


def heed_guard(memory: dict[str, Any]) -> None:
    """A rhythm that was learned from heartbeats says nothing of a job whose log alone tells its number."""
    if "beat" in memory:
        memory["beaten"] = True
    elif "report" in memory and memory.pop("beaten", False):
        memory["clocks"].forget_pauses()


def _note_step(step: float, memory: dict[str, Any], at: float, before: float) -> None:
    """A heartbeat's step grew. Where the log has told a number since the beat at `before`, that one stays
    the run's. What the log told (a phase, a cause) may have come after this beat, whenever either is seen:
    it ends with the second that comes since."""
    told = memory.get("report", {"at": 0.0})
    began = {key: memory[key] for key in BEGAN if key in memory}
    outlived = memory.get("outlived", {})
    later = {key: state for key, state in began.items() if outlived.get(key) != state[BEGAN[key]]}
    numbers.note_progress(Report("step", step), "", memory, at)
    if told["at"] > before:
        memory["report"] = {**told, "at": max(told["at"], at)}
    memory |= later
    memory["outlived"] = {key: state[BEGAN[key]] for key, state in later.items()}
