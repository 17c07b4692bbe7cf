"""The state of a run's log: a look changes no value that was handed in, and what is damaged begins anew."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from watchdogd.batch.models import Job, Snapshot
from watchdogd.checks.working_job import Working
from watchdogd.parsers.guard_heartbeat import GuardHeartbeat
from watchdogd.parsers.logs.log_files import ReadPosition
from watchdogd.parsers.logs.log_lines import read_lines
from watchdogd.plugin import Run, Status
from watchdogd.plugins.log_staleness.advance import advance, heed_clock
from watchdogd.plugins.log_staleness.check import log_staleness
from watchdogd.plugins.log_staleness.log_verdicts import judge
from watchdogd.plugins.log_staleness.new_lines import Wanted
from watchdogd.plugins.log_staleness.run_log import RunLog
from watchdogd.plugins.log_staleness.sources import News, Seen
from watchdogd.plugins.log_staleness.stall_verdict import Limits, Look
from watchdogd.system.codec import codec_of

START = 1_800_000_000.0
MINUTE = 60.0
CODEC = codec_of(RunLog)
WISHES = Wanted(None, (("saving", 3600.0),), (("ready", 600.0),), ("panic",))
LIMITS = Limits("auto", None)
LINES = (
    "[rank{n}]: epoch 1 step {n}/90 loss: 2.{n} seq len 4096 elapsed 3.5 s/it",
    "ready\nEvaluating ...\n 12%|##   | {n}/90 [00:10<01:00]",
    "saving checkpoint\npanic: {n}\n[rank2]: RuntimeError: CUDA error: out of memory",
    "h1:4:5 [0] NCCL INFO Using eth0:10.0.0.7<0>\niteration {n} skipped iterations: 1 lm loss: nan",
)


def job(number: int) -> Job:
    return Job(f"{number}", f"{number}", "tr", "ann", "RUNNING", nodes="h[1-2]", started_at=START)


def seen(number: int) -> Seen:
    """What the look of this number saw: two files that grew, and a heartbeat."""
    now = START + number * MINUTE
    files = []
    for index in range(2):
        text = LINES[(number + index) % len(LINES)].format(n=number).encode()
        place = ReadPosition(f"{index}.log", number * 100, number * 100, now, now)
        files.append(News(f"{index}", place, tuple(read_lines(text)[0]), text))
    return Seen(tuple(files), GuardHeartbeat(now, "tr", "", "h1", 7, float(number), 2.5, number, "its end"))


def lived(looks: int) -> RunLog:
    log = RunLog()
    for number in range(looks):
        works = Working(job(1 + number // 15))
        log = advance(log, seen(number), works, WISHES, START + number * MINUTE)
    return log


def test_a_look_changes_no_value_that_was_handed_in() -> None:
    for looks in (1, 2, 14, 15, 16, 33):
        log = lived(looks)
        before, now = json.dumps(CODEC.dump(log)), START + looks * MINUTE
        first = advance(log, seen(looks), Working(job(1 + looks // 15)), WISHES, now)
        again = advance(log, seen(looks), Working(job(1 + looks // 15)), WISHES, now)
        assert json.dumps(CODEC.dump(log)) == before
        assert first == again
        assert first != log
        said = [list(judge(Look("*.log", Working(job(1)), first, now), LIMITS, WISHES)) for _ in range(2)]
        assert said[0] == said[1]
        assert CODEC.dump(first) == CODEC.dump(again)


def test_all_that_is_remembered_comes_back_from_its_text() -> None:
    for looks in (1, 20, 70):
        log = lived(looks)
        assert CODEC.load(json.loads(json.dumps(CODEC.dump(log)))) == log


def still(log: RunLog, now: float) -> tuple[RunLog, Status, float]:
    """A look at which nothing was new: the state, the status, and the seconds of silence."""
    log = heed_clock(log, now)
    files = tuple(News(key, place) for key, place in log.files.places.items())
    log = advance(log, Seen(files), Working(job(2)), WISHES, now)
    (result, *_) = judge(Look("*.log", Working(job(2)), log, now), Limits(600.0, None), WISHES)
    return log, result.status, result.metrics["age"].value


def test_a_clock_that_is_set_back_neither_ends_nor_hides_a_hang() -> None:
    """Found by `make chaos`, seed 207: a stalled run was reported as one that makes progress again."""
    log, works, _ = still(lived(30), START + 31 * MINUTE)
    assert works is Status.OK
    log, hangs, silent = still(log, START + 60 * MINUTE)
    assert (hangs, silent) == (Status.CRITICAL, 31 * MINUTE)
    for days in (1, 3):
        log, hangs, silent = still(log, START - days * 86_400)
        assert (hangs, silent) == (Status.CRITICAL, 31 * MINUTE)
    assert still(log, START - 3 * 86_400 + MINUTE)[1:] == (Status.CRITICAL, 32 * MINUTE)


def look(memory: dict[str, Any]) -> list[Status]:
    given = {
        "run": Run("tr", "tr"),
        "snapshot": Snapshot(START, jobs=(job(1),)),
        "memory": memory,
        "now": START + 60.0,
    }
    return [result.status for result in log_staleness.results({"log": "/nowhere/*.log"}, given)]


PLAIN = st.sampled_from([None, True, -1, 10**400, 1.5, float("inf"), "", "x", "1-0"])
JSON = st.recursive(
    PLAIN, lambda part: st.lists(part, max_size=3) | st.dictionaries(PLAIN.map(str), part), max_leaves=5
)


@given(st.dictionaries(st.sampled_from(["state", "clocks", "files", "failed looks"]), JSON))
def test_whatever_was_kept_begins_anew(memory: dict[str, Any]) -> None:
    assert look(memory) == look({})


@given(st.data())
def test_a_state_that_is_damaged_anywhere_begins_anew(data: st.DataObject) -> None:
    """At any depth; what is of the right type there is no damage that anybody could see."""
    kept = json.loads(KEPT)
    part: Any = kept
    path: list[tuple[Any, Any]] = []
    while isinstance(part, (list, dict)) and part and (not path or data.draw(st.booleans())):
        key = data.draw(st.sampled_from(range(len(part)) if isinstance(part, list) else sorted(part)))
        path.append((part, key))
        part = part[key]
    holder, key = path[-1]
    holder[key] = data.draw(JSON.filter(lambda damage: type(damage) is not type(part)))
    if CODEC.load(kept) is None:
        assert look({"state": kept}) == look({})
    else:
        assert look({"state": kept})


KEPT = json.dumps(CODEC.dump(lived(40)))
