"""A home that has watched for some days: what the page is shown of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from watchdogd.daemon.registry.plugin_registry import built_in
from watchdogd.daemon.status_file import declared_json
from watchdogd.history.models import Gap, Record
from watchdogd.history.store import Store
from watchdogd.home.layout import Home
from watchdogd.incidents.models import AlertState, CheckState, Incident, Observation
from watchdogd.notify.notification import Message, Notification
from watchdogd.plugin import Metric, Progress, Result, Status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOUR = 3600.0
EVIL = "<script>alert(1)</script>"
"""A run's name that must stay a name."""
RUNS = ("llama-7b", EVIL)
EVERY = 600.0


def home_with_past(folder: Path, now: float, hours: int = 72, nodes: int = 4) -> Home:
    """A home with `hours` of history that ends at `now`: a hang, a disk that fills, a gap, hostile names, and
    so many nodes of one run."""
    home = Home(folder / "home")
    home.make()
    home.write(home.config, '[daemon]\nname = "bloom-watch"\n')
    store = Store.open("sqlite:///history.db", home)
    for record in _rounds(now - hours * HOUR, now, nodes):
        store.record(record)
    store.close()
    kept = home.evidence / "1"
    kept.mkdir()
    (kept / "stacks.txt").write_text("126 ranks all_reduce\n2 ranks next_batch <b>loader</b>\n")
    return home


def _rounds(begin: float, now: float, nodes: int) -> Iterator[Record]:
    hang = _hang(now)
    count = int((now - begin) / EVERY)
    for number in range(count):
        at = begin + number * EVERY
        if 0.2 < number / count < 0.25:
            continue
        hangs = at >= hang.opened_at
        yield Record(at, tuple(_seen(at, number, number / count, nodes, hangs=hangs)))
    standing = CheckState("llama-7b/log_staleness", "", hang.status, hang.summary, now, now, 3, incident=hang)
    yield Record(
        now - 60,
        alerts=AlertState(
            {("llama-7b/log_staleness", ""): standing, ("scratch/disk_quota", "bytes"): _full(now)}
        ),
        notifications=(_told(now, "mail", "sent"), _told(now, "slack", "waiting", "slack.test: refused")),
        gaps=(Gap(begin + 0.2 * (now - begin), begin + 0.25 * (now - begin), "no daemon ran"),),
        touches=(f"bob pressed the kill switch of {EVIL}",),
    )


def _hang(now: float) -> Incident:
    return Incident(
        id=1,
        check="llama-7b/log_staleness",
        run="llama-7b",
        target="llama-7b",
        subject="",
        status=Status.CRITICAL,
        opened_at=now - 4 * HOUR,
        summary="nothing written for 4h, learned limit 12m",
        details=f"iteration 88000 loss 2.1\n{EVIL}\n\x1b[31mred\x1b[0m",
    )


def _full(now: float) -> CheckState:
    incident = Incident(
        id=2,
        check="scratch/disk_quota",
        run="",
        target="scratch",
        subject="bytes",
        status=Status.WARNING,
        opened_at=now - 30 * HOUR,
        resolved_at=now - 20 * HOUR,
        summary="/scratch: full in about 2d",
        recovery="/scratch: 50 TB free",
    )
    return CheckState(
        "scratch/disk_quota",
        "bytes",
        Status.OK,
        "50 TB free",
        now,
        now,
        3,
        incident=incident,
        target="scratch",
    )


def _told(now: float, channel: str, state: str, failure: str = "") -> Notification:
    headline = "[CRITICAL] llama-7b: nothing written for 4h"
    message = Message(headline, "Since", "CRITICAL", "llama-7b", "incident-1", now)
    return Notification(f"{now}@{channel}", channel, message, now - 60, state=state, failure=failure)


def _seen(at: float, number: int, share: float, nodes: int, *, hangs: bool) -> Iterator[Observation]:
    waits = share < 0.1
    for run in RUNS:
        jobs = Result(
            Status.OK,
            "job 17 runs on node[1-4]",
            {"running": Metric(0 if waits else 1), "waiting": Metric(2)},
        )
        yield Observation(f"{run}/job_liveness", run, run, jobs, at)
    chain = Result(
        Status.OK, "chain: no trouble", {"link": Metric(29 if share < 0.5 else 30)}, subject="chain"
    )
    yield Observation("watchdogd", "", "bloom-watch", chain, at)
    lines = {"iteration_time": Metric(3 + number % 5 / 10, "s"), "loss": Metric(2 + 1 / (1 + number))}
    log = Result(Status.OK, "well", lines, progress=Progress(stalled=hangs))
    yield Observation("llama-7b/log_staleness", "llama-7b", "llama-7b", log, at)
    used = 40e12 + share * 50e12
    disk = {"used": Metric(used, "B"), "total": Metric(100e12, "B"), "full_in": Metric(18 * HOUR, "s")}
    yield Observation(
        "scratch/disk_quota", "", "scratch", Result(Status.OK, "room", disk, subject="bytes"), at
    )
    for node in range(1, nodes + 1):
        left = {"left": Metric(400e9 - share * node * 300e9 / nodes, "B")}
        yield _of_run("memory_leak", f"node{node}", at, left)
        gpus = {
            "temperature": Metric(50 + node * 20 / nodes + number % 4, "C"),
            "utilisation": Metric(97 - number % 3, "%"),
        }
        yield _of_run("gpu_health", f"node{node}", at, gpus)
    yield _of_run("gpu_health", "", at, {"utilisation": Metric(97, "%"), "power": Metric(550, "W")})


def _of_run(plugin: str, subject: str, at: float, metrics: dict[str, Metric]) -> Observation:
    result = Result(Status.OK, "well", metrics, subject=subject)
    return Observation(f"llama-7b/{plugin}", "llama-7b", "llama-7b", result, at)


def declared() -> dict[str, Any]:
    """What the built-in checks declare, as status.json has it."""
    checks: list[Any] = [SimpleNamespace(name=f"-/{entry.name}", entry=entry) for entry in built_in()]
    return declared_json(checks)


def status_of(now_iso: str) -> dict[str, Any]:
    """What `status --json` would say."""

    def result(check: str, run: str, subject: str | None, status: str, summary: str) -> dict[str, Any]:
        words = {"check": f"{run}/{check}", "run": run, "subject": subject, "status": status, "target": run}
        metrics = {"running": {"value": 1.0, "unit": ""}} if check == "job_liveness" else {}
        return {
            **words,
            "summary": summary,
            "metrics": metrics,
            "details": "",
            "progress": None,
            "at": now_iso,
            **({"run_state": "running"} if check == "job_liveness" else {}),
        }

    checks = [result("job_liveness", run, None, "OK", "job 17 runs on node[1-4]") for run in RUNS]
    stalled = {"stalled": True, "at": None, "within": None, "pause": ""}
    checks.append({**result("log_staleness", RUNS[0], None, "CRITICAL", "silent"), "progress": stalled})
    checks += [result("memory_leak", RUNS[0], f"node{node}", "OK", "400 GB left") for node in range(1, 5)]
    checks.append(result("gpu_health", RUNS[0], "node3/gpu2", "CRITICAL", "node3/gpu2: is lost"))
    return {
        "alive": True,
        "holder": "job 30 on small1",
        "last_round": now_iso,
        "link": {
            "job_id": "30",
            "node": "small1",
            "ends_at": now_iso,
            "successor": {
                "job_id": "31",
                "state": "PENDING",
                "reason": "Priority",
                "expected_node": "small2",
            },
        },
        "incidents": [],
        "gaps": [],
        "checks": checks,
        "declared": declared(),
        "silences": [],
        "troubles": [],
    }
