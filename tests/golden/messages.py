"""Every kind of message that exists, in all its forms; `python -m tests.golden.messages` writes the file.

A message of each thing that a check can find, of what becomes of an incident, of what people do, of what
watchdogd does, of channels, and digests: on a phone, in Slack, as mail, in a terminal and on the page.
"""

from __future__ import annotations

import html
import io
import os
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.golden import checks, unreadable
from tests.golden.checks import START
from watchdogd.batch.run_models import SURE
from watchdogd.daemon.remediation_context import RemediationContext
from watchdogd.daemon.round import stop_event, touch_events
from watchdogd.daemon.self_monitoring import SelfMonitoring
from watchdogd.home.inbox import Request, Submission
from watchdogd.incidents import message_wording
from watchdogd.incidents.evaluate import evaluate
from watchdogd.incidents.models import (
    AlertPolicy,
    AlertState,
    EventKind,
    Incident,
    IncidentEvent,
    Observation,
)
from watchdogd.incidents.reminders import event, notice
from watchdogd.notify.channel_state import Policy
from watchdogd.notify.channels.console import Console
from watchdogd.notify.channels.email import Account, _page
from watchdogd.notify.channels.email import compose as mail
from watchdogd.notify.channels.slack import blocks
from watchdogd.notify.message import compose, test_message
from watchdogd.notify.notification import Message, Notification
from watchdogd.notify.reports import Reports, digest
from watchdogd.notify.routing import MessageRules
from watchdogd.plugin import Advice, Result, Status, Suspect
from watchdogd.plugins.job_liveness.job_history import KillSwitch
from watchdogd.remediation.models import Action, ActionRecord
from watchdogd.remediation.stall_inquiry import RunEvidence, StallInquiry, _named
from watchdogd.system.account import own_name
from watchdogd.web.content import MessageRow, PageContent
from watchdogd.web.render import render

FILE = Path(__file__).with_name("messages.txt")
NOW = START + 600.0
RULES = MessageRules(
    channels=("slack",),
    escalate_to=("slack",),
    threaded=frozenset({"slack"}),
    name="bloom-watch",
    host="login1",
)

Events = Iterator[tuple[str, IncidentEvent]]


def of_check(check: str, target: str, said: checks.Said) -> Events:
    """The messages of what a check says: a beginning, a notice, or the end of what it said before."""
    last = Result(Status.CRITICAL, "it was bad")
    for name, result in said:
        lasted = result.metrics.get("age")
        at = result.since + lasted.value if result.since and lasted else NOW
        seen = Observation(f"{target}/{check}", target, target, result, at)
        if result.notice:
            yield f"{check}: {name}", notice(seen, NOW, quiet=False)
        elif result.status is not Status.OK:
            last = result
            yield f"{check}: {name}", _opened(seen)
        elif result.recovery:
            before = replace(_incident(replace(seen, result=last)), resolved_at=NOW)
            state: Any = SimpleNamespace(recovery=result.recovery, summary=result.summary, quiet=False)
            before = replace(before, recovered=message_wording.recovered(state))
            words = message_wording.ended(before, state, NOW)
            yield f"{check}: {name}", event(EventKind.RESOLVED, before, NOW, summary=words, details="")


def _incident(seen: Observation) -> Incident:
    result = seen.result
    return Incident(
        7, seen.check, seen.run, seen.target, result.subject, result.status, NOW - 120, result.summary,
        result.details, since=result.since or NOW - 240, fault=result.kind, facts=result.facts,
        advice=result.advice,
        notified=result.status, first_notified_at=NOW - 120,
    )  # fmt: skip


def _opened(seen: Observation) -> IncidentEvent:
    found = event(EventKind.OPENED, _incident(seen), seen.at)
    will = (Action("stacks").next, Action("requeue").next)
    return replace(found, upcoming=will) if seen.result.trigger == "on_hang" else found


def suspects(folder: Path) -> Events:
    """A stall whose inquiry found who holds the run up."""
    result = checks.lines(folder, checks.STEPS, minutes=4)[""]
    seen = Observation("llama-7b/log_staleness", "llama-7b", "llama-7b", result, NOW)
    behind = "is behind: it has not entered AllReduce 1139"
    accused = Suspect("NCCL", behind, SURE, rank=137, node="n017", gpu=1)
    task: Any = SimpleNamespace(record=SimpleNamespace(run="llama-7b"), run=None)
    stall = StallInquiry(_opened(seen), replace(result, suspects=(accused,)), task, stacks=True)
    yield SUSPECT, _named(stall, RunEvidence(), 0.0)


SUSPECT = "log_staleness: stalled, with a suspect"


def lives() -> Events:
    """What becomes of an incident, as the rounds decide it, and what people do about it."""
    bad = Result(
        Status.CRITICAL,
        "98 % full",
        facts=("/scratch",),
        advice=(Advice("Make room: most is held by bob (30 TB)."),),
    )
    check, policy = "scratch/disk_quota", AlertPolicy(confirm=1, repeat_every=3600.0, escalate_after=1800.0)
    state, now = AlertState(), START

    def round_of(result: Result | None, after: float, *requests: Request) -> list[IncidentEvent]:
        nonlocal state, now
        now += after
        seen = [Observation(check, "", "scratch", result, now)] if result else []
        state, events = evaluate(state, seen, {check: policy}, now, requests=requests)
        return list(events)

    worse, mild = bad, replace(bad, status=Status.WARNING, summary="91 % full")
    for name, result, after in (
        ("a WARNING", mild, 60.0), ("which turns CRITICAL", worse, 60.0), ("nobody takes it", worse, 1800.0),
        ("a reminder", worse, 3600.0), ("it eases", mild, 60.0),
    ):  # fmt: skip
        for each in round_of(result, after):
            yield f"an incident: {name} ({each.kind.name})", each
    for name, request in (
        ("acknowledged", Request("ack", "alice", now, incident=1, reason="I look")),
        ("silenced", Request("silence", "bob", now, target="scratch", until=now + 7200, reason="new disks")),
        ("the silence is ended", Request("unsilence", "bob", now, target="scratch")),
    ):
        for each in round_of(mild, 60.0, request)[:1]:
            yield f"people: {name}", each
    for each in round_of(Result(Status.OK, "40 % full"), 60.0):
        yield f"an incident: it ends ({each.kind.name})", each


def comings_and_goings() -> Events:
    """An incident that comes and goes, one with others of its cause, one whose check or fault is gone."""
    check, policy = "llama-7b/log_staleness", AlertPolicy(confirm=1)
    bad = Result(Status.CRITICAL, "stalled, no output for 20m (limit 15m)").dated(START)
    state, now = AlertState(), START
    told: list[IncidentEvent] = []
    for at in range(20):
        now += 60.0
        result = Result(Status.OK, "step 8, 1s ago") if at % 2 else bad
        seen = [Observation(check, "llama-7b", "llama-7b", result, now)]
        state, events = evaluate(state, seen, {check: policy}, now)
        told += [each for each in events if each.notes]
    for each in told[:1]:
        yield "an incident: it comes and goes", each
    stopped = checks.liveness(
        {"jobs": (checks.job(),)}, {"endings": (checks.end(state="COMPLETED", exit_code=0),)},
        switch=KillSwitch(START, "alice", "wrong data"),
    )[""]  # fmt: skip
    cleared = Result(Status.OK, "the run is expected again", quiet=True).ending("kill switch cleared")
    yield from _ends("its kill switch is cleared", "job_liveness", stopped, cleared)
    unjudged = Result(Status.OK, "not judged", quiet=True)
    yield from _ends("it is not judged any more", "log_staleness", bad, unjudged)
    yield from _ends("its check is removed", "log_staleness", bad, None)


def _ends(title: str, check: str, bad: Result, good: Result | None) -> Events:
    """The end of an incident, as the rounds decide it."""
    name, policy = f"llama-7b/{check}", AlertPolicy(confirm=1)
    state, now = AlertState(), START
    for result in (bad, good):
        now += 60.0
        seen = [Observation(name, "llama-7b", "llama-7b", result, now)] if result else []
        state, events = evaluate(state, seen, {name: policy} if result else {}, now)
    yield from ((f"an incident: {title}", each) for each in events)


def people() -> Events:
    """Switches and the watchdog's own stop."""

    def touch(
        action: str, at: float, by: str = "alice", switch: str = "kill", reason: str = ""
    ) -> Submission:
        said = {"run": "llama-7b", "switch": switch, "action": action, "reason": reason}
        return Submission(Path("x"), "touch", by, at, said)

    pressed, cleared = touch("set", NOW, reason="wrong data"), touch("cleared", NOW + 10)
    for name, touches in (
        ("a switch is set", [pressed]), ("a switch is cleared", [cleared]),
        ("set and cleared at once", [touch("set", NOW), cleared]),
        ("a save is asked for", [touch("set", NOW, switch="save")]),
    ):  # fmt: skip
        for each in touch_events(touches, lambda _run: None, NOW):
            yield f"people: {name}", each
    yield (
        "people: the watchdog is stopped",
        stop_event("bloom-watch", "alice", "the cluster is serviced", NOW),
    )
    monitor = SelfMonitoring()
    monitor.tell("history /home/alice/watchdogd/history.db was damaged: restored from the backup")
    damaged = Observation("watchdogd", "", "bloom-watch", monitor._notices[0], NOW)
    yield "the watchdog: its history was restored", notice(damaged, NOW, quiet=False)
    gap = f"{message_wording.unwatched(START, NOW)}: no daemon ran"
    yield "the watchdog: nobody watched", _own(gap, "WARNING")


def _own(text: str, label: str) -> IncidentEvent:
    return IncidentEvent(EventKind.NOTICE, NOW, "watchdogd", "", "bloom-watch", text, label=label)


DEEDS = (
    (
        "evidence",
        "done",
        "rank 137 has not entered AllReduce 1139 (Flight Recorder); /home/alice/watchdogd/evidence/6",
        "",
    ),
    ("stacks", "done", "the rank stands in next_batch (train.py:5)", "stacks taken"),
    ("stacks", "failed", "no stack of a rank", "no stacks", "the process is stopped (state T)"),
    ("requeue", "done", "job 331 on node[2-3] is requeued", "job 331 requeued"),
    (
        "requeue",
        "failed",
        "scontrol requeue 331: access denied",
        "",
        "access denied",
        "scontrol requeue 331",
    ),
    ("cancel", "done", "job 331 is cancelled", "job 331 cancelled"),
    ("kill-switch", "done", "/home/alice/run.kill is set", "kill switch pressed by watchdogd"),
    ("save-switch", "done", "/home/alice/run.save is set", "save switch pressed by watchdogd"),
    ("exec", "done", "ended after 0.2 s: ops is called", "notify-oncall ran"),
    ("exec", "failed", "ended with exit code 3", ""),
    ("resubmit", "done", "/work/train.slurm is submitted as job 332", "train.slurm submitted as job 332"),
    ("annotate", "done", "W&B: alert sent; MLflow: tag watchdogd.incident.6 set", "noted in W&B, MLflow"),
    ("annotate", "failed", "W&B: UsageError: no API key configured", ""),
    ("hold", "done", "3 waiting jobs are held: scontrol release 331 lets them go", "3 waiting jobs held"),
    ("cancel-pending", "done", "3 waiting jobs are cancelled", "3 waiting jobs cancelled"),
    ("requeue", "skipped", "3 today already (max_per_day)", ""),
    ("cancel", "lost", "watchdogd ended while it did this, and does not do it again", ""),
)
"""What can come of each action: kind, state, outcome, how a first line has it, why, and how by hand."""
WORDS = {"exec": ("/work/notify-oncall", "llama-7b"), "resubmit": ("/work/train.slurm",)}


def _record(
    kind: str, state: str, outcome: str, short: str, why: str = "", by_hand: str = ""
) -> ActionRecord:
    action = Action(kind, WORDS.get(kind, ()))
    return ActionRecord(
        6, "llama-7b", "on_hang", action, NOW, state, outcome, NOW, short, why=why, by_hand=by_hand
    )


def actions() -> Events:
    """What watchdogd does by itself."""
    run = SimpleNamespace(job_name="llama-7b", backend="slurm")
    check = SimpleNamespace(name="llama-7b/job_liveness", run=run)
    context: Any = SimpleNamespace(speaker=lambda _run: check, incidents={})
    for deed in DEEDS:
        record = _record(*deed)
        yield f"action: {deed[0]} {deed[1]}", RemediationContext.notice(context, [record], "", NOW)
    several = [_record(*deed) for deed in (DEEDS[1], DEEDS[3])]
    yield "action: several", RemediationContext.notice(context, several, "rank 3 in next_batch", NOW)
    mixed = [_record(*deed) for deed in (DEEDS[2], DEEDS[6], DEEDS[4])]
    yield "action: some failed", RemediationContext.notice(context, mixed, "", NOW)


def said_by_checks(folder: Path) -> Iterator[tuple[str, str, checks.Said]]:
    """Check, target, and what it says of everything that can go wrong."""
    yield "log_staleness", "llama-7b", checks.log(folder / "log")
    yield "job_liveness", "llama-7b", checks.job_liveness()
    yield "checkpoint_age", "llama-7b", checks.saved(folder / "saved")
    yield "disk_quota", "scratch", checks.disk()
    yield "nodes", "llama-7b", checks.nodes()
    yield "gpu_health", "llama-7b", checks.gpus()
    yield "watchdogd", "bloom-watch", checks.itself()
    yield "drop-in", "cron.hourly/tidy", checks.dropins(folder)
    yield "log_staleness", "llama-7b", unreadable.log(folder / "log")
    yield "checkpoint_age", "llama-7b", unreadable.saved()
    yield "disk_quota", "scratch", unreadable.disk()
    yield "nodes", "llama-7b", unreadable.nodes()
    yield "gpu_health", "llama-7b", unreadable.gpus()
    yield "drop-in", "cron.hourly/tidy", unreadable.dropin(folder)
    yield "own plugin", "waiting_jobs", unreadable.broken_off()


def results() -> Iterator[tuple[str, Result]]:
    """Title and result of all that the checks say."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for each in ("log", "saved"):
            (folder / each).mkdir()
        for check, _, said in said_by_checks(folder):
            yield from ((f"{check}: {title}", result) for title, result in said)


def messages() -> Iterator[tuple[str, Message]]:
    """All of them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for each in ("log", "saved"):
            (folder / each).mkdir()
        events = [
            *(
                each
                for check, target, said in said_by_checks(folder)
                for each in of_check(check, target, said)
            ),
            *comings_and_goings(),
            *suspects(folder / "log"), *lives(), *people(), *actions(),
        ]  # fmt: skip
        for title, found in events:
            for note in compose([found], {}, RULES, max(found.at, NOW)):
                yield title, _here(note.message, name)
        together = [_numbered(at, found) for at, (title, found) in enumerate(events) if title in TOGETHER]
        for note in compose(together, {}, RULES, NOW):
            yield "several alerts of one run at once", _here(note.message, name)
        yield from delivery([event for _, event in events])


TOGETHER = ("log_staleness: stalled", "log_staleness: a forbidden line", "nodes: a node of it drains")
"""Messages of one round about one run, which travel as one."""


def _numbered(number: int, found: IncidentEvent) -> IncidentEvent:
    return replace(found, incident=replace(found.incident, id=number)) if found.incident else found


def delivery(events: list[IncidentEvent]) -> Iterator[tuple[str, Message]]:
    """What delivery says of itself, and digests."""
    yield "delivery: a test", test_message("bloom-watch", "login1", NOW)
    row = Notification("k@mail", "mail", compose(events[:1], {}, RULES, NOW)[0].message, NOW)
    reports = Reports("mail", ("slack",), NOW, Policy(name="bloom-watch"))
    yield "delivery: a channel is broken", reports.broken("smtp.example.org refused: 550", [row])[0].message
    yield "delivery: it works again", reports.works()[0].message
    yield "delivery: some never get it", reports.partly("bob@example.org refused: 550")[0].message
    yield "delivery: one message is refused", reports.refused(replace(row, failure="too long"))[0].message
    yield "delivery: given up", reports.expired([row])[0].message
    rows = [replace(row, key=f"{at}@mail") for at in range(3)]
    for occasion in ("in one round", "in quiet hours"):
        policy = Policy(name="bloom-watch")
        yield f"delivery: many {occasion}", digest(rows, NOW, NOW, policy, occasion)[-1].message


def _here(message: Message, folder: str) -> Message:
    """The message with nothing of this machine in it."""
    return replace(message, headline=_clean(message.headline, folder), body=_clean(message.body, folder))


def _clean(text: str, folder: str) -> str:
    host = os.uname().nodename
    return (
        text.replace(f"{folder}/log", "/scratch/tr11")
        .replace(folder, "/scratch/tr11")
        .replace(host, "login1")
        .replace(f"permission denied for {own_name()}", "permission denied for alice")
    )


def rendered() -> str:
    """The whole file: the first lines, then each message in all its forms. In the zone CET."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "CET-1CEST,M3.5.0,M10.5.0/3"
    time.tzset()
    try:
        found = list(messages())
        heads = "\n".join(f"{title:48} {message.headline}" for title, message in found)
        rows = _page_rows([message for _, message in found])
        parts = [_forms(title, message, row) for (title, message), row in zip(found, rows, strict=True)]
    finally:
        os.environ.pop("TZ")
        os.environ.update({"TZ": before} if before else {})
        time.tzset()
    return f"FIRST LINES\n\n{heads}\n\n" + "\n".join(parts)


def _page_rows(messages: list[Message]) -> list[str]:
    """Each message's row on the page, as it is read there."""
    notes = [
        Notification(f"{at}@mail", "mail", each, NOW, "sent", sent_at=NOW) for at, each in enumerate(messages)
    ]
    rows = tuple(MessageRow(NOW, note.message, (note,)) for note in notes)
    empty: Any = {"runs": (), "open": (), "over": (), "charts": (), "gaps": (), "touches": (), "links": ()}
    status: Any = {"alive": True, "last_round": None, "home": "", "link": None, "holder": None, "checks": []}
    page = render(PageContent("bloom-watch", NOW, START, status, messages=rows, **empty))
    section = page.partition('id="h-messages"')[2].partition('aria-labelledby="h-chain"')[0]
    items = section.split('<li class="item"><time>')[1:]
    return [" ".join(html.unescape(re.sub(r"<[^>]*>", " ", item)).split()) for item in items]


def _forms(title: str, message: Message, row: str) -> str:
    note = Notification("key@mail", "mail", message, NOW)
    letter = mail(note, (), Account(("smtp://localhost",), "dog@example.org", ("team@example.org",)))
    plain = letter.get_body(("plain",))
    assert plain is not None
    stream = io.StringIO()
    Console(stream).send(note, ())
    forms = {
        "phone, 80 columns": message.headline[:80],
        "Slack": "\n".join(each["text"]["text"] for each in blocks(message)),
        "mail": f"Subject: {letter['Subject']}\n\n{plain.get_content()}",
        "mail, HTML": _page(message),
        "terminal": stream.getvalue(),
        "page": row,
    }
    shown = "\n".join(f"-- {name}\n{_indented(text)}" for name, text in forms.items())
    return f"{'=' * 100}\n{title}\n{shown}\n"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.strip("\n").split("\n"))


def first_lines() -> list[tuple[str, str]]:
    """Title and first line of each message in the file."""
    head = FILE.read_text(encoding="utf-8").partition("\n\n")[2].partition("\n\n")[0]
    return [(line[:48].strip(), line[49:]) for line in head.split("\n")]


PATH = re.compile(r"(?<![\w:.])/\w+/\w+")
ISO = re.compile(r"\d{4}-\d\d-\d\dT?")


if __name__ == "__main__":
    FILE.write_text(rendered(), encoding="utf-8")
