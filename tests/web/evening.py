"""An evening of four runs, with a fixed clock: the home of which the committed pictures were taken."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.web.stage import declared
from watchdogd.batch.run_models import Progress
from watchdogd.daemon.status_file import incident_json, observation_json, open_incidents
from watchdogd.history.models import Gap, Record
from watchdogd.history.store import Store
from watchdogd.home.layout import Home
from watchdogd.incidents.models import AlertState, CheckState, Incident, Observation
from watchdogd.notify.notification import Message, Notification
from watchdogd.plugin import Metric, Result, Status
from watchdogd.units import iso
from watchdogd.web.content import PageContent, gather

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

NOW = 1_796_000_040.0
"""Tuesday, 30 November 2026, 00:54 UTC."""
HOUR, DAY = 3600.0, 86400.0
EVERY = 1200.0
ADVICE = ("watchdogd stacks glide-xl", "scontrol requeue 331")
LINES = {
    "moe-3b": "iteration 548500/900000 | lm loss: 1.873 | 2.41 s | grad norm 0.72",
    "glide-xl": "iteration 81240/105000 | lm loss: 2.034 | 3.02 s",
    "plain-1b": "step 249: loss 3.1, 0.9 s",
    "llama-7b": "epoch done, saving checkpoint global_step41200",
}


def gathered(folder: Path) -> PageContent:
    """What the page of that home shows."""
    home = Home(folder / "home")
    home.make()
    home.write(home.config, '[daemon]\nname = "bloom-watch"\n')
    incidents = _incidents()
    _keep_evidence(home)
    store = Store.open("sqlite:///history.db", home)
    rounds = [
        list(_observations(NOW - 3 * DAY + step * EVERY, step)) for step in range(int(3 * DAY / EVERY) + 1)
    ]
    store.record(Record(NOW, tuple(each for seen in rounds for each in seen)))
    latest = rounds[-1]
    states = {(each.check, each.subject): _state(each) for each in incidents}
    store.record(Record(NOW, alerts=AlertState(states), notifications=tuple(_messages()), gaps=(_GAP,)))
    status = _status(latest, AlertState(states))
    try:
        return gather(home, store, status, "bloom-watch", since=NOW - 7 * DAY, now=NOW)
    finally:
        store.close()


_GAP = Gap(NOW - 50 * HOUR, NOW - 48.5 * HOUR, "no link of the chain ran")


def _incidents() -> list[Incident]:
    tail = f"last lines of the log:\n{_log()}"
    return [
        Incident(
            9, "glide-xl/log_staleness", "glide-xl", "glide-xl", "", Status.CRITICAL, NOW - 41 * 60,
            "stalled, no output for 44m (limit 12m), at iteration 81240/105000", tail, since=NOW - 44 * 60,
        ),
        Incident(
            7, "llama-7b/job_liveness", "llama-7b", "llama-7b", "", Status.CRITICAL, NOW - 5 * HOUR,
            "job 329 FAILED (exit 1) after 9h", "exit code 1 on n017",
            acknowledged_by="bob", acknowledged_at=NOW - 4 * HOUR,
        ),
        Incident(
            8, "scratch/disk_quota", "", "scratch", "inodes", Status.WARNING, NOW - 3 * HOUR,
            "548,500 inodes free, full in 9h", "alice holds 31 M of them",
        ),
        Incident(
            6, "cron.hourly/old-logs", "", "old-logs", "", Status.UNKNOWN, NOW - 20 * HOUR,
            "old-logs ended with exit code 3 and said nothing",
        ),
        Incident(
            5, "moe-3b/log_staleness", "moe-3b", "moe-3b", "", Status.CRITICAL, NOW - 30 * HOUR,
            "stalled, no output for 21m (limit 12m), at iteration 502310/900000",
            resolved_at=NOW - 29 * HOUR, recovery="makes progress again after 1h, iteration 502330/900000",
        ),
    ]  # fmt: skip


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


def _messages() -> Iterator[Notification]:
    told = [
        (
            9,
            "CRITICAL",
            "glide-xl",
            "stalled, no output for 44m (limit 12m), at iteration 81240/105000",
            41 * 60.0,
        ),
        (8, "WARNING", "scratch", "548,500 inodes free, full in 9h", 3 * HOUR),
        (7, "CRITICAL", "llama-7b", "job 329 FAILED (exit 1) after 9h", 5 * HOUR),
        (5, "RESOLVED", "moe-3b", "makes progress again after 1h, iteration 502330/900000", 29 * HOUR),
    ]
    for number, status, target, summary, ago in reversed(told):
        message = Message(
            f"[{status}] {target}: {summary}", "", status, target, f"incident-{number}", NOW - ago
        )
        for channel in ("slack", "mail"):
            waits = (number, channel) == (9, "mail")
            yield Notification(
                f"{number}-{status}@{channel}", channel, message, NOW - ago,
                state="waiting" if waits else "sent", failure="mail.test: refused" if waits else "",
            )  # fmt: skip


def _observations(at: float, step: int) -> Iterator[Observation]:
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
        yield _jobs(run, at, gone=gone)
        if gone:
            ended = Progress(done=float(done), total=float(total), unit=unit, said=LINES[run])
            yield _result(run, "log_staleness", Status.OK, "not judged: no job runs", at, {}, ended)
            continue
        stalled = run == "glide-xl" and hang
        doubtful = run == "plain-1b" and at >= NOW - EVERY
        progress = Progress(stalled, at, 60.0, "", number, float(total), unit, pace, LINES[run])
        said = f"{unit} {number:,.0f} 4s ago"
        if stalled or doubtful:
            said = "stalled, no output for " + (
                "44m (limit 12m)" if stalled else "3m9s (limit 90s), at step 249"
            )
        bad = Status.CRITICAL if stalled or doubtful else Status.OK
        metrics = {
            "progress": Metric(number), "total": Metric(float(total)), "iteration_time": Metric(pace, "s"),
            "loss": Metric(1.8 + 2.4 / (1 + number / 40_000) + step % 7 / 60),
            "age": Metric(44.0 * 60 if stalled else 4 + step % 5, "s"),
        }  # fmt: skip
        yield _result(run, "log_staleness", bad, said, at, metrics, progress, ADVICE if stalled else ())
        watts = 126.0 if stalled else 640 + step % 9 * 4.0
        gpus = {"utilisation": Metric(98.0 - step % 3, "%"), "power": Metric(watts, "W"), "gpus": Metric(16)}
        yield _result(run, "gpu_health", Status.OK, "16 GPUs are well", at, gpus)
    yield from _disk(at)


def _jobs(run: str, at: float, *, gone: bool) -> Observation:
    status, said = (
        (Status.CRITICAL, "job 329 FAILED (exit 1) after 9h") if gone else (Status.OK, "job 17 runs")
    )
    counts = {"running": Metric(0 if gone else 1), "waiting": Metric(0)}
    state = "gone" if gone else "running"
    return Observation(f"{run}/job_liveness", run, run, Result(status, said, counts, run_state=state), at)


def _result(
    run: str, plugin: str, status: Status, said: str, at: float, metrics: dict[str, Metric],
    progress: Progress | None = None, advice: Iterable[str] = (),
) -> Observation:  # fmt: skip
    result = Result(status, said, metrics, progress=progress).saying(advice=advice)
    return Observation(f"{run}/{plugin}", run, run, result, at)


def _disk(at: float) -> Iterator[Observation]:
    used = 62e12 + 12e12 * (1 - (NOW - at) / (3 * DAY))
    space = {"used": Metric(used, "B"), "free": Metric(100e12 - used, "B"), "total": Metric(100e12, "B")}
    files = 61e6 - 548_500 - 60_944 * (NOW - at) / HOUR
    inodes = {"used": Metric(files), "free": Metric(61e6 - files), "total": Metric(61e6)}
    inodes["full_in"] = Metric(9 * HOUR, "s")
    spare = {"used": Metric(80.9e9, "B"), "free": Metric(19.1e9, "B"), "total": Metric(100e9, "B")}
    for disk, subject, status, metrics in (
        ("scratch", "bytes", Status.OK, space),
        ("scratch", "inodes", Status.WARNING, inodes),
        ("home", "bytes", Status.OK, spare),
    ):
        result = Result(status, f"{disk} {subject}", metrics, subject=subject)
        yield Observation(f"{disk}/disk_quota", "", disk, result, at)


def _status(latest: list[Observation], book: AlertState) -> dict[str, Any]:
    known = declared()
    known["disk_quota"]["checks"] = ["scratch/disk_quota", "home/disk_quota"]
    pressed = {"run": "llama-7b", "switch": "kill", "by": "alice"}
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
        "actions": [{**asked, "action": "requeue", "began": None}],
        "switches": [{**pressed, "at": iso(NOW - 5 * HOUR), "reason": "bad data"}],
        "gaps": [],
        "checks": [observation_json(each) for each in latest],
        "declared": known,
        "silences": [],
        "troubles": [],
    }  # fmt: skip
