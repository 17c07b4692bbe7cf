"""An evening of four runs, with a fixed clock: the home of which the committed pictures were taken."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.golden import checks
from tests.golden.checks import named
from tests.web.stage import declared
from watchdogd.batch.run_models import Progress
from watchdogd.checks.free_space import FreeSpaceLimits
from watchdogd.daemon.daemon import NOBODY
from watchdogd.daemon.dropins import dropins
from watchdogd.daemon.status_file import incident_json, observation_json, open_incidents
from watchdogd.history.models import Gap, Record
from watchdogd.history.store import Store
from watchdogd.home.inbox import Request
from watchdogd.home.layout import Home
from watchdogd.incidents.evaluate import evaluate
from watchdogd.incidents.models import AlertPolicy, AlertState, IncidentEvent, Observation
from watchdogd.notify.message import compose
from watchdogd.notify.routing import MessageRules
from watchdogd.parsers import nagios
from watchdogd.parsers.quota.models import INODES
from watchdogd.plugin import Amount, History, Metric, Result, Status, critical
from watchdogd.plugins.disk_quota.check import Outlook, _worded
from watchdogd.plugins.gpu_health.activity import GpuActivity
from watchdogd.plugins.gpu_health.check import _whole
from watchdogd.plugins.gpu_health.faults import GpuLimits
from watchdogd.units import iso
from watchdogd.web.content import PageContent, gather

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from watchdogd.notify.notification import Notification

NOW = 1_796_000_040.0
"""Monday, 30 November 2026, 00:54 UTC."""
HOUR, DAY = 3600.0, 86400.0
EVERY = 1200.0
STALLED, GONE, FILLS = NOW - 40 * 60, NOW - 5 * HOUR, NOW - 3 * HOUR
"""When the last line of glide-xl came, llama-7b failed, and scratch fell below its limit of inodes."""
OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory"


class Training(NamedTuple):
    """A run: how far it is now, at what pace in seconds, its job, GPUs and last line."""

    name: str
    done: int
    total: int
    pace: float
    unit: str
    job: str
    gpus: int
    loss: float
    line: str


TRAININGS = (
    Training("moe-3b", 548_500, 900_000, 2.4, "iteration", "325", 64, 1.873,
             "iteration 548500/900000 | lm loss: 1.873 | 2.41 s | grad norm 0.72"),
    Training("glide-xl", 81_240, 105_000, 3.0, "iteration", "331", 16, 2.030,
             "iteration 81240/105000 | lm loss: 2.030 | 3.00 s"),
    Training("plain-1b", 249, 20_000, 0.9, "step", "340", 8, 3.1, "step 249: loss 3.1, 0.9 s"),
    Training("llama-7b", 41_200, 90_000, 2.6, "step", "329", 16, 1.91, OUT_OF_MEMORY),
)  # fmt: skip


def gathered(folder: Path) -> PageContent:
    """What the page of that home shows."""
    home = Home(folder / "home")
    home.make()
    home.write(home.config, '[daemon]\nname = "bloom-watch"\n')
    said = _said(folder)
    book, events = _incidents(folder, said)
    _keep_evidence(home)
    store = Store.open("sqlite:///history.db", home)
    rounds = [
        list(_observations(NOW - 3 * DAY + step * EVERY, step, said))
        for step in range(int(3 * DAY / EVERY) + 1)
    ]
    store.record(Record(NOW, tuple(each for seen in rounds for each in seen)))
    latest = rounds[-1]
    store.record(
        Record(NOW, alerts=book, events=events, notifications=tuple(_messages(events)), gaps=(_GAP,))
    )
    status = _status(latest, book)
    try:
        found = gather(home, store, status, "bloom-watch", since=NOW - 7 * DAY, now=NOW)
        return replace(found, command="watchdogd")  # wherever this home lies
    finally:
        store.close()


def _said(folder: Path) -> dict[str, Result]:
    """What the product says now: each from the check's own function."""
    steps = "\n".join(f"step {step}: loss 3.1, 0.9 s" for step in range(242, 250))
    one = checks.job("340", name="plain-1b", nodes="n017", node_count=1, started_at=NOW - 669)
    plain: dict[str, Any] = {"name": "plain-1b", "begin": NOW - 189 - 480, "stale_after": 90.0}
    old = nagios.read(3, "", "")
    home = str(folder / "home")
    return {
        "glide-xl": _stall(folder, NOW),
        "plain-1b": checks.lines(folder, steps, minutes=3.15, jobs=(one,), **plain)[""].result,
        "llama-7b": _gone(),
        "scratch": _fills(NOW),
        "old-logs": dropins.advised(old, f"{home}/cron.hourly/old-logs", home),
    }


def _stall(folder: Path, now: float) -> Result:
    """What is said of glide-xl, whose last line came at STALLED."""
    job = checks.job("331", name="glide-xl", nodes="n[001-002]", started_at=NOW - 70 * HOUR)
    wanted: dict[str, Any] = {"name": "glide-xl", "begin": STALLED - 480, "stale_after": 35 * 60.0}
    found = checks.lines(folder, _log(), minutes=(now - STALLED) / 60, jobs=(job,), **wanted)[""].result
    path = str(folder / "train.log")
    facts = tuple(each.replace(path, "/scratch/tr11/train.log") for each in found.facts)
    return replace(found, facts=facts)


def _gone() -> Result:
    """What is said of llama-7b, whose job failed at GONE."""
    ran: dict[str, Any] = {"started_at": GONE - 9 * HOUR, "nodes": "n[018-019]"}
    return checks.liveness(
        {"jobs": (checks.job(**ran),)},
        {"endings": (checks.end(ended_at=GONE, **ran),)},
        cause="GPU out of memory on rank 7",
        begin=GONE - 60,
    )[""].result


def _fills(now: float) -> Result:
    """What is said of the inodes of scratch, which fill up in nine hours from NOW."""
    limits = FreeSpaceLimits(Amount(absolute=750_000), Amount(absolute=100_000))
    left = 9 * HOUR + NOW - now
    room = checks.verdict(_free(now), 61e6, INODES, left=left, limits=limits)
    return _worded("/scratch", [room], Outlook(History(), now), "most is held by alice (31 M)")


def _free(now: float) -> int:
    """Inodes of scratch that are free."""
    return round(548_500 * (9 * HOUR + NOW - now) / (9 * HOUR))


_GAP = Gap(NOW - 50 * HOUR, NOW - 48.5 * HOUR, NOBODY)


def _incidents(folder: Path, said: Mapping[str, Result]) -> tuple[AlertState, tuple[IncidentEvent, ...]]:
    """The incidents as the rounds made them of what the checks said then, and what was reported."""
    moves = "\n".join(f"iteration {step}/900000 | lm loss: 1.9" for step in range(502_323, 502_331))
    well = checks.lines(folder, moves, begin=NOW - 29 * HOUR - 480)[""].result
    stalled = critical("stalled, no output for 21m (limit 12m), at iteration 502,310/900,000")
    moe, seen = ("moe-3b/log_staleness", "moe-3b", "moe-3b"), Observation
    rounds = (
        seen(*moe, stalled.dated(NOW - 30 * HOUR - 21 * 60), NOW - 30 * HOUR),
        seen(*moe, well, NOW - 29 * HOUR),
        seen("cron.hourly/old-logs", "", "cron.hourly/old-logs", said["old-logs"], NOW - 20 * HOUR),
        seen("llama-7b/job_liveness", "llama-7b", "llama-7b", said["llama-7b"], GONE),
        seen("scratch/disk_quota", "", "scratch", _fills(FILLS), FILLS),
        seen("glide-xl/log_staleness", "glide-xl", "glide-xl", _stall(folder, NOW - 240), NOW - 240),
    )
    policies = {each.check: AlertPolicy(confirm=1, repeat_every=DAY) for each in rounds}
    book, told = AlertState(next_id=5), list[IncidentEvent]()
    for each in rounds:
        book, events = evaluate(book, [each], policies, each.at)
        told += events
        if each.run == "llama-7b":
            taken = Request("ack", "bob", NOW - 4 * HOUR, incident=book.next_id - 1)
            book, events = evaluate(book, [], policies, taken.at, requests=[taken])
            told += events
    last = [replace(each, at=NOW, result=_latest(each, said)) for each in rounds[2:]]
    return evaluate(book, last, policies, NOW)[0], tuple(told)


def _latest(seen: Observation, said: Mapping[str, Result]) -> Result:
    return said[seen.target.rpartition("/")[2]]


def _log() -> str:
    steps = range(81_233, 81_241)
    return "\n".join(f"iteration {at}/105000 | lm loss: 2.03{at % 10} | 3.0{at % 5} s" for at in steps)


def _keep_evidence(home: Home) -> None:
    kept = home.evidence / "9"
    kept.mkdir()
    (kept / "log.txt").write_text(_log() + "\n")
    (kept / "stacks.txt").write_text("14 ranks stand in all_reduce\n2 ranks (n002) stand in next_batch\n")
    (kept / "incident.json").write_text(json.dumps({"id": 9, "run": "glide-xl"}))


def _messages(events: Iterable[IncidentEvent]) -> Iterator[Notification]:
    """What was sent of them, as the product words it."""
    rules = MessageRules(channels=("slack", "mail"), name="bloom-watch", host="cpu7")
    for each in events:
        for note in compose([each], {}, rules, each.at):
            waits = each.run == "glide-xl" and note.channel == "mail"
            failure = "mail.test: refused" if waits else ""
            yield replace(note, state="waiting" if waits else "sent", failure=failure)


def _observations(at: float, step: int, said: Mapping[str, Result]) -> Iterator[Observation]:
    """What all checks say in one round."""
    for run in TRAININGS:
        gone = run.name == "llama-7b" and at >= GONE
        stalled = run.name == "glide-xl" and at >= STALLED
        if run.name == "plain-1b" and at < NOW - EVERY:  # it has begun just now
            continue
        yield _jobs(run, at, said["llama-7b"] if gone else None)
        if gone:
            ended = Progress(done=float(run.done), total=float(run.total), unit=run.unit, said=run.line)
            yield _result(run, "log_staleness", Result(Status.OK, "not judged: no job runs"), at, {}, ended)
        else:
            yield _progress(run, at, stalled, said)
            yield _gpus(run, at, step, stalled)
    yield from _disk(at, _fills(at))
    if at >= NOW - 20 * HOUR:
        yield Observation("cron.hourly/old-logs", "", "cron.hourly/old-logs", said["old-logs"], at)


def _progress(run: Training, at: float, stalled: bool, said: Mapping[str, Result]) -> Observation:
    end = {"glide-xl": STALLED, "llama-7b": GONE}.get(run.name, NOW)
    back = max(end - at, 0.0)
    slower = 1 + (0.06 * min(back / DAY, 1.0) if run.name == "moe-3b" else 0.0)
    number = float(int(max(run.done - back / (run.pace * slower), 1.0)))
    doubtful = run.name == "plain-1b" and at == NOW
    age = at - STALLED if stalled else 189.0 if doubtful else 4.0
    total = float(run.total)
    progress = Progress(stalled, at - age, 60.0, "", number, total, run.unit, run.pace, run.line)
    fine = Result(Status.OK, f"{run.unit} {number:,.0f}/{total:,.0f}, 4s ago")
    loss = run.loss + 2.4 * (run.done - number) / run.done + (run.done - number) % 7 / 60
    metrics = {
        "progress": Metric(number), "total": Metric(total), "iteration_time": Metric(run.pace, "s"),
        "loss": Metric(loss), "age": Metric(age, "s"),
    }  # fmt: skip
    told = said[run.name] if stalled or doubtful else fine
    return _result(run, "log_staleness", told, at, metrics, progress)


def _gpus(run: Training, at: float, step: int, stalled: bool) -> Observation:
    """What gpu_health says: busy ones rest at each checkpoint, those of a stall wait at full utilisation."""
    use, watts = (
        (98.0, 126.0) if stalled else (55.0, 300.0) if step % 9 == 4 else (97.0, 640.0 + step % 9 * 4)
    )
    figures = {"utilisation": Metric(use, "%"), "power": Metric(watts, "W"), "gpus": Metric(run.gpus)}
    return _result(run, "gpu_health", _seen(run.gpus, use, watts, stalled), at, figures)


@cache
def _seen(count: int, use: float, watts: float, stalled: bool) -> Result:
    gpus = [named(number, use, watts) for number in range(count)]
    moment = GpuActivity(waiting=tuple(gpus), hung=True) if stalled else GpuActivity()
    return replace(_whole(gpus, moment, count // 8, set(), GpuLimits(8)), details="")


def _jobs(run: Training, at: float, gone: Result | None) -> Observation:
    counts = {"running": Metric(0 if gone else 1), "waiting": Metric(0)}
    told = gone or Result(Status.OK, f"job {run.job} runs")
    result = replace(told, metrics=counts, run_state="gone" if gone else "running")
    return Observation(f"{run.name}/job_liveness", run.name, run.name, result, at)


def _result(
    run: Training, plugin: str, told: Result, at: float, metrics: dict[str, Metric],
    progress: Progress | None = None,
) -> Observation:  # fmt: skip
    result = replace(told, metrics=metrics, progress=progress, cells={})
    return Observation(f"{run.name}/{plugin}", run.name, run.name, result, at)


def _disk(at: float, full: Result) -> Iterator[Observation]:
    used = 62e12 + 12e12 * (1 - (NOW - at) / (3 * DAY))
    space = {"used": Metric(used, "B"), "free": Metric(100e12 - used, "B"), "total": Metric(100e12, "B")}
    files = 61e6 - _free(at)
    inodes = {"used": Metric(files), "free": Metric(61e6 - files), "total": Metric(61e6)}
    inodes["full_in"] = Metric(9 * HOUR + NOW - at, "s")
    spare = {"used": Metric(80.9e9, "B"), "free": Metric(19.1e9, "B"), "total": Metric(100e9, "B")}
    for disk, result, metrics in (
        ("scratch", Result(Status.OK, "26 TB of 100 TB free (26 %)", subject="bytes"), space),
        ("scratch", full, inodes),
        ("home", Result(Status.OK, "19.1 GB of 100 GB free (19.1 %)", subject="bytes"), spare),
    ):
        yield Observation(f"{disk}/disk_quota", "", disk, replace(result, metrics=metrics), at)


def _status(latest: list[Observation], book: AlertState) -> dict[str, Any]:
    known = declared()
    known["disk_quota"]["checks"] = ["scratch/disk_quota", "home/disk_quota"]
    pressed = {"run": "moe-3b", "switch": "save", "by": "alice"}
    number = next(each.id for each in open_incidents(book) if each.run == "glide-xl")
    asked = {"incident": number, "run": "glide-xl", "trigger": "on_hang"}
    return {
        "alive": True,
        "holder": "process 4711 on cpu7 (job 88412)",
        "last_round": iso(NOW - 20),
        "round_every": EVERY,
        "link": {
            "job_id": "88412", "node": "cpu7", "ends_at": iso(NOW + 7 * HOUR),
            "successor": {"job_id": "88413", "state": "PENDING", "reason": "Dependency"},
        },
        "incidents": [incident_json(each) for each in open_incidents(book)],
        "actions": [
            {**asked, "action": "requeue", "will": "requeue its job", "began": iso(NOW - 20)}
        ],
        "switches": [{**pressed, "at": iso(NOW - 240), "reason": "before the maintenance"}],
        "gaps": [],
        "checks": [observation_json(each) for each in latest],
        "declared": known,
        "silences": [],
        "troubles": [],
    }  # fmt: skip
