"""An evening of four runs, with a fixed clock: the home of which the committed pictures were taken."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tests.golden import checks
from tests.web.stage import declared
from watchdogd.batch.run_models import Progress
from watchdogd.checks.free_space import FreeSpaceLimits
from watchdogd.daemon.status_file import incident_json, observation_json, open_incidents
from watchdogd.history.models import Gap, Record
from watchdogd.history.store import Store
from watchdogd.home.layout import Home
from watchdogd.incidents import message_wording
from watchdogd.incidents.models import AlertState, CheckState, EventKind, Incident, Observation
from watchdogd.incidents.reminders import event
from watchdogd.notify.message import compose
from watchdogd.notify.routing import MessageRules
from watchdogd.parsers import nagios
from watchdogd.parsers.quota.models import INODES
from watchdogd.plugin import Amount, History, Metric, Result, Status
from watchdogd.plugins.disk_quota.check import Outlook, _worded
from watchdogd.units import iso
from watchdogd.web.content import PageContent, gather

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from watchdogd.notify.notification import Notification

NOW = 1_796_000_040.0
"""Tuesday, 30 November 2026, 00:54 UTC."""
HOUR, DAY = 3600.0, 86400.0
EVERY = 1200.0
LINES = {
    "moe-3b": "iteration 548500/900000 | lm loss: 1.873 | 2.41 s | grad norm 0.72",
    "glide-xl": "iteration 81240/105000 | lm loss: 2.030 | 3.05 s",
    "plain-1b": "step 249: loss 3.1, 0.9 s",
    "llama-7b": "epoch done, saving checkpoint global_step41200",
}


def gathered(folder: Path) -> PageContent:
    """What the page of that home shows."""
    home = Home(folder / "home")
    home.make()
    home.write(home.config, '[daemon]\nname = "bloom-watch"\n')
    said = _said(folder)
    incidents = list(_incidents(said))
    _keep_evidence(home)
    store = Store.open("sqlite:///history.db", home)
    rounds = [
        list(_observations(NOW - 3 * DAY + step * EVERY, step, said))
        for step in range(int(3 * DAY / EVERY) + 1)
    ]
    store.record(Record(NOW, tuple(each for seen in rounds for each in seen)))
    latest = rounds[-1]
    states = {(each.check, each.subject): _state(each) for each in incidents}
    messages = tuple(_messages(incidents))
    store.record(Record(NOW, alerts=AlertState(states), notifications=messages, gaps=(_GAP,)))
    status = _status(latest, AlertState(states))
    try:
        return gather(home, store, status, "bloom-watch", since=NOW - 7 * DAY, now=NOW)
    finally:
        store.close()


def _said(folder: Path) -> dict[str, Result]:
    """What the product says of that evening: each from the check's own function."""
    steps = "\n".join(f"step {step}: loss 3.1, 0.9 s" for step in range(242, 250))
    moves = "\n".join(f"iteration {step}/900000 | lm loss: 1.9" for step in range(502_323, 502_331))
    began, ago = NOW - 3 * HOUR, 44 * 60.0
    glide: dict[str, Any] = {"name": "glide-xl", "begin": NOW - ago - 480, "stale_after": 720.0}
    hung = checks.job("331", name="glide-xl", nodes="n[001-016]", node_count=16, started_at=began)
    one = checks.job("340", name="plain-1b", nodes="n017", node_count=1, started_at=began)
    plain: dict[str, Any] = {"name": "plain-1b", "begin": NOW - 189 - 480, "stale_after": 90.0}
    over = NOW - 5 * HOUR
    failed = checks.end("329", started_at=over - 9 * HOUR, ended_at=over, nodes="n[018-033]")
    gone = checks.liveness(
        {"jobs": (checks.job(started_at=over - 9 * HOUR),)},
        {"endings": (failed,)},
        cause="GPU out of memory on rank 7",
        begin=over - 60,
    )
    limits = FreeSpaceLimits(Amount(absolute=1_000_000), Amount(absolute=100_000))
    room = checks.verdict(548_500, 61e6, INODES, left=9 * HOUR, limits=limits)
    outlook = Outlook(History(), NOW)
    found = {
        "glide-xl": checks.lines(folder, _log(), minutes=44, jobs=(hung,), **glide)[""],
        "plain-1b": checks.lines(folder, steps, minutes=3.15, jobs=(one,), **plain)[""],
        "llama-7b": gone[""],
        "scratch": _worded("/scratch", [room], outlook, "most is held by alice (31 M)"),
        "old-logs": nagios.read(3, "", ""),
        "moe-3b": checks.lines(folder, moves)[""],
    }
    return {name: _placed(result, str(folder / "train.log")) for name, result in found.items()}


def _placed(result: Result, log: str) -> Result:
    """The same with the log where a training has it."""
    return replace(result, facts=tuple(each.replace(log, "/scratch/tr11/train.log") for each in result.facts))


_GAP = Gap(NOW - 50 * HOUR, NOW - 48.5 * HOUR, "no link of the chain ran")


def _incidents(said: Mapping[str, Result]) -> Iterator[Incident]:
    """The incidents of that evening."""
    for number, check, run, target, opened, more in (
        (9, "glide-xl/log_staleness", "glide-xl", "glide-xl", 32 * 60.0, {"since": NOW - 44 * 60}),
        (7, "llama-7b/job_liveness", "llama-7b", "llama-7b", 5 * HOUR,
         {"acknowledged_by": "bob", "acknowledged_at": NOW - 4 * HOUR}),
        (8, "scratch/disk_quota", "", "scratch", 3 * HOUR, {}),
        (6, "cron.hourly/old-logs", "", "cron.hourly/old-logs", 20 * HOUR, {}),
    ):  # fmt: skip
        result = said[target.rpartition("/")[2]]
        yield Incident(
            number, check, run, target, result.subject, result.status, NOW - opened, result.summary,
            result.details, facts=result.facts, advice=result.advice, **more,
        )  # fmt: skip
    over = Incident(
        5, "moe-3b/log_staleness", "moe-3b", "moe-3b", "", Status.CRITICAL, NOW - 30 * HOUR,
        "stalled, no output for 21m (limit 12m), at iteration 502,310/900,000", resolved_at=NOW - 29 * HOUR,
    )  # fmt: skip
    well = said["moe-3b"]
    state: Any = SimpleNamespace(recovery=well.recovery, summary=well.summary, quiet=False)
    yield replace(over, recovery=message_wording.ended(over, state, NOW - 29 * HOUR))


def _log() -> str:
    steps = range(81_233, 81_241)
    return "\n".join(
        f"iteration {step}/105000 | lm loss: 2.03{step % 10} | 3.0{step % 7} s" for step in steps
    )


def _keep_evidence(home: Home) -> None:
    kept = home.evidence / "9"
    kept.mkdir()
    (kept / "log.txt").write_text(_log() + "\n")
    (kept / "stacks.txt").write_text("126 ranks stand in all_reduce\n2 ranks (n017) stand in next_batch\n")
    (kept / "incident.json").write_text(json.dumps({"id": 9, "run": "glide-xl"}))


def _state(incident: Incident) -> CheckState:
    status = Status.OK if incident.resolved_at else incident.status
    return CheckState(
        incident.check, incident.subject, status, incident.summary, NOW, NOW, 3,
        incident=incident, target=incident.target, run=incident.run,
    )  # fmt: skip


def _messages(incidents: Iterable[Incident]) -> Iterator[Notification]:
    """What was sent of them, as the product words it."""
    rules = MessageRules(channels=("slack", "mail"), name="bloom-watch", host="cpu7")
    for each in incidents:
        kind, at = EventKind.OPENED, each.opened_at
        if each.resolved_at is not None:
            kind, at = EventKind.RESOLVED, each.resolved_at
        for note in compose([event(kind, each, at, summary=each.recovery or None)], {}, rules, at):
            waits = (each.id, note.channel) == (9, "mail")
            failure = "mail.test: refused" if waits else ""
            yield replace(note, created_at=at, state="waiting" if waits else "sent", failure=failure)


def _observations(at: float, step: int, found: Mapping[str, Result]) -> Iterator[Observation]:
    hang = at > NOW - 44 * 60
    for run, done, total, pace, unit in (
        ("moe-3b", 548_500, 900_000, 2.4, "iteration"),
        ("glide-xl", 81_240, 105_000, 3.0, "iteration"),
        ("plain-1b", 249, 20_000, 0.9, "step"),
        ("llama-7b", 41_200, 90_000, 2.6, "step"),
    ):
        gone = run == "llama-7b" and at > NOW - 5 * HOUR
        back = max(NOW - at - (44 * 60 if run == "glide-xl" else 0), 0.0)
        slower = 1 + (0.15 * min(back / DAY, 1.0) if run == "moe-3b" else 0.0)
        now = max(done - back / (pace * slower), 1.0)
        number = float(int(min(now, done)))
        yield _jobs(run, at, found["llama-7b"] if gone else None)
        if gone:
            ended = Progress(done=float(done), total=float(total), unit=unit, said=LINES[run])
            yield _result(run, "log_staleness", Result(Status.OK, "not judged: no job runs"), at, {}, ended)
            continue
        stalled = run == "glide-xl" and hang
        doubtful = run == "plain-1b" and at >= NOW - EVERY
        progress = Progress(stalled, at, 60.0, "", number, float(total), unit, pace, LINES[run])
        told = (
            found[run] if stalled or doubtful else Result(Status.OK, f"{unit} {number:.0f}/{total}, 4s ago")
        )
        metrics = {
            "progress": Metric(number), "total": Metric(float(total)), "iteration_time": Metric(pace, "s"),
            "loss": Metric(1.8 + 2.4 / (1 + number / 40_000) + step % 7 / 60),
            "age": Metric(44.0 * 60 if stalled else 4 + step % 5, "s"),
        }  # fmt: skip
        yield _result(run, "log_staleness", told, at, metrics, progress)
        watts = 126.0 if stalled else 640 + step % 9 * 4.0
        gpus = {"utilisation": Metric(98.0 - step % 3, "%"), "power": Metric(watts, "W"), "gpus": Metric(16)}
        yield _result(run, "gpu_health", Result(Status.OK, "16 GPUs are well"), at, gpus)
    yield from _disk(at, found["scratch"])


def _jobs(run: str, at: float, gone: Result | None) -> Observation:
    counts = {"running": Metric(0 if gone else 1), "waiting": Metric(0)}
    told = gone or Result(Status.OK, "job 17 runs")
    result = replace(told, metrics=counts, run_state="gone" if gone else "running")
    return Observation(f"{run}/job_liveness", run, run, result, at)


def _result(
    run: str, plugin: str, told: Result, at: float, metrics: dict[str, Metric],
    progress: Progress | None = None,
) -> Observation:  # fmt: skip
    result = replace(told, metrics=metrics, progress=progress, cells={})
    return Observation(f"{run}/{plugin}", run, run, result, at)


def _disk(at: float, full: Result) -> Iterator[Observation]:
    used = 62e12 + 12e12 * (1 - (NOW - at) / (3 * DAY))
    space = {"used": Metric(used, "B"), "free": Metric(100e12 - used, "B"), "total": Metric(100e12, "B")}
    files = 61e6 - 548_500 - 60_944 * (NOW - at) / HOUR
    inodes = {"used": Metric(files), "free": Metric(61e6 - files), "total": Metric(61e6)}
    inodes["full_in"] = Metric(9 * HOUR, "s")
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
    asked = {"incident": 9, "run": "glide-xl", "trigger": "on_hang"}
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
        "actions": [{**asked, "action": "requeue", "will": "requeue its job", "began": None}],
        "switches": [{**pressed, "at": iso(NOW - 240), "reason": "before the maintenance"}],
        "gaps": [],
        "checks": [observation_json(each) for each in latest],
        "declared": known,
        "silences": [],
        "troubles": [],
    }  # fmt: skip
