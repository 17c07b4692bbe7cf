"""What one round's events say, to whom, and under which keys."""

import dataclasses
import re

import pytest

from tests.notify.values import NOON, event, incident
from watchdogd.history.sql import packed, unpacked
from watchdogd.incidents.models import EventKind, IncidentEvent, NextAction
from watchdogd.notify.message import BODY_LIMIT, compose, test_message
from watchdogd.notify.notification import Message
from watchdogd.notify.routing import MessageRules, Route
from watchdogd.plugin import STOPPED, Advice, Status

CHECK = "run-17/log_staleness"
ROUTES = {CHECK: Route(("slack", "mail"), "https://example.org/run-17")}
RULES = MessageRules(channels=("slack",), escalate_to=("pager",), name="bloom-watch", host="login1")


def _one(*events: IncidentEvent, rules: MessageRules = RULES) -> str:
    """The only message of these events, as text."""
    messages = {note.message for note in compose(events, ROUTES, rules, NOON)}
    assert len(messages) == 1
    message = messages.pop()
    return f"{message.headline}\n{message.body}"


def test_an_opening_says_what_since_when_where_why_and_what_to_type() -> None:
    text = _one(event(notes=("[WARNING] run-17/gpu_health: no data",), done=("took stacks of 8 ranks",)))
    looks = f"What you can do:\nTo look at it again now:\n    watchdogd check {CHECK}\n\nSince "
    assert text.startswith(f"[CRITICAL] run-17: no new line for 25m\n{looks}")
    assert re.search(r"\nSince \d+ \w+ [\d:]{8} \w+, for 25m\.\n", text)
    assert f"check {CHECK}" in text
    assert "\n    iteration 811\n    iteration 812\n" in text
    assert "[WARNING] run-17/gpu_health: no data" in text
    assert "watchdogd did: took stacks of 8 ranks" in text
    assert "Runbook: https://example.org/run-17" in text
    assert "\n    watchdogd ack 17\n" in text
    assert "\n    watchdogd silence run-17 --for 2h\n" in text
    assert "kill-switch" not in text, "nobody polls it, as far as is known"
    assert text.endswith(f"Seen by bloom-watch on login1; check {CHECK}, incident 17")


def test_the_kill_switch_is_offered_where_a_guard_polls_it() -> None:
    assert "\n    watchdogd kill-switch run-17\n" in _one(event(polled=True))


def test_the_body_begins_with_what_watchdogd_will_do_and_what_helps() -> None:
    advice = (
        Advice("To see more:", "watchdogd stacks run-17", "stacks"),
        Advice("To restart it:", "scontrol requeue 331", "requeue"),
    )
    facts = ("limit 10m: stale_after",)
    text = _one(event(advice=advice, upcoming=(NextAction("requeue", "requeue its job"),), facts=facts))
    assert text.split("\n", 1)[1].startswith(
        "watchdogd will requeue its job. An acknowledgement or a silence stops that.\n\n"
        "What you can do:\n"
        "To see more:\n    watchdogd stacks run-17\n"
        "Only if watchdogd could not requeue its job:\n    scontrol requeue 331\n\n"
        "Since "
    )
    assert "\nlimit 10m: stale_after\n" in text
    assert "To restart it:\n    scontrol requeue 331\n" in _one(event(advice=advice))
    elsewhere = dataclasses.replace(RULES, command="watchdogd --home /work/w")
    assert "    watchdogd --home /work/w stacks run-17\n" in _one(event(advice=advice), rules=elsewhere)


def test_advice_for_a_failed_action_says_what_its_command_shows() -> None:
    shows = "how it was submitted"
    how = Advice(f"To restart it; this shows {shows}:", "sacct -j 331", "resubmit", shows=shows)
    text = _one(event(advice=(how,), upcoming=(NextAction("resubmit", "submit train.slurm"),)))
    failed = "Only if watchdogd could not submit train.slurm; this shows how it was submitted:"
    assert f"{failed}\n    sacct -j 331\n" in text


@pytest.mark.parametrize("kind", ["requeue", "resubmit", "cancel"])
def test_a_restart_that_would_meet_the_same_error_says_so_and_how_it_is_stopped(kind: str) -> None:
    fix = Advice("Correct the error first: it would fail again.", recurs=True)
    upcoming = (NextAction("stacks", "take stacks"), NextAction(kind, "go on"))
    text = _one(event(advice=(fix,), upcoming=upcoming))
    again = (
        "But the job would meet the same error again. To stop that:\n    watchdogd ack 17\n\nWhat you can do:"
    )
    promise = text.split("\n", 1)[1]
    if kind == "cancel":
        assert promise.startswith("watchdogd will take stacks, then go on. An acknowledgement or a silence")
    else:
        assert promise.startswith(f"watchdogd will take stacks, then go on. {again}")
    refused = (NextAction(kind, "go on", refused="dry run"),)
    assert "same error" not in _one(event(advice=(fix,), upcoming=refused)).partition("What you")[0]
    assert "same error" not in _one(event(upcoming=upcoming))


def test_what_people_did_goes_to_everybody_and_wakes_nobody() -> None:
    rules = dataclasses.replace(RULES, standing=frozenset({"pager"}))
    routes = {CHECK: Route(("slack", "pager"))}
    acked = event(EventKind.ACKNOWLEDGED, summary="incident 17 acknowledged by ann: on it", calm=True)
    (note,) = compose([acked], routes, rules, NOON)
    assert (note.channel, note.message.quiet, note.message.thread) == ("slack", True, "incident-17")
    assert note.message.headline == "[INFO] run-17: incident 17 acknowledged by ann: on it"
    assert "What you can do" not in note.message.body


def test_what_helps_about_a_notice_beside_an_end_stands_below_the_notice() -> None:
    silenced = dataclasses.replace(
        event(EventKind.NOTICE, summary="silenced by bob for 2h"),
        calm=True,
        advice=(Advice("To end the silence now:", "watchdogd unsilence run-17"),),
    )
    text = _one(event(EventKind.RESOLVED), silenced)
    assert "What you can do" not in text
    assert text.index("silenced by bob") < text.index("To end the silence now:\n    watchdogd unsilence")
    assert _one(silenced).count("To end the silence now:") == 1


def test_only_ends_count_as_more_ends() -> None:
    end = event(EventKind.RESOLVED)
    unsilenced = dataclasses.replace(
        end, kind=EventKind.NOTICE, summary="silence ended by bob", incident=None
    )
    other = event(EventKind.RESOLVED, incident(18))
    heads = [_one(*group).split("\n")[0] for group in ((end, unsilenced), (end, other, unsilenced))]
    assert ["more end" in head for head in heads] == [False, True]
    assert heads[1].endswith("(and 1 more end)")


def test_a_first_line_is_100_characters_and_nothing_is_lost() -> None:
    long = "stalled, no output for 22m (limit 10m), at step 249; rank 137 (node n017, GPU 1) " + "waits " * 30
    text = _one(event(summary=long))
    first, rest = text.split("\n", 1)
    assert len(first) <= 100
    assert first.endswith("at step 249; rank 137"), "whole clauses"
    assert rest.startswith(long.strip())


@pytest.mark.parametrize("target", ["run-17", "a-run-with-a-name-of-40-characters-or-more"])
def test_a_first_line_keeps_whom_the_evidence_accuses(target: str) -> None:
    behind = "rank 137 (node n017, GPU 1) is behind: it has not entered AllReduce 1139"
    said = event(summary="stalled for 22m, at iteration 81,240/105,000", suspect=behind, target=target)
    text = _one(said)
    first, _, body = text.partition("\n")
    assert "; rank 137 (node n017" in first
    assert len(first) <= 100
    assert first.index("stalled for 22m") < 60
    assert first.index("n017") < (80 if target == "run-17" else 100)
    assert first.endswith(behind) or body.startswith(f"{said.summary}; {behind}\n"), (
        "all of it is in the body"
    )
    assert len(_one(event(summary="x " * 90)).partition("\n")[0]) <= 100
    long = _one(dataclasses.replace(said, suspect=f"ranks {', '.join(map(str, range(200)))} are behind"))
    assert len(long.partition("\n")[0]) <= 100
    assert "stalled for" in long.partition("\n")[0]
    assert "198, 199 are behind" in long, "nothing is lost"


def test_of_a_run_whose_kill_switch_is_set_nobody_is_told_to_press_it() -> None:
    about = incident(fault=STOPPED, details="whatever the words are")
    assert "kill-switch run-17\n" not in _one(event(about=about, polled=True))
    told = _one(event(details="iteration 811\nthe kill switch is set", polled=True))
    assert "\n    watchdogd kill-switch run-17\n" in told, "words are no evidence"


def test_a_command_can_be_pasted_whatever_the_name() -> None:
    about = incident(run="lauf ä $1", target="lauf ä $1", fault=STOPPED)
    text = _one(event(about=about))
    assert "\n    watchdogd silence 'lauf ä $1' --for 2h\n" in text


def test_since_when_counts_from_the_first_bad_result() -> None:
    about = incident(opened_at=NOON, since=NOON - 90)
    assert ", for 90s." in _one(event(about=about))
    assert "Lasted 90s, " in _one(event(EventKind.RESOLVED, about, summary="the log grows again"))


def test_a_disk_has_no_kill_switch() -> None:
    disk = incident(run="", target="scratch", check="scratch/disk_quota", subject="inodes")
    text = _one(event(about=disk))
    assert "kill-switch" not in text
    assert "check scratch/disk_quota inodes, incident 17" in text


def test_a_resolution_says_how_long_it_lasted_and_asks_for_nothing() -> None:
    ended = incident(resolved_at=NOON)
    text = _one(event(EventKind.RESOLVED, ended, summary="the log grows again", details=""))
    assert text.startswith("[RESOLVED] run-17: the log grows again\nLasted 25m, from ")
    assert "ack" not in text
    assert "iteration 812" not in text


def test_an_end_quotes_what_was_said_at_the_worst_not_what_was_seen_last() -> None:
    about = incident(worst=Status.CRITICAL, worst_summary="no new line for 25m", summary="few lines come")
    assert "\nIt was: [CRITICAL] no new line for 25m\n" in _one(event(EventKind.RESOLVED, about))


def test_the_words_of_each_kind() -> None:
    warning = incident(status=Status.WARNING)
    words = {
        EventKind.OPENED: "[WARNING]",
        EventKind.WORSE: "[WARNING]",
        EventKind.EASED: "[WARNING]",
        EventKind.ESCALATION: "[WARNING]",
        EventKind.REMINDER: "[REMINDER]",
        EventKind.RESOLVED: "[RESOLVED]",
    }
    for kind, word in words.items():
        assert _one(event(kind, warning)).startswith(f"{word} run-17: ")
    notice = IncidentEvent(EventKind.NOTICE, NOON, CHECK, "run-17", "run-17", "restarted")
    assert _one(notice).startswith("[INFO] run-17: restarted")


def test_events_about_one_target_travel_in_one_message_the_worst_first() -> None:
    gpu = incident(18, Status.WARNING, check="run-17/gpu_health", subject="node5/gpu3", summary="hot")
    notes = compose(
        [event(about=gpu), event()], ROUTES | {"run-17/gpu_health": Route(("slack",))}, RULES, NOON
    )
    slack = next(note for note in notes if note.channel == "slack").message
    assert slack.headline == "[CRITICAL] run-17: no new line for 25m (and 1 more alert)"
    assert "[WARNING] node5/gpu3: hot" in slack.body
    assert "watchdogd ack 17" in slack.body
    assert "watchdogd ack 18" in slack.body
    assert slack.incidents == (17, 18)
    assert slack.thread == "incident-17"
    mail = next(note for note in notes if note.channel == "mail").message
    assert "hot" not in mail.body
    assert len(notes) == 2


def test_the_command_that_ends_a_run_stands_first_only_for_the_worst_of_several() -> None:
    end, look = Advice("To stop the run:", "scancel 331", "cancel"), Advice("To look:", "watchdogd nodes")
    gpu, loss = incident(18, Status.WARNING, subject="node5"), incident(19, subject="loss")
    text = _one(event(about=gpu, advice=(look,)), event(about=loss, advice=(end,)))
    assert text.index("scancel") < text.index("watchdogd nodes")
    gpu, loss = incident(18, subject="node5"), incident(19, Status.WARNING, subject="loss")
    text = _one(event(about=loss, advice=(end,)), event(about=gpu, advice=(look,)))
    assert text.index("watchdogd nodes") < text.index("scancel")
    more = dataclasses.replace(loss, id=20)
    text = _one(event(about=gpu), event(about=loss, advice=(end,)), event(about=more, advice=(look,)))
    assert text.index("watchdogd nodes") < text.index("scancel")


def test_several_incidents_in_one_message_are_told_apart_by_their_numbers() -> None:
    gpu = incident(18, Status.WARNING, subject="node5/gpu3", summary="hot")
    over = incident(19, subject="loss", summary="loss is NaN", resolved_at=NOON)
    stall = event(upcoming=(NextAction("requeue", "requeue its job"),))
    text = _one(stall, event(about=gpu), event(EventKind.RESOLVED, over))
    assert "An acknowledgement of incident 17 or a silence stops that." in text
    assert "Once you work on incident 17 (no new line for 25m):\n    watchdogd ack 17\n" in text
    assert "Once you work on incident 18 (node5/gpu3: hot):\n    watchdogd ack 18\n" in text
    assert "To hear no more of them for 2h:\n    watchdogd silence run-17 " in text
    assert re.search(r"\nIncident 17\. Since .*, for 25m\.\n", text)
    assert re.search(r"\n\[WARNING\] node5/gpu3: hot\n\nIncident 18\. Since ", text)
    assert re.search(r"\nIncident 19\. Lasted 25m, from ", text)
    assert text.endswith("Seen by bloom-watch on login1; incidents 17, 18, 19")
    assert text.count("    iteration 811\n    iteration 812") == 1, "both have the same evidence"


@pytest.mark.parametrize(
    ("subject", "summary", "foreign", "words"),
    [
        ("node5", "not reachable", False, "node5: not reachable"),
        ("node5", "node5: not reachable", False, "node5: not reachable"),
        ("node5", "node51 is well", False, "node5: node51 is well"),
        ("node5/gpu3", "node5: GPU3 is hot", False, "node5: GPU3 is hot"),
        ("/dev/shm", "95 % full", False, "/dev/shm: 95 % full"),
        ("inodes", "98 % of the files are used", False, "98 % of the files are used"),
        ("alice", "over her share", True, "alice: over her share"),
        ("alice", "Alice is over her share", True, "Alice is over her share"),
        ("exclude run-17", "more than one job failed on node5", False, "more than one job failed on node5"),
        ("", "over the share", True, "over the share"),
    ],
)
def test_the_first_line_names_which_of_many(subject: str, summary: str, foreign: bool, words: str) -> None:
    about = incident(subject=subject, summary=summary)
    for kind, status in ((EventKind.OPENED, "CRITICAL"), (EventKind.RESOLVED, "RESOLVED")):
        [note] = compose([event(kind, about)], {CHECK: Route(("slack",), foreign=foreign)}, RULES, NOON)
        assert note.message.headline == f"[{status}] run-17: {words}"


def test_something_new_opens_a_thread_though_something_old_is_worse() -> None:
    new = incident(18, Status.WARNING, check="run-17/gpu_health")
    message = compose([event(EventKind.REMINDER), event(about=new)], {}, RULES, NOON)[0].message
    assert message.opens
    assert message.thread == "incident-18"
    assert not compose([event(EventKind.REMINDER)], {}, RULES, NOON)[0].message.opens


def test_an_escalation_goes_to_those_who_are_called_then_all_goes_to_them_too() -> None:
    called = incident(escalated_at=NOON)
    notes = compose(
        [event(EventKind.ESCALATION, called, notes=("nobody acknowledged it for 30 min",))],
        ROUTES,
        RULES,
        NOON,
    )
    assert [note.channel for note in notes] == ["pager"]
    assert notes[0].message.headline == "[CRITICAL] run-17: no new line for 25m"
    assert "nobody acknowledged it for 30 min" in notes[0].message.body
    later = compose([event(EventKind.RESOLVED, called)], ROUTES, RULES, NOON + 60)
    assert [note.channel for note in later] == ["slack", "mail", "pager"]


def test_what_is_quiet_goes_only_where_there_are_threads() -> None:
    quiet = event(EventKind.EASED, quiet=True)
    assert compose([quiet], ROUTES, RULES, NOON) == []
    threaded = dataclasses.replace(RULES, threaded=frozenset({"slack"}))
    notes = compose([quiet], ROUTES, threaded, NOON)
    assert [note.channel for note in notes] == ["slack"]
    assert notes[0].message.quiet


def test_where_alerts_stand_they_are_ended_quietly_whatever_the_route() -> None:
    told = incident(notified=Status.CRITICAL)
    ended = event(EventKind.RESOLVED, told, quiet=True)
    eased = event(EventKind.EASED, dataclasses.replace(told, status=Status.WARNING), quiet=True)
    untold = event(EventKind.RESOLVED, incident(), quiet=True)
    silent = event(EventKind.EASED, dataclasses.replace(told, silent="maintenance"), quiet=True)
    worse = event(EventKind.WORSE, dataclasses.replace(told, silent="maintenance"), quiet=True)
    for rules, ways in ((RULES, []), (dataclasses.replace(RULES, standing=frozenset({"am"})), ["am"])):
        assert [each.channel for each in compose([ended], {}, rules, NOON)] == ways
        routes = {told.check: Route(("am", "mail"))}
        assert [each.channel for each in compose([eased], routes, rules, NOON)] == ways
        assert compose([untold, silent, worse], routes, rules, NOON) == []


def test_a_check_without_a_route_goes_to_the_default_channels() -> None:
    assert [note.channel for note in compose([event()], {}, RULES, NOON)] == ["slack"]


def test_keys_are_the_same_when_composed_again_and_differ_else() -> None:
    first = compose([event()], ROUTES, RULES, NOON)
    again = compose([event()], ROUTES, RULES, NOON + 5)
    assert [note.key for note in first] == [note.key for note in again]
    assert all(note.key.endswith(f"@{note.channel}") for note in first)
    others = [
        event(at=NOON + 1),
        event(EventKind.REMINDER),
        event(about=incident(18)),
        event(check="run-17/other", about=incident(19)),
    ]
    keys = {note.key for each in others for note in compose([each], ROUTES, RULES, NOON)}
    assert keys.isdisjoint(note.key for note in first)
    assert len(keys) == 7  # the check without a route goes to one channel


def test_many_subjects_of_one_target_stay_one_bounded_message() -> None:
    events = [event(about=incident(n, subject=f"node{n}/gpu0", details="x" * 9000)) for n in range(300)]
    notes = compose(events, {}, RULES, NOON)
    assert len(notes) == 1
    assert notes[0].message.headline.endswith(" (and 299 more alerts)")
    assert len(notes[0].message.body) <= BODY_LIMIT
    assert "watchdogd silence run-17 --for 2h" in notes[0].message.body


def test_text_from_outside_cannot_change_the_shape() -> None:
    evil = incident(
        target="run\r\nBcc: x@example.org",
        summary="\x1b[31mred\x1b[0m\n[RESOLVED] run-17: all well",
        details="\x1b]0;title\x07log\u202e line",
    )
    message = compose([event(about=evil)], {}, RULES, NOON)[0].message
    assert message.headline == "[CRITICAL] run Bcc: x@example.org: red [RESOLVED] run-17: all well"
    assert "\x1b" not in message.body
    assert "    log line" in message.body


def test_a_message_survives_being_kept() -> None:
    message = compose([event()], ROUTES, RULES, NOON)[0].message
    assert unpacked(Message, packed(Message, message)) == message


def test_a_test_message_says_that_it_is_one() -> None:
    message = test_message("bloom-watch", "login1", "alice", NOON)
    assert message.headline == "[INFO] bloom-watch: test message, sent by alice on login1"
    assert message.thread != test_message("bloom-watch", "login1", "alice", NOON + 1).thread


def test_one_sentence_stands_once_above_its_commands() -> None:
    """Several waiting jobs are held by one action, and by hand each for itself."""
    hold = NextAction("hold", "hold its waiting jobs")
    advice = tuple(
        Advice(f"To keep job {job} from starting:", f"scontrol hold {job}", "hold") for job in (41, 42)
    )
    text = _one(event(advice=advice, upcoming=(hold,)))
    assert text.count("Only if watchdogd could not hold its waiting jobs:") == 1
    assert re.search(r"jobs:\n\W*scontrol hold 41\n\W*scontrol hold 42\n", text)
