"""Every kind of message that exists, in all its forms; `python -m tests.golden.messages` writes the file.

A message of each thing that a check can find, of what becomes of an incident, of what people do, of what
watchdogd does, of channels, and digests: on a phone, in Slack, as mail, in a terminal and on the page.
"""

from __future__ import annotations

import contextlib
import html
import io
import os
import re
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from tests.golden import checks, unreadable
from tests.golden.checks import START
from watchdogd.batch.run_models import SURE
from watchdogd.checks.working_job import Working
from watchdogd.daemon.remediation_context import RemediationContext
from watchdogd.daemon.round import start_event, stop_event
from watchdogd.daemon.self_monitoring import SelfMonitoring
from watchdogd.daemon.switch_events import RunNow, touch_events
from watchdogd.history.database_file import HistoryFile
from watchdogd.home.inbox import Request, Submission
from watchdogd.home.layout import Home
from watchdogd.home.markers import Pause
from watchdogd.incidents import message_wording
from watchdogd.incidents.evaluate import evaluate
from watchdogd.incidents.models import (
    AlertPolicy,
    AlertState,
    EventKind,
    IncidentEvent,
    Observation,
)
from watchdogd.incidents.reminders import notice
from watchdogd.notify.channel_state import ChannelState, Policy
from watchdogd.notify.channels.console import Console
from watchdogd.notify.channels.email import Account, _page
from watchdogd.notify.channels.email import compose as mail
from watchdogd.notify.channels.slack import blocks
from watchdogd.notify.delivery_plan import Situation
from watchdogd.notify.message import compose, test_message
from watchdogd.notify.notification import Message, Notification
from watchdogd.notify.reports import Reports, digest
from watchdogd.notify.routing import MessageRules
from watchdogd.plugin import Result, Status, Suspect
from watchdogd.plugins.job_liveness.job_history import KillSwitch
from watchdogd.plugins.log_staleness.log_verdicts import judge as judge_log
from watchdogd.plugins.log_staleness.new_lines import Wanted
from watchdogd.plugins.log_staleness.run_log import RunLog
from watchdogd.plugins.log_staleness.stall_verdict import Limits, Look
from watchdogd.remediation import executor, job_actions
from watchdogd.remediation.models import Action, ActionRecord
from watchdogd.remediation.policy import ActionLimits, ActionRequest, pending
from watchdogd.remediation.stall_inquiry import RunEvidence, StallInquiry, _named
from watchdogd.stacks.stack_folding import Process
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


FIRST = 7
"""Number of the incident that a message opens or ends."""


def told(check: str, said: checks.Said) -> Events:
    """The messages of what a check says, as the rounds decide; an end is that of its subject's last fault."""
    begun: dict[tuple[str, str], Observation] = {}
    for name, each in said:
        seen = each if isinstance(each, Observation) else checks.seen(check, each)
        key = seen.check, seen.result.subject
        title = f"{KINDS.get(check) or seen.check.rpartition('/')[2]}: {name}"
        if seen.result.notice:
            yield title, notice(seen, seen.at, quiet=False)
        elif seen.result.status is Status.OK:
            yield title, rounds([begun[key]], [seen])[-1]
        else:
            begun[key] = seen
            yield title, rounds([seen])[0]


KINDS = {"watchdogd": "watchdogd", "cron.hourly/tidy": "drop-in"}
"""Titles that are not the name of one check."""


def rounds(*looks: Sequence[Observation]) -> list[IncidentEvent]:
    """What the rounds report of these looks, as the daemon decides it: each is seen twice to be believed."""
    state, found = AlertState(next_id=FIRST), []
    for look in looks:
        at = look[0].at
        began = max((each.result.since or 0.0 for each in look), default=0.0)
        for now in (max(at - 60.0, began), at):
            seen = [replace(each, at=now) for each in look]
            state, events = evaluate(state, seen, {each.check: AlertPolicy() for each in look}, now)
            found += [_ordered(each, look) for each in events]
    return found


def _ordered(found: IncidentEvent, look: Sequence[Observation]) -> IncidentEvent:
    """The event with what watchdogd is to do about a stall."""
    promised = (each.result for each in look if any(told.action == "requeue" for told in each.result.advice))
    hangs = {result.summary for result in promised if result.trigger == "on_hang"}
    will = (Action("stacks"), Action("requeue"))
    with mock.patch.object(job_actions, "_may_end", lambda job: job.user == "alice"):  # whoever renders this
        bobs = job_actions.foreign((checks.job("330", user="bob"),), "slurm")
    theirs = any(each.command == "scontrol requeue 330" for each in found.advice)
    request = ActionRequest(FIRST, found.run, "on_hang", will, bobs if theirs else None)
    coming = tuple(each.next(found.at) for each in pending([request], (), ActionLimits(), found.at))
    polls = any(
        told.action == "save-switch" for told in found.advice
    )  # one of its Guards, so that it is told
    return replace(found, polled=polls, upcoming=coming if found.summary in hangs else ())


def suspects(folder: Path) -> Events:
    """A stall whose inquiry found who holds the run up."""
    seen = checks.lines(folder, checks.STEPS, minutes=4)[""]
    result = seen.result
    behind = "is behind: it has not entered AllReduce 1139"
    accused = Suspect("NCCL", behind, SURE, rank=9, node="node3", gpu=1)
    task: Any = SimpleNamespace(record=SimpleNamespace(run="llama-7b"), run=None)
    stall = StallInquiry(rounds([seen])[0], replace(result, suspects=(accused,)), task, stacks=True)
    yield SUSPECT, _named(stall, RunEvidence(), 0.0)


SUSPECT = "log_staleness: stalled, with a suspect"


def lives() -> Events:
    """What becomes of an incident, as the rounds decide it, and what people do about it."""
    worse, mild, good = (checks.scratch(free) for free in (1, 4, 30))
    check, policy = "scratch/disk_quota", AlertPolicy(confirm=1, repeat_every=3600.0, escalate_after=1800.0)
    state, now = AlertState(next_id=FIRST), START

    def round_of(result: Result, after: float, *requests: Request) -> list[IncidentEvent]:
        nonlocal state, now
        now += after
        seen = [Observation(check, "", "scratch", result, now)]
        state, events = evaluate(state, seen, {check: policy}, now, requests=requests)
        return list(events)

    for name, result, after in (
        ("a WARNING", mild, 60.0), ("which turns CRITICAL", worse, 60.0), ("nobody takes it", worse, 1800.0),
        ("a reminder", worse, 3600.0), ("it eases", mild, 60.0),
    ):  # fmt: skip
        for each in round_of(result, after):
            yield f"an incident: {name} ({each.kind.name})", each
    now += 60.0
    for name, request in (
        ("acknowledged", Request("ack", "alice", now, incident=FIRST, reason="I look")),
        ("silenced", Request("silence", "bob", now, target="scratch", until=now + 7200, reason="new disks")),
        ("the silence is ended", Request("unsilence", "bob", now, target="scratch")),
    ):
        for each in round_of(mild, 0.0, request)[:1]:
            yield f"people: {name}", each
    for each in round_of(good, 60.0):
        yield f"an incident: it ends ({each.kind.name})", each


def comings_and_goings(folder: Path) -> Events:
    """An incident that comes and goes, one with others of its cause, one whose check or fault is gone."""
    check = "llama-7b/log_staleness"
    limit = "stale_after under [runs.llama-7b]"
    policy = AlertPolicy(confirm=1, escalate_after=600.0, repeat_every=600.0, limit=limit)
    state, now = AlertState(next_id=FIRST), START
    found: list[IncidentEvent] = []
    for at in range(20):
        now += 60.0
        bad = Result(Status.CRITICAL, "stalled, no output for 1m (limit 45s)").dated(now - 60)
        result = Result(Status.OK, "step 8, 1s ago") if at % 2 else bad
        seen = [Observation(check, "llama-7b", "llama-7b", result, now)]
        state, events = evaluate(state, seen, {check: policy}, now)
        found += [each for each in events if each.notes]
    yield "an incident: it comes and goes", found[0]
    for kind in (EventKind.REMINDER, EventKind.ESCALATION):
        later = next(each for each in found if each.kind is kind)
        yield f"an incident: it comes and goes ({kind.name})", later
    obeyed = {"endings": (checks.end(state="COMPLETED", exit_code=0),)}
    switch = KillSwitch(START, "alice", "wrong learning rate")
    stopped, cleared = (
        checks.liveness({"jobs": (checks.job(),)}, {**obeyed}, *more, switch=switch)[""]
        for more in ((), ({**obeyed, "switch": None},))
    )
    (unjudged,) = judge_log(Look("", Working(), RunLog(), NOW), Limits("auto", None), Wanted())
    stalled = checks.lines(folder, checks.STEPS, minutes=4)[""]
    for name, begun, result in (
        ("its kill switch is cleared", stopped, cleared.result),
        ("it is not judged any more", stalled, unjudged),
    ):
        yield f"an incident: {name}", rounds([begun], [replace(begun, result=result, at=begun.at + 240)])[-1]
    yield "an incident: its check is removed", removed(stalled)


def removed(begun: Observation) -> IncidentEvent:
    """The end of an incident whose check is no more."""
    policy = AlertPolicy(confirm=1)
    state, _ = evaluate(AlertState(next_id=FIRST), [begun], {begun.check: policy}, begun.at)
    return evaluate(state, [], {}, begun.at + 240)[1][0]


def people() -> Events:
    """Switches and the watchdog's own stop."""

    def touch(
        action: str, at: float, by: str = "alice", switch: str = "kill", reason: str = ""
    ) -> Submission:
        said = {"run": "llama-7b", "switch": switch, "action": action, "reason": reason}
        return Submission(Path("x"), "touch", by, at, said)

    pressed, cleared = touch("set", NOW, reason="wrong data"), touch("cleared", NOW + 10)
    runs, waits = checks.job(), checks.waits()
    obeyed = {"llama-7b": "stopped on request by alice: wrong data"}
    for name, touches, stops, jobs, polled in (
        ("a switch is set", [pressed], {}, (runs,), True),
        ("a switch that no Guard polls", [pressed], {}, (runs,), False),
        ("a switch is cleared, the run has stopped", [cleared], obeyed, (), True),
        ("a switch is cleared, jobs wait", [cleared], obeyed, (waits,), True),
        ("a switch is cleared, the run runs on", [cleared], {}, (runs,), True),
        ("set and cleared at once", [pressed, cleared], {}, (runs,), True),
        ("a save is asked for", [touch("set", NOW, switch="save")], {}, (runs,), True),
    ):
        known = RunNow("slurm", jobs, polled)
        for each in touch_events(
            touches, lambda _: None, touches[-1].at, stops, lambda *_, known=known: known
        ):
            yield f"people: {name}", each
    yield (
        "people: the watchdog is stopped",
        stop_event(
            "bloom-watch",
            "alice",
            "the cluster is serviced",
            NOW,
            "watchdogd start",
            ("not watched now: 3 runs and 1 disk", "1 incident open"),
        ),
    )
    pause = Pause(NOW - 900, NOW - 5, "stopped by alice on login1: the cluster is serviced", "alice")
    yield "people: the watchdog is started again", start_event("bloom-watch", pause, 1, NOW)
    monitor = SelfMonitoring()
    monitor.tell(restored())
    damaged = Observation("watchdogd", "", "bloom-watch", monitor._notices[0], NOW)
    yield "the watchdog: its history was restored", notice(damaged, NOW, quiet=False)
    gap = f"{message_wording.unwatched(START, NOW)}: no daemon ran"
    yield "the watchdog: nobody watched", _own(gap, "WARNING")


def restored() -> str:
    """What the history says once a damaged file is replaced by the backup of the night before."""
    with tempfile.TemporaryDirectory() as folder, mock.patch("time.time", return_value=NOW):
        home = Home(Path(folder))
        home.make()
        file = HistoryFile(home.history, home)
        with contextlib.closing(sqlite3.connect(file.backup)) as backup:
            backup.execute("CREATE TABLE kept (at REAL)")
        os.utime(file.backup, (NOW, NOW - 14 * 3600))
        home.history.write_text("damaged" * 1000)
        text = file.repair().replace(folder, "/home/alice/watchdogd")
        return re.sub(r"corrupt-\w+", "corrupt-20261127T173000", text)


def _own(text: str, label: str) -> IncidentEvent:
    return IncidentEvent(EventKind.NOTICE, NOW, "watchdogd", "", "bloom-watch", text, label=label)


STOPPED = "no stacks: the process is stopped (state T)"
DEEDS: Any = (
    (
        "evidence",
        "done",
        "PyTorch's Flight Recorder: rank 9 has not entered AllReduce 1139; /home/alice/watchdogd/evidence/7",
        "rank 9 has not entered AllReduce 1139, evidence saved",
    ),
    ("stacks", "done", "the rank stands in next_batch (train.py:5)", "stacks taken"),
    (
        "stacks",
        "failed",
        "no stack of a rank",
        "no stacks",
        "the process is stopped (state T)",
        "",
        executor._woken([Process("node2", 4711)]),
    ),
    (
        "requeue",
        "done",
        "job 329 on node[2-3] is requeued",
        "job 329 requeued",
        "",
        "",
        job_actions._way_back("requeue", checks.RUN, checks.job()),
    ),
    (
        "requeue",
        "failed",
        "scontrol requeue 329: access denied",
        "",
        "access denied",
        "scontrol requeue 329",
    ),
    (
        "cancel",
        "done",
        "job 329 is cancelled",
        "job 329 cancelled",
        "",
        "",
        job_actions._way_back("cancel", checks.RUN, checks.job()),
    ),
    (
        "kill-switch",
        "done",
        "/home/alice/run.kill is set",
        "kill switch pressed by watchdogd",
        "",
        "",
        (executor._cleared("kill", "llama-7b"),),
    ),
    (
        "kill-switch",
        "done",
        "/home/alice/run.kill is set",
        "kill switch pressed by watchdogd, but it is suspended",
        "",
        "",
        executor._woken_first("kill", "llama-7b", "slurm", (checks.job(state="SUSPENDED"),)),
    ),
    (
        "save-switch",
        "done",
        "/home/alice/run.save is set",
        "save switch pressed by watchdogd",
        "",
        "",
        (executor._cleared("save", "llama-7b"),),
    ),
    ("exec", "done", "ended after 0.2 s: ops is called", "notify-oncall ran"),
    ("exec", "failed", "ended with exit code 3", ""),
    (
        "resubmit",
        "done",
        "/work/train.slurm is submitted as job 332",
        "train.slurm submitted as job 332",
        "",
        "",
        (job_actions._cancelled(checks.RUN, "332"),),
    ),
    ("annotate", "done", "W&B: alert sent; MLflow: tag watchdogd.incident.7 set", "noted in W&B, MLflow"),
    ("annotate", "failed", "W&B: UsageError: no API key configured", ""),
    (
        "hold",
        "done",
        "jobs 331, 332, 333 are held",
        "3 waiting jobs held",
        "",
        "",
        (job_actions._waiting_again("hold", checks.RUN, "331 332 333"),),
    ),
    (
        "cancel-pending",
        "done",
        "jobs 331, 332, 333 are cancelled",
        "3 waiting jobs cancelled",
        "",
        "",
        (job_actions._waiting_again("cancel-pending", checks.RUN, ""),),
    ),
    ("requeue", "skipped", "3 today already (max_per_day)", ""),
    ("cancel", "lost", "watchdogd ended while it did this, and does not do it again", ""),
)
"""What can come of each action: kind, state, outcome, how a first line has it, why, and how by hand."""
WORDS = {"exec": ("/work/notify-oncall", "llama-7b"), "resubmit": ("/work/train.slurm",)}


def _record(
    kind: str, state: str, outcome: str, short: str, why: str = "", by_hand: str = "", then: Any = ()
) -> ActionRecord:
    action = Action(kind, WORDS.get(kind, ()))
    return ActionRecord(
        FIRST,
        "llama-7b",
        "on_hang",
        action,
        NOW,
        state,
        outcome,
        NOW,
        short,
        why=why,
        by_hand=by_hand,
        then=then,
    )


def actions() -> Events:
    """What watchdogd does by itself."""
    run = SimpleNamespace(job_name="llama-7b", backend="slurm")
    check = SimpleNamespace(name="llama-7b/job_liveness", run=run)
    hung = Result(Status.CRITICAL, "stalled, no output for 4m (limit 90s)").dated(NOW - 240)
    seen = Observation("llama-7b/log_staleness", "llama-7b", "llama-7b", hung, NOW)
    context: Any = SimpleNamespace(speaker=lambda _run: check, incidents={FIRST: rounds([seen])[0].incident})
    for deed in DEEDS:
        record = _record(*deed)
        yield f"action: {deed[0]} {deed[1]}", RemediationContext.notice(context, [record], "", NOW)
    several = [_record(*deed) for deed in (DEEDS[1], DEEDS[3])]
    yield "action: several", RemediationContext.notice(context, several, "rank 3 in next_batch", NOW)
    mixed = [_record(*deed) for deed in (DEEDS[2], DEEDS[6], DEEDS[4])]
    yield "action: some failed", RemediationContext.notice(context, mixed, "", NOW)
    later = replace(Action("requeue").next(), when=message_wording.not_before(NOW + 192, 408.0))
    more = RemediationContext.notice(context, [_record(*DEEDS[1])], "", NOW, (later,))
    yield "action: one is still to come", more


def said_by_checks(folder: Path) -> Iterator[tuple[str, checks.Said]]:
    """Check, and what it says of everything that can go wrong."""
    yield "llama-7b/log_staleness", checks.log(folder / "log")
    yield "llama-7b/job_liveness", checks.job_liveness()
    yield "llama-7b/checkpoint_age", checks.saved(folder / "saved")
    yield "scratch/disk_quota", checks.disk()
    yield "llama-7b/node_health", checks.nodes()
    yield "llama-7b/gpu_health", checks.gpus()
    yield "watchdogd", checks.itself()
    yield "cron.hourly/tidy", checks.dropins(folder)
    yield "llama-7b/log_staleness", unreadable.log(folder / "log")
    yield "llama-7b/checkpoint_age", unreadable.saved()
    yield "scratch/disk_quota", unreadable.disk()
    yield "llama-7b/node_health", unreadable.nodes()
    yield "llama-7b/gpu_health", unreadable.gpus()
    yield "cron.hourly/tidy", unreadable.dropin(folder)
    yield "waiting-jobs", unreadable.broken_off()


def results() -> Iterator[tuple[str, Result]]:
    """Title and result of all that the checks say."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for each in ("log", "saved"):
            (folder / each).mkdir()
        for check, said in said_by_checks(folder):
            for title, found in said:
                yield f"{check}: {title}", found.result if isinstance(found, Observation) else found


def messages() -> Iterator[tuple[str, Message]]:
    """All of them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for each in ("log", "saved"):
            (folder / each).mkdir()
        events = [
            *(each for check, said in said_by_checks(folder) for each in told(check, said)),
            *comings_and_goings(folder / "log"),
            *suspects(folder / "log"), *lives(), *people(), *actions(),
        ]  # fmt: skip
        for title, found in events:
            for note in compose([found], {}, RULES, found.at):
                yield title, _here(note.message, name)
        for note in compose(together := at_once(folder / "log"), {}, RULES, together[0].at):
            yield "several alerts of one run at once", _here(note.message, name)
        for title, message in delivery([event for _, event in events]):
            yield title, _here(message, name)


def at_once(folder: Path) -> list[IncidentEvent]:
    """Three faults of one run that one round finds, which travel as one message."""
    forbidden = {"must_not_see": (r"Using \[0\]nmn0",)}
    log = checks.lines(folder, f"NET/OFI Using [0]nmn0\n{checks.STEPS}", minutes=4, **forbidden)
    gpu = checks.seen("llama-7b/gpu_health", checks.memory_errors(), log[""].at)
    return rounds([log[""], log["must_not_see"], gpu])


def delivery(events: list[IncidentEvent]) -> Iterator[tuple[str, Message]]:
    """What delivery says of itself, and digests."""
    yield "delivery: a test", test_message("bloom-watch", "login1", "alice", NOW)
    one_round = [*{each.target: each for each in reversed(events) if each.at == START}.values()][-3:]
    several = [_rows(one_round), _rows([*one_round[:2], events[0]])]
    row = several[1][-1]
    now = row.created_at
    reports = Reports("mail", ("slack",), now, Policy(name="bloom-watch"))
    yield "delivery: a channel is broken", reports.broken("smtp.example.org refused: 550", [row])[0].message
    yield "delivery: some never get it", reports.partly("bob@example.org refused: 550")[0].message
    yield "delivery: one message is refused", reports.refused(replace(row, failure="too long"))[0].message
    later = Reports("mail", ("slack",), now + 86400, Policy(name="bloom-watch"))
    yield "delivery: given up", later.expired([row])[0].message
    yield "delivery: it works again", later.works()[0].message
    stalls = [each for each in events if each.check == "llama-7b/log_staleness"]
    first, last = stalls[0], next(each for each in stalls if each.kind is EventKind.RESOLVED)
    for name, rows in (
        ("an alert that comes late", _rows([first])),
        ("one that has ended since", _rows([first, last])),
    ):
        yield f"delivery: {name}", late(rows)
    for occasion, rows in zip(("in one round", "in quiet hours"), several, strict=True):
        at, policy = rows[-1].created_at, Policy(name="bloom-watch")
        yield f"delivery: many {occasion}", digest(rows, at, at, policy, occasion)[-1].message


def late(rows: Sequence[Notification]) -> Message:
    """The first of these as the channel mail sends it, which did not take it for an hour."""
    channel = ChannelState("mail")
    for row in rows:
        channel.put(row)
    at = rows[0].created_at + 3600.0
    return Situation({"mail": channel}, "mail", at, Policy(name="bloom-watch")).plan().sends[0].message


def _rows(events: Sequence[IncidentEvent]) -> list[Notification]:
    """What the channel mail is to deliver of them."""
    return [
        Notification(f"{at}@mail", "mail", compose([each], {}, RULES, each.at)[0].message, each.at)
        for at, each in enumerate(events)
    ]


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
    """Each message's row on the page, as it is read there a day later."""
    notes = [
        Notification(f"{at}@mail", "mail", each, each.at, "sent", sent_at=each.at)
        for at, each in enumerate(messages)
    ]
    rows = tuple(MessageRow(note.message.at, note.message, (note,)) for note in notes)
    empty: Any = {"runs": (), "open": (), "over": (), "charts": (), "gaps": (), "touches": (), "links": ()}
    status: Any = {"alive": True, "last_round": None, "home": "", "link": None, "holder": None, "checks": []}
    page = render(
        PageContent("bloom-watch", max(each.at for each in messages), START, status, messages=rows, **empty)
    )
    section = page.partition('id="h-messages"')[2].partition('aria-labelledby="h-chain"')[0]
    items = [each.partition("</li>")[0] for each in section.split('<li class="item"><time>')[1:]]
    return [" ".join(html.unescape(re.sub(r"<[^>]*>", " ", item)).split()) for item in items]


def _forms(title: str, message: Message, row: str) -> str:
    note = Notification("key@mail", "mail", message, message.at)
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
