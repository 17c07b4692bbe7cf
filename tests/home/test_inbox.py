"""The inbox: what verbs hand in reaches the daemon, whose author and date nobody can forge."""

from __future__ import annotations

import json
import math
import os
import pwd
import stat
import tempfile
import time
from pathlib import Path

import pytest

from tests.waiting import AT_ONCE
from watchdogd.cli import main
from watchdogd.home import inbox
from watchdogd.home.inbox import Request
from watchdogd.home.inbox_submit import submit
from watchdogd.home.layout import Home
from watchdogd.units import iso

Says = pytest.CaptureFixture[str]
ME = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    home.config.write_text('[runs.run-17]\n[disks.scratch]\npath = "/"\n')
    monkeypatch.setenv("WATCHDOGD_HOME", str(home.path))
    return home


def know(home: Home, *incidents: dict[str, object]) -> None:
    """Leave the word of a daemon's last round."""
    home.status.write_text(json.dumps({"incidents": incidents, "checks": [], "silences": []}))


def one(home: Home) -> inbox.Submission:
    """The only paper."""
    papers, complaints = inbox.take(home)
    assert complaints == []
    (paper,) = papers
    return paper


def dated(paper: inbox.Submission, when: float) -> None:
    os.utime(paper.path, (when, when))


def test_ack_becomes_an_order(home: Home, capsys: Says) -> None:
    know(home, {"id": 7, "check": "run-17/log_staleness", "summary": "no line for 31 min"})
    assert main(["ack", "7", "--reason", "I look"]) == 0
    assert capsys.readouterr().out == (
        "incident 7 is acknowledged: run-17/log_staleness: no line for 31 min\n"
    )
    dated(one(home), 1_000_000_000)
    paper = one(home)
    assert paper.requests == (Request("ack", ME, 1_000_000_000.0, incident=7, reason="I look"),)
    assert paper.line == f"incident 7 acknowledged by {ME}: I look"


def test_ack_of_an_unknown_incident(home: Home, capsys: Says) -> None:
    know(home, {"id": 17})
    assert main(["ack", "18"]) == 1
    assert capsys.readouterr().err == "watchdogd: there is no open incident 18; open: 17\n"
    know(home, {"id": 29}, {"id": 3})
    assert main(["ack", "18"]) == 1
    assert capsys.readouterr().err == "watchdogd: there is no open incident 18; open: 3, 29\n"
    know(home)
    assert main(["ack", "18"]) == 1
    assert capsys.readouterr().err == "watchdogd: there is no open incident 18; none is open\n"
    assert os.listdir(home.inbox) == []


def test_one_that_has_ended_keeps_no_other_from_being_acknowledged(home: Home, capsys: Says) -> None:
    know(home, {"id": 17}, {"id": 19})
    assert main(["ack", "18", "19", "19"]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("incident 19 is acknowledged\n", 1)
    assert "there is no open incident 18" in err
    assert [order.incident for order in one(home).requests] == [19]


def test_before_the_first_round_no_incident_is_open(home: Home, capsys: Says) -> None:
    assert main(["ack", "18"]) == 1
    assert capsys.readouterr().err == "watchdogd: there is no open incident 18; none is open\n"
    assert os.listdir(home.inbox) == []


@pytest.mark.parametrize("left", ["", "{", '{"incidents": 3}', '{"incidents": [{}]}', "[]"])
def test_ack_is_handed_in_where_the_daemons_word_cannot_be_read(home: Home, left: str) -> None:
    home.status.write_text(left)
    assert main(["ack", "18", "19"]) == 0
    papers, _ = inbox.take(home)
    assert sorted(order.incident or 0 for paper in papers for order in paper.requests) == [18, 19]


def test_silence_and_unsilence(home: Home, capsys: Says) -> None:
    assert main(["silence", "run-17", "--for", "1h30m", "--reason", "moving"]) == 0
    assert capsys.readouterr().out.startswith("run-17 is silenced for 1h30m, until ")
    paper = one(home)
    (order,) = paper.requests
    assert (order.verb, order.target, order.until, order.reason) == (
        "silence",
        "run-17",
        paper.at + 5400,
        "moving",
    )
    assert paper.line == f"run-17 silenced for 1h30m by {ME}: moving"
    inbox.remove(paper)
    assert main(["unsilence", "run-17"]) == 0
    (order,) = one(home).requests
    assert (order.verb, order.target) == ("unsilence", "run-17")


def test_unsilence_of_what_is_not_silent_says_so(home: Home, capsys: Says) -> None:
    """By the daemon's last word, and by what was handed in since."""

    def said(target: str) -> str:
        assert main(["unsilence", target]) == 0
        return capsys.readouterr().out.strip()

    assert said("run-17") == "run-17 was not silenced"
    main(["silence", "run-17", "--for", "1h"])
    capsys.readouterr()
    assert said("scratch") == "scratch was not silenced; silenced: run-17"
    assert "run-17 is no longer silenced" in said("run-17")
    assert said("run-17") == "run-17 was not silenced"
    ends = {"scratch": time.time() + 600, "run-17": time.time() - 600}
    silences = [{"target": target, "until": iso(at)} for target, at in ends.items()]
    home.status.write_text(json.dumps({"silences": silences, "checks": [], "incidents": []}))
    for paper in inbox.take(home)[0]:
        inbox.remove(paper)
    assert said("run-17") == "run-17 was not silenced; silenced: scratch"
    assert main(["unsilence", "scratch", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["was_silent"] is True
    home.status.write_text("{")
    assert "scratch is no longer silenced" in said("scratch")


@pytest.mark.parametrize(
    "target", ["scratch", "run-17/job_liveness", "log_staleness", "watchdogd", "cron.daily/x"]
)
def test_what_can_be_silenced(home: Home, target: str) -> None:
    home.status.write_text(
        json.dumps(
            {"checks": [{"check": "run-17/job_liveness"}], "incidents": [{"check": "run-17/log_staleness"}]}
        )
    )
    assert main(["silence", target, "--for", "5m"]) == 0


def test_what_cannot_be_silenced(home: Home, capsys: Says) -> None:
    assert main(["silence", "run17", "--for", "2h"]) == 1
    assert "did you mean 'run-17'?" in capsys.readouterr().err
    for length in ("soon", "0s"):
        assert main(["silence", "run-17", "--for", length]) == 64
    assert os.listdir(home.inbox) == []


def test_finish_marks_and_tells(home: Home, capsys: Says) -> None:
    mark = home.switches / "run-17.finished"
    assert main(["finish", "run-17"]) == 0
    assert main(["finish", "run-17"]) == 0
    assert capsys.readouterr().out == "run-17 is marked finished\nrun-17 is already marked finished\n"
    assert json.loads(mark.read_text())["by"] == ME
    paper = one(home)
    assert (paper.kind, paper.run, paper.requests) == ("finish", "run-17", ())
    assert paper.line.startswith(f"run-17 marked finished by {ME} on ")
    inbox.remove(paper)
    assert main(["finish", "run-17", "--clear"]) == 0
    assert not mark.exists()
    assert one(home).line.startswith(f"run-17 expected again by {ME} on ")
    assert main(["finish", "run-18"]) == 1


def test_a_switch_touch_is_told_with_who_and_why(home: Home) -> None:
    assert main(["kill-switch", "run-17", "--reason", "wrong learning rate"]) == 0
    paper = one(home)
    host = os.uname().nodename.partition(".")[0]
    assert (paper.kind, paper.run) == ("touch", "run-17")
    assert paper.line == f"kill switch of run-17 set by {ME} on {host}: wrong learning rate"


def test_two_papers_of_one_process_do_not_collide(home: Home) -> None:
    for number in range(50):
        submit(str(home.inbox), "ack", "1", id=number)
    papers, _ = inbox.take(home)
    assert sorted(paper.said["id"] for paper in papers) == list(range(50))


def test_the_owner_is_the_author_and_the_order_is_that_of_time(home: Home) -> None:
    for number, when in ((1, 300), (2, 100), (3, 200)):
        before = set(home.inbox.iterdir())
        submit(str(home.inbox), "ack", str(number), id=number, by="somebody else")
        [path] = set(home.inbox.iterdir()) - before
        os.utime(path, (when, when))
    papers, _ = inbox.take(home)
    assert [paper.said["id"] for paper in papers] == [2, 3, 1]
    assert {paper.by for paper in papers} == {ME}


@pytest.mark.root
def test_a_colleague_hands_in_under_his_own_name() -> None:
    nobody = pwd.getpwnam("nobody")
    with tempfile.TemporaryDirectory() as folder:  # tmp_path lies where others may not go
        os.chmod(folder, 0o755)
        home = Home(Path(folder) / "home")
        home.make(group=nobody.pw_gid)
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setgid(nobody.pw_gid)
                os.setuid(nobody.pw_uid)
                submit(str(home.inbox), "ack", "3", id=3)
                os._exit(0)
            finally:  # whatever went wrong, else it goes on as a second process of these tests
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        paper = one(home)
        assert paper.by == "nobody"
        assert stat.S_IMODE(paper.path.stat().st_mode) == 0o640  # nobody else changes what he said
        assert stat.S_IMODE(home.inbox.stat().st_mode) == 0o3770


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "it is not JSON"),
        (b"[" * 6000, "it is not JSON"),
        (b"\xff\xfe", "it is not JSON"),
        (b"[1]", "it is no JSON object"),
        (b'{"id": "7"}', "it does not say the incident's id"),
        (b'{"id": true}', "it does not say the incident's id"),
        (b'{"id": 7, "x": "' + b"y" * 70000 + b'"}', "it is larger than 65536 bytes"),
    ],
)
def test_what_is_no_paper_is_set_aside_with_a_line(home: Home, content: bytes, why: str) -> None:
    name = "7.ack.node1.12-34.json"
    (home.inbox / name).write_bytes(content)
    assert inbox.take(home) == ([], [f"{name} in the inbox is set aside: {why}"])
    assert inbox.take(home) == ([], [])
    assert os.listdir(home.inbox / ".aside") == [name]


@pytest.mark.parametrize("seconds", ["60", None, -1, 0, math.inf, math.nan, 1e16, 10**400, True])
def test_a_silence_needs_a_length(home: Home, seconds: object) -> None:
    submit(str(home.inbox), "silence", "run-17", target="run-17", seconds=seconds)
    papers, (line,) = inbox.take(home)
    assert papers == []
    assert line.endswith("set aside: it does not say for how many seconds")


def test_pipes_links_and_folders_do_not_hang_the_daemon(home: Home) -> None:
    os.mkfifo(home.inbox / "a.ack.n.1-1.json")
    (home.inbox / "b.ack.n.1-1.json").symlink_to("/dev/zero")
    (home.inbox / "c.ack.n.1-1.json").mkdir()
    begin = time.monotonic()
    papers, complaints = inbox.take(home)
    assert time.monotonic() - begin < AT_ONCE
    assert (papers, len(complaints)) == ([], 3)
    assert sorted(os.listdir(home.inbox)) == [".aside"]


def test_beats_samples_and_drafts_are_left(home: Home) -> None:
    names = [
        "run-17.beat.n1.4.json",
        "a.b.sample.n1.4.json",
        "run-17.stacks.n1.4.txt",
        ".x.ack.n.1.json",
        "notes",
    ]
    for name in names:
        (home.inbox / name).write_text("{")
    assert inbox.take(home) == ([], [])
    assert sorted(os.listdir(home.inbox)) == sorted(names)


def test_a_run_with_dots_and_slashes_in_its_name(home: Home) -> None:
    submit(str(home.inbox), "touch", "../v1.2/x", run="../v1.2/x", switch="save", action="cleared")
    assert one(home).line.startswith("save switch of ../v1.2/x cleared by ")


def test_what_a_paper_says_is_one_plain_line(home: Home) -> None:
    submit(str(home.inbox), "ack", "1", id=1, reason="a\x1b[31m\nb" + "c" * 1000)
    (order,) = one(home).requests
    assert order.reason.startswith("a [31m bccc")
    assert len(order.reason) == 500


def test_the_guards_own_mark_is_taken(home: Home) -> None:
    (home.inbox / "run-17.finished.n1.4.json").write_text('{"run": "run-17", "time": 1, "host": "n1"}')
    assert one(home).line.startswith(f"run-17 marked finished by {ME} on n1")


def test_removing_twice_is_fine(home: Home) -> None:
    submit(str(home.inbox), "ack", "1", id=1)
    paper = one(home)
    inbox.remove(paper)
    inbox.remove(paper)
    assert os.listdir(home.inbox) == []
