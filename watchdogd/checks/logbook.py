"""What a training's log has said so far: kept as plain values between rounds, line by line.

`memory` is the check's own. In it: `files` (how far each was read), `skew` (how far the file system's clock
is off), `tail` (the last lines), `counter` (see `counter`), what `numbers` and `wanted` keep, `cause`, `grew`
(when other work last told how far it is, or a line that does not end last grew without a number, and not by
dots alone), `drawn` (what such a line last showed, by file), `ranks` (see `stopped`), `addresses` (hosts by
network address, as NCCL tells them), `beat` (the Guard's last one), `stray` (the one that an earlier job
left), `outlived` (phases and causes that a beat came after), `asked` (why the Guard asks to save, and since
when), and whose job it all speaks of.
"""

from __future__ import annotations

import re
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

from watchdogd.checks import labels, level, numbers, stopped, wanted
from watchdogd.checks.counter import advance, begin_epoch
from watchdogd.logs.state import OWN, UNKNOWN, LogState
from watchdogd.readers import causes, logtail, measures, peers, spinner, structured, trainforms, trainlog
from watchdogd.readers.lines import SHOWN_AT_MOST, Line, read_lines
from watchdogd.readers.shape import Shape, shape_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from watchdogd.batch.models import Job
    from watchdogd.checks.wanted import Wanted
    from watchdogd.readers.trainlog import Report

SHOWN = 10
"""Last log lines that a message shows."""
_SLACK = 300.0
"""Seconds by which the clocks of the batch system and of the log's file server may differ."""
SETTLING = 120.0
"""Seconds after a crash in which its last words come: who writes for longer goes on."""
_ROUNDS = 3
"""Times the usual time between two looks, after which nobody looked for a while."""
_RESTART = re.compile(r"restart(?:ing)? worker group", re.IGNORECASE)
"""What torch's elastic agent says when it starts all ranks again within a job."""
BEGAN = {"phase": 2, "cause": 5}
"""What ends with progress, and where in it the time stands at which it began."""
_OF_ONE_JOB = (
    "skips",
    "losses",
    "counter",
    "report",
    "grew",
    "phase",
    "loss",
    "seen",
    "forbidden",
    "cause",
    "peer",
    "ranks",
    "beat",
    "stray",
    "outlived",
    "asked",
)
_MAY_BE_NEXT = frozenset({"phase", "seen", "forbidden"})
"""What counts for a job though the one before may have said it: it is worse to lose than to have too long."""


def follow_job(job: Job, memory: dict[str, Any], now: float) -> bool:
    """Forget what was another job's: numbers, losses, phases and lines that were seen.

    True where this job took over from one that worked at the last look: what is new may be the last words of
    that one.
    """
    name = f"{job.raw_id}@{job.started_at or 0:.0f}"
    if memory.get("job") == name:
        return False
    took_over = "job" in memory and memory.get("excused") != memory.get("looked")
    memory["clocks"].renew()
    memory["beat_before"] = memory.get("beat", {}).get("where", "")
    _forget(memory, _OF_ONE_JOB)
    if "hung" in memory:
        memory["ended"] = memory.pop("hung")
    memory["resumed"] = "job" in memory
    memory["job"], memory["job_id"] = name, job.id
    memory["job_since"] = job.started_at if job.started_at is not None else now
    memory["whole"] = bool(memory.get("files")) or now - memory["job_since"] < 60.0
    return took_over and now - memory["job_since"] < UNKNOWN


def _forget(memory: dict[str, Any], keys: Iterable[str]) -> None:
    if "report" in memory:
        memory["before"] = [memory["report"]["series"], memory["report"]["number"]]
    for key in ("level", "pace"):
        if key in memory:
            memory[key] = level.renew(memory[key])
    for key in keys:
        memory.pop(key, None)


def heed_clock(memory: dict[str, Any], now: float) -> None:
    """Where the clock was set back, what lies in its future is of now: a hang would be seen hours late."""
    if memory.get("looked", now) <= now:
        return
    memory["clocks"].set_back(now)
    for place in memory.get("files", {}).values():
        place[4] = min(place[4], now)
    for key in ("report", "beat"):
        if memory.get(key):
            memory[key]["at"] = min(memory[key]["at"], now)
    for key, where in BEGAN.items():
        if memory.get(key):
            memory[key][where] = min(memory[key][where], now)
    memory["grew"] = min(memory.get("grew", 0.0), now)


def heed_gap(memory: dict[str, Any], now: float) -> None:
    """Whether nobody looked for much longer than usual (`gap`; `round`: seconds between two looks): what came
    meanwhile does not show its rhythm."""
    since = max(now - memory.get("looked", now), 0.0)
    memory["gap"] = since > _ROUNDS * memory.get("round", since) + _SLACK
    if since and not memory["gap"]:
        memory["round"] = since


def take_in(
    files: list[logtail.Found],
    wishes: Wanted,
    memory: dict[str, Any],
    now: float,
    *,
    took_over: bool = False,
) -> None:
    """Read what is new in all files; note when bytes came, what they said, and how far each was read.

    `took_over`: of the files that are known already what is new is not told apart from the last words of
    the job before: no number of theirs counts. Where looks before did not end, what is new is left out:
    its bytes count as growth, and nobody reads them again.
    """
    if memory.get("left_out", {}).get("now"):
        _leave_out(files, memory, now)
        return
    kept = memory.get("files", {})
    if took_over:
        known = [file for file in files if file.key in kept]
        _read_new(known, wishes, memory, now)
        _forget(memory, [key for key in _OF_ONE_JOB if key not in _MAY_BE_NEXT])
        memory["clocks"].renew()
    _read_new(files, wishes, memory, now)


def _leave_out(files: list[logtail.Found], memory: dict[str, Any], now: float) -> None:
    """Go on behind all that is new; `left_out` keeps what that was."""
    before = memory.get("files", {})
    places = {key: logtail.Place(*place) for key, place in before.items()}
    kept, parts = {}, []
    for file in files:
        place = places.get(file.key)
        grown = logtail.grown_at(file, place, memory.get("looked"), now, memory.get("skew", 0.0))
        begin, end = logtail.unread(file, place, first=memory.get("looked") is None)
        kept[file.key] = [file.path, end, file.size, file.mtime, grown]
        parts += [f"bytes {begin} to {end} of {file.path}"] if end > begin else []
    memory["files"] = kept
    memory["left_out"]["what"] = ", ".join(parts[:3]) or "nothing new"


def _read_new(files: list[logtail.Found], wishes: Wanted, memory: dict[str, Any], now: float) -> None:
    places = {key: logtail.Place(*place) for key, place in memory.get("files", {}).items()}
    looked = memory.get("looked")
    first = looked is None
    skew = logtail.clock_skew(files, places, looked, now)
    if skew is not None:
        memory["skew"] = skew
    kept = {}
    for index, file in enumerate(files):
        place = places.get(file.key)
        if place and (file.size, file.mtime, file.path) == (place.size, place.mtime, place.path):
            kept[file.key] = memory["files"][file.key]
            continue
        grown = logtail.grown_at(file, place, looked, now, memory.get("skew", 0.0))
        begin, end = logtail.unread(file, place, first=first)
        if structured.is_whole(file.path):
            begin = 0
        if first and index:
            begin = end  # of many files only the newest one's past is of interest
        if place is None and grown < memory.get("job_since", 0.0) - _SLACK:
            begin = end  # nothing in it was said by this job
        offset = begin
        if end > begin:
            try:
                data = logtail.read(file.path, begin, end)
            except FileNotFoundError:
                continue  # gone since it was found: a rotation
            lines, done = structured.read(file.path, data)
            offset = begin + done if done or end - begin < logtail.AT_MOST else end
            _take_lines(lines, wishes, memory, grown)
            new = data[max(place.size - begin, 0) :] if place and not wishes.progress else b""
            if structured.is_text(file.path) and _goes_on(new, memory.setdefault("drawn", {}), file.key):
                memory["grew"] = grown
        kept[file.key] = [file.path, offset, file.size, file.mtime, grown]
    memory["files"] = kept
    memory["drawn"] = {key: text for key, text in memory.get("drawn", {}).items() if key in kept}


def _goes_on(new: bytes, drawn: dict[str, str], key: str) -> bool:
    """Whether a line grew that neither ended nor told a number, by more than dots or a spinner: percents, a
    bar. `drawn` keeps the last state of such a line by the file's key."""
    lines = read_lines(new)[0] if new and b"\n" not in new else []
    told = (trainlog.progress(each.text) for each in lines)
    if any(found and found.series != "epoch" for found in told):  # an epoch's line may go on with its work
        return False
    said = [text[:SHOWN_AT_MOST] for each in lines if (text := spinner.without(each.text))]
    before = drawn.get(key, "") if spinner.redraws(new) else ""
    if said:
        drawn[key] = said[-1]
    return any(text != before for text in said)


def _take_lines(lines: list[Line], wishes: Wanted, memory: dict[str, Any], at: float) -> None:
    """What the lines say, in their order: phases, progress, losses, causes, wanted and unwanted lines."""
    counter = memory.setdefault("counter", {})
    lines = labels.unmask(lines, memory)
    pattern = wishes.progress
    whole = "\n".join(line.text for line in lines)
    low = whole.lower()
    known, wishes = trainlog.vocabulary(whole, low), wanted.possible(wishes, low)
    heeding, epochs, last = wanted.heeds(wishes), "epoch" in low, 0
    restarts = "worker group" in low
    texts = [trainlog.latest(line, pattern, known) for line in lines]
    for index, (line, text) in enumerate(zip(lines, texts, strict=True)):
        if restarts and _RESTART.search(text):  # what broke its ranks is over
            last = index
            memory.pop("cause", None)
        if heeding:
            wanted.note(text, wishes, memory, at)
        if epochs and (epoch := trainlog.epoch_of(text)) is not None:
            begin_epoch(counter, epoch)
        if _take_numbers(text, line.rank, pattern, shape_of(text, known), memory, at):
            last = index
    if "len" in low:
        for line in lines:
            numbers.note_length(line.text, memory)
    told = [(text, line.open) for line, text in zip(lines, texts, strict=True) if line.text]
    _note_clocks(told, memory, at, counts=not pattern)
    _note_cause(lines[last:], memory, at)
    peers.learn(lines, memory.setdefault("addresses", {}))
    shown = [line.text[:SHOWN_AT_MOST] for line in lines[-20 * SHOWN :] if line.final and line.text]
    memory["tail"] = [*memory.get("tail", ()), *shown][-SHOWN:]


def _take_numbers(
    text: str, rank: str, pattern: str | None, shape: Shape, memory: dict[str, Any], at: float
) -> bool:
    """The number and the loss that a line tells; whether the number is progress."""
    report = trainlog.progress_by(pattern, text) if pattern else shape.report(text)
    report = _of_training(report, memory, at)
    if rank:
        stopped.note(rank, report.number if report else None, memory, at)
    if report and pattern:
        memory["clocks"].count(OWN, report.number, at, rested(memory))
    progress = report is not None and advance(memory["counter"], report)
    if report and progress:
        numbers.note_progress(report, text, memory, at)
    value = shape.loss_of(text)
    if value:  # exactly 0 is a placeholder of runs on synthetic data
        numbers.note_loss(value, memory, at, measures.loss_name(text, shape.loss), falls=shape.falls)
    return progress


def _note_clocks(told: list[tuple[str, bool]], memory: dict[str, Any], at: float, *, counts: bool) -> None:
    """What rises in the lines, whatever their format; a death that work came after was none."""
    clocks: LogState = memory["clocks"]
    worked = clocks.worked
    clocks.advance(told, at, rested(memory), counts=counts)
    if clocks.worked > worked:
        for key in ("cause", "ended"):
            memory.pop(key, None)


def rested(memory: dict[str, Any]) -> float | None:
    """Until when the run could not go on, or None where its pause tells nothing: nobody looked for a while,
    or a quiet phase or a save that the Guard asked for lies in it."""
    usual = "phase" not in memory and "asked" not in memory and not memory.get("gap")
    return float(memory.get("excused", 0.0)) if usual else None


def _of_training(report: Report | None, memory: dict[str, Any], at: float) -> Report | None:
    """The report, where it is the training's number: other work, and a coarse number beside a finer one, only
    show that the run gets on (`grew`)."""
    if report is None:
        return None
    other = report.series == trainforms.WORK
    if not other and not (report.coarse and not memory.get("report", {}).get("coarse", True)):
        return report
    own = report._replace(series=f"{report.series} of {report.total}", coarse=False) if other else report
    if advance(memory["counter"], own, strict=other):
        memory["grew"] = at
    return None


def _note_cause(lines: list[Line], memory: dict[str, Any], at: float) -> None:
    """Keep the cause nearest to the root that came since the last progress."""
    *before, since = memory.pop("cause", [at])
    known = [causes.Cause(*before)] if before else []
    found = causes.find(lines, known)
    cause = causes.root(found)
    if cause:
        lasts = found[: len(known)] == known
        began = since if lasts else at
        memory["cause"] = [*astuple(cause), began]
        if at > began + SETTLING and any(line.rank == cause.rank for line in lines):
            memory["survived"] = began
