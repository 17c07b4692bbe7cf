"""The daemon's own troubles: what helps follows from what failed, and only what must wakes people."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.history.values import new_home
from watchdogd.daemon.self_monitoring import SUBJECTS, SelfMonitoring
from watchdogd.daemon.storage import Storage, WriteBuffer
from watchdogd.daemon.trouble import Trouble, TroubleKind, joined
from watchdogd.errors import HistoryError, Problem, SlurmError, SlurmSilentError
from watchdogd.history.database_file import sentence
from watchdogd.history.models import Record
from watchdogd.home.layout import Home
from watchdogd.incidents.evaluate import evaluate
from watchdogd.incidents.models import SELF, AlertPolicy, AlertState
from watchdogd.notify.message import compose
from watchdogd.notify.notification import Message
from watchdogd.notify.routing import MessageRules, Route
from watchdogd.plugin import Result, Status
from watchdogd.system.account import own_name
from watchdogd.system.bounded_io import BoundedIO

NOON = 1_790_000_000.0
PLACE = Path("/data/my watch")


def failed(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def result_of(subject: str, trouble: str) -> Result:
    itself = SelfMonitoring(Home(PLACE))
    itself.troubles[subject] = trouble
    return next(each for each in itself._of_troubles(None, NOON) if each.subject == subject)


def commands(trouble: Trouble) -> list[str]:
    return [each.command for each in trouble.helps]


@pytest.mark.parametrize(
    ("number", "typed"),
    [
        (errno.ENOSPC, ["df -h '/data/my watch'", "df -i '/data/my watch'"]),
        (errno.EDQUOT, ["df -h '/data/my watch'", "df -i '/data/my watch'"]),
        (errno.EROFS, ["findmnt -T '/data/my watch'"]),
        (errno.EACCES, ["ls -ld '/data/my watch'"]),
        (errno.EIO, ["df -h '/data/my watch'", "ls '/data/my watch'"]),
        (errno.EAGAIN, [f"ps -Lu {own_name()} | wc -l", "ulimit -u"]),
        (errno.ENOMEM, ["free -h"]),
        (errno.EMFILE, []),
    ],
)
def test_what_helps_follows_from_what_the_kernel_said(number: int, typed: list[str]) -> None:
    assert commands(Trouble.of("it failed", failed(number), PLACE)) == typed


def test_a_path_that_is_not_known_is_asked_for_in_no_command() -> None:
    assert commands(Trouble.of("it failed", failed(errno.EROFS))) == []


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("SQLITE_FULL", TroubleKind.FULL),
        ("SQLITE_IOERR_WRITE", TroubleKind.FAILING),
        ("SQLITE_READONLY", TroubleKind.DENIED),
        ("SQLITE_BUSY", TroubleKind.OTHER),
    ],
)
def test_the_history_s_errors_are_of_a_kind_too(code: str, kind: TroubleKind) -> None:
    error = sqlite3.OperationalError("no")
    error.sqlite_errorname = code
    problem = sentence(error, "h.db")
    raised = HistoryError(problem.what, fix=problem.fix)
    raised.__cause__ = error
    trouble = Trouble.of(raised.what, raised, PLACE)
    assert trouble.kind is kind
    if kind is TroubleKind.OTHER:
        assert [each.sentence for each in trouble.helps] == [
            "See whether a second watchdogd runs on this home."
        ]


def test_a_history_whose_file_system_is_full_is_known_by_its_errno(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    (home.path / "history.db").mkdir()
    buffer = WriteBuffer(Storage("sqlite:///history.db", home, BoundedIO(str(home.path))))
    buffer.keep(Record(at=NOON))
    assert isinstance(buffer.trouble, Trouble)
    assert (buffer.trouble.kind, buffer.trouble.path) == (TroubleKind.MISPLACED, str(home.path))


def test_what_slurm_refuses_and_what_it_does_not_answer_are_apart() -> None:
    refused = Trouble.of("not queued: invalid account", SlurmError("invalid account"))
    silent = Trouble.of("not queued: no answer", SlurmSilentError("no answer"))
    assert ["[slurm]" in each.sentence for each in refused.helps] == [True]
    assert commands(silent) == ["scontrol ping"]
    advice = [each.command for each in result_of("chain", refused).advice]
    assert "watchdogd status" not in advice, "no next job is there to be looked at"
    assert "watchdogd status" in [each.command for each in result_of("chain", "job 7 waits").advice]


def test_joined_troubles_are_of_the_first_kind() -> None:
    full = Trouble.of("a is full", failed(errno.ENOSPC), "/a")
    both = joined(("", full, "b is odd"))
    assert (both, both.kind, both.path) == ("a is full; b is odd", TroubleKind.FULL, "/a")
    assert joined(("", "")) == ""


def test_a_file_in_the_way_has_the_fix_that_was_found_for_it() -> None:
    trouble = Trouble.wrong([Problem("/h/logs is no folder", "mv /h/logs /h/logs.aside")])
    assert trouble == "/h/logs is no folder"
    assert commands(trouble) == ["mv /h/logs /h/logs.aside"]


MILD = {"config", "answers", "delivery", "drop-ins", "publishing", "pulse"}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_critical_is_what_keeps_people_from_hearing(subject: str) -> None:
    bad = Status.WARNING if subject in MILD else Status.CRITICAL
    assert result_of(subject, Trouble.of("it failed", failed(errno.EIO), PLACE)).status is bad


def test_one_invalid_answer_is_no_inbox_that_takes_none() -> None:
    aside = Trouble("x in the inbox is set aside: it is not JSON", TroubleKind.SET_ASIDE, PLACE)
    said = result_of("inbox", aside)
    assert (said.status, said.summary) == (Status.WARNING, str(aside))
    assert said.facts == (str(PLACE),)


def message(subject: str, trouble: str) -> Message:
    itself = SelfMonitoring(Home(PLACE))
    itself.troubles[subject] = trouble
    setup: Any = SimpleNamespace(
        unusable=(), config=SimpleNamespace(daemon=SimpleNamespace(name="elm", confirm=1, interval=15.0))
    )
    seen = itself.observe(setup, None, NOON)
    _, events = evaluate(AlertState(), seen, {SELF: AlertPolicy(confirm=1)}, NOON)
    (told,) = (each for each in events if not each.quiet)
    (sent,) = compose([told], {SELF: Route(("slack",))}, MessageRules(("slack",)), NOON)
    return sent.message


@pytest.mark.parametrize("subject", ["home", "inbox", "history"])
def test_no_answer_is_offered_where_none_can_be_recorded(subject: str) -> None:
    body = message(subject, Trouble.of("it failed", failed(errno.EROFS), PLACE)).body
    assert "watchdogd ack" not in body
    assert "watchdogd silence" not in body
    assert str(PLACE) in body


def test_an_answer_is_offered_where_it_is_recorded() -> None:
    assert "watchdogd ack" in message("pulse", Trouble.of("it failed", failed(errno.EROFS), PLACE)).body
    assert "watchdogd ack" in message("history", "another process holds it").body
