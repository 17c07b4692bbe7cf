"""Switches: made whole or not at all, never clobbered, told to the inbox; and light."""

from __future__ import annotations

import errno
import grp
import json
import os
import pty
import stat
import subprocess
import sys
import threading
import time
from datetime import datetime
from pathlib import Path

import pytest

from tests.lab.processes import started
from watchdogd.batch.models import Job, Snapshot
from watchdogd.cli import main
from watchdogd.cli.switch_wait import living_jobs
from watchdogd.config import switch_places
from watchdogd.home import inbox, switches
from watchdogd.home.layout import Home
from watchdogd.home.switches import Pressed, Switch, SwitchError
from watchdogd.system import account, smallfile

Says = pytest.CaptureFixture[str]
ME = account.user_name(os.getuid())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home of one run, whose switches lie in a folder of their own."""
    home = Home(tmp_path / "home")
    home.make()
    monkeypatch.setenv("WATCHDOGD_HOME", str(home.path))
    (tmp_path / "work").mkdir()
    home.config.write_text('[runs.run-17]\nkill_switch = "../work/kill"\nsave_switch = "../work/save"\n')
    return home


def lay_out(home: Home, run: str = "run-17", **changed: object) -> None:
    """Write RUN.json as the daemon does."""
    work = home.path.parent / "work"
    told = {"run": run, "kill_switch": f"{work}/kill", "save_switch": f"{work}/save", "group": None}
    (home.switches / f"{run}.json").write_text(json.dumps({**told, "inbox": str(home.inbox), **changed}))


def papers(home: Home) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in sorted(home.inbox.iterdir())]


def test_a_touch_says_who_when_where_and_why(home: Home, capsys: Says) -> None:
    lay_out(home)
    assert main(["kill-switch", "run-17", "--reason", "wrong  learning\nrate"]) == 0
    path, own = home.path.parent / "work" / "kill", home.switches / "run-17.kill"
    assert capsys.readouterr().out == f"kill switch of run-17 is set: {path} and {own}\n"
    said = json.loads(path.read_text())
    assert said == {
        "run": "run-17",
        "switch": "kill",
        "by": ME,
        "host": os.uname().nodename.partition(".")[0],
        "at": said["at"],
        "reason": "wrong learning rate",
    }
    assert json.loads(own.read_text()) == {**said, "places": [str(path)]}
    assert abs(datetime.fromisoformat(said["at"]).timestamp() - time.time()) < 60
    assert papers(home) == [{"kind": "touch", "action": "set", **said}]
    assert [name for name in os.listdir(path.parent) if name != "kill"] == []


@pytest.mark.parametrize("letter", ["x", "é", "\U0001f525"])
def test_of_a_reason_without_end_the_beginning_counts(home: Home, capsys: Says, letter: str) -> None:
    lay_out(home)
    assert main(["kill-switch", "run-17", "--reason", letter * 9000]) == 0
    capsys.readouterr()
    assert main(["kill-switch", "run-17", "--show"]) == 0
    assert capsys.readouterr().out.endswith(f": {letter * 300}\n")


def test_the_configuration_serves_where_the_daemon_has_not_laid_out_the_run(home: Home) -> None:
    assert main(["save-switch", "run-17"]) == 0
    assert (home.path.parent / "work" / "save").is_file()
    assert papers(home)[0]["switch"] == "save"


def test_what_is_there_is_not_clobbered(home: Home, capsys: Says) -> None:
    lay_out(home)
    main(["kill-switch", "run-17", "--reason", "first"])
    path = home.path.parent / "work" / "kill"
    before = path.read_text()
    capsys.readouterr()
    assert main(["kill-switch", "run-17", "--reason", "second"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"kill switch of run-17 was set already, by {ME} on ")
    assert out.endswith(": first\n")
    assert path.read_text() == before
    assert len(papers(home)) == 1


def test_a_plain_touch_speaks_by_its_owner_and_time(home: Home, capsys: Says) -> None:
    lay_out(home)
    path = home.path.parent / "work" / "kill"
    path.touch()
    os.utime(path, (1_000_000_000, 1_000_000_000))
    assert main(["kill-switch", "run-17", "--show", "--json"]) == 0
    (said,) = json.loads(capsys.readouterr().out)
    assert (said["set"], said["by"]) == (True, ME)
    assert datetime.fromisoformat(said["at"]).timestamp() == 1_000_000_000


@pytest.mark.parametrize("content", [b"please stop\nnow", b"\xff\x1b[31m{", b"[" * 5000, b"7"])
def test_any_content_is_a_set_switch(home: Home, capsys: Says, content: bytes) -> None:
    lay_out(home)
    (home.path.parent / "work" / "kill").write_bytes(content)
    assert main(["kill-switch", "run-17", "--show"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert "\x1b" not in out


def test_show_and_clear(home: Home, capsys: Says) -> None:
    lay_out(home)
    assert main(["kill-switch", "run-17", "--show"]) == 1
    assert capsys.readouterr().out == "kill switch of run-17 is not set\n"
    main(["kill-switch", "run-17"])
    assert main(["kill-switch", "run-17", "--clear", "--reason", "fixed"]) == 0
    assert not (home.path.parent / "work" / "kill").exists()
    assert main(["kill-switch", "run-17", "--clear"]) == 0
    assert capsys.readouterr().out.endswith("kill switch of run-17 was not set\n")
    assert [(paper["action"], paper["reason"]) for paper in papers(home)] == [
        ("set", ""),
        ("cleared", "fixed"),
    ]


@pytest.mark.parametrize("mask", [0o077, 0o000])
def test_the_group_can_read_it_whatever_the_umask(home: Home, mask: int) -> None:
    shared = grp.getgrgid(os.getgid()).gr_name
    for group, mode in ((None, 0o644), (shared, 0o660)):
        lay_out(home, group=group)
        before = os.umask(mask)
        try:
            main(["kill-switch", "run-17"])
        finally:
            os.umask(before)
        path = home.path.parent / "work" / "kill"
        assert stat.S_IMODE(path.stat().st_mode) == mode
        path.unlink()


def test_never_through_a_symbolic_link(home: Home, capsys: Says, tmp_path: Path) -> None:
    lay_out(home)
    link, target = home.path.parent / "work" / "kill", tmp_path / "victim"
    link.symlink_to(target)
    assert main(["kill-switch", "run-17"]) == 1
    assert "is a symbolic link that leads nowhere: remove it" in capsys.readouterr().err
    assert not target.exists()
    target.write_text("untouched")
    assert main(["kill-switch", "run-17"]) == 0
    assert target.read_text() == "untouched"
    assert "untouched" not in capsys.readouterr().out


def test_links_in_a_circle_are_no_switch_and_can_be_removed(home: Home, capsys: Says, tmp_path: Path) -> None:
    lay_out(home)
    link = tmp_path / "work" / "kill"
    link.symlink_to("kill")
    assert main(["kill-switch", "run-17", "--show"]) == 1
    assert main(["kill-switch", "run-17"]) == 1
    assert "is a symbolic link that leads nowhere: remove it" in capsys.readouterr().err
    assert main(["kill-switch", "run-17", "--clear"]) == 0
    assert not link.is_symlink()
    assert main(["kill-switch", "run-17"]) == 0


@pytest.mark.root
def test_a_link_speaks_by_who_laid_it(home: Home, tmp_path: Path) -> None:
    lay_out(home)
    target, link = tmp_path / "target", tmp_path / "work" / "kill"
    target.touch()
    os.utime(target, (5, 5))
    link.symlink_to(target)
    os.chown(link, 54321, -1, follow_symlinks=False)
    found = switches.read(switch_places.find(str(home.path), "run-17", "kill"))
    assert found is not None
    assert found.by == "54321"
    assert not found.at.startswith("1970")


@pytest.mark.root
def test_who_may_not_enter_home_is_told_whom_to_ask(home: Home, tmp_path: Path) -> None:
    lay_out(home)
    for folder in (tmp_path, *tmp_path.parents):
        if str(folder).startswith("/tmp/") and folder.stat().st_uid == os.getuid():
            folder.chmod(folder.stat().st_mode | 0o011)
    home.path.chmod(0o700)
    done = subprocess.run(
        [sys.executable, "-c", NOBODY, str(home.path)],
        text=True,
        capture_output=True,
        timeout=120,
        check=False,
    )
    whose = f"only {ME}, or the group of [daemon] group, may"
    assert done.stdout == f"nobody may not use the switches of {home.path}: {whose}\n", done.stderr


NOBODY = """
import os, sys
from watchdogd.config import switch_places
from watchdogd.home import inbox, switches
os.setuid(65534)
try:
    switch_places.find(sys.argv[1], "run-17", "kill")
except switches.SwitchError as error:
    print(error)
"""


def test_a_missing_folder_is_one_clear_line(home: Home, capsys: Says) -> None:
    lay_out(home, kill_switch=str(home.path / "gone" / "kill"))
    assert main(["kill-switch", "run-17"]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == (f"kill switch of run-17 is set: {home.switches}/run-17.kill\n", 1)
    assert f"no folder {home.path / 'gone'}: make it, or correct kill_switch in config.toml" in err
    assert len(papers(home)) == 1


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EROFS, "read-only"),
        (errno.EACCES, "ask "),
        (errno.EIO, "Input/output"),
    ],
)
def test_what_the_file_system_refuses_is_one_clear_line(
    home: Home, capsys: Says, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def refuse(*args: object, **named: object) -> None:
        raise OSError(number, os.strerror(number))

    lay_out(home)
    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(smallfile, "_NO_LINKS", frozenset())
    assert main(["kill-switch", "run-17"]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 2)
    assert all(words in line for line in err.splitlines())
    assert [*os.listdir(home.path.parent / "work"), *home.switches.glob("*.kill")] == []
    assert papers(home) == []


@pytest.mark.parametrize("words", [[], ["--show"], ["--clear"]])
def test_a_folder_is_no_switch(words: list[str], home: Home, capsys: Says) -> None:
    work = home.path.parent / "work"
    lay_out(home, kill_switch=str(work))
    assert main(["kill-switch", "run-17", *words]) == 1
    assert capsys.readouterr().err == f"watchdogd: {work} is a folder: correct kill_switch in config.toml\n"
    assert (home.switches / "run-17.kill").exists() == (words == [])


@pytest.mark.root
def test_a_full_and_a_read_only_folder(home: Home, capsys: Says, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=6", "tmpfs", small], check=True)
    try:
        (small / "filler").write_bytes(b"x" * 4096)
        lay_out(home, kill_switch=str(small / "kill"))
        assert main(["kill-switch", "run-17", "--reason", "no room for this"]) == 0
        assert (small / "kill").stat().st_size == 0
        assert main(["kill-switch", "run-17", "--show"]) == 0
        assert main(["kill-switch", "run-17", "--clear"]) == 0
        assert os.listdir(small) == ["filler"]
        for number in range(4):
            (small / f"empty-{number}").touch()
        capsys.readouterr()
        assert main(["kill-switch", "run-17"]) == 1
        assert f"{small} is full" in capsys.readouterr().err
        subprocess.run(["mount", "-o", "remount,ro", small], check=True)
        assert main(["kill-switch", "run-17"]) == 1
        assert f"{small} is read-only here" in capsys.readouterr().err
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.root
def test_on_a_full_home_the_team_is_told_all_the_same(home: Home, capsys: Says) -> None:
    """Only the reason is lost."""
    lay_out(home)
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=9,mode=700", "tmpfs", home.inbox], check=True
    )
    try:
        (home.inbox / "filler").write_bytes(b"x" * 4096)
        assert main(["save-switch", "run-17", "--reason", "no room for this"]) == 0
        assert main(["save-switch", "run-17", "--clear"]) == 0
        touches, complaints = inbox.take(home)
        assert complaints == []
        told = [(each.kind, each.by, each.run, each.switch, each.cleared) for each in touches]
        assert told == [("touch", ME, "run-17", "save", False), ("touch", ME, "run-17", "save", True)]
        for each in touches:
            inbox.remove(each)
        (home.switches / "run-17.finished").touch()
        assert main(["finish", "run-17", "--clear"]) == 0
        (mark,) = inbox.take(home)[0]
        assert (mark.kind, mark.by, mark.run, mark.cleared) == ("finish", ME, "run-17", True)
        inbox.remove(mark)
        (home.inbox / "run-17.touch.node1.7-8-other-set.json").touch()
        assert inbox.take(home)[0] == []
    finally:
        subprocess.run(["umount", home.inbox], check=True)


def test_a_file_system_without_links(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **named: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    switch = Switch("r", "kill", (str(home.path / "kill"),), str(home.inbox), None)
    assert switches.press(switch, switches.my_signature("why")).before is None
    before = switches.press(switch, switches.my_signature("later")).before
    assert before is not None
    assert (before.by, before.reason) == (ME, "why")
    assert len(os.listdir(home.inbox)) == 1


def test_a_link_whose_answer_was_lost_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.link

    def lossy(source: str, target: str) -> None:
        real(source, target)
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(os, "link", lossy)
    smallfile.create_file(str(tmp_path / "it"), "mine", 0o600)
    assert (tmp_path / "it").read_text() == "mine"
    assert os.listdir(tmp_path) == ["it"]


def test_of_many_at_once_one_sets_it(home: Home) -> None:
    switch = Switch("r", "kill", (str(home.path / "kill"),), str(home.inbox), None)
    answers: list[Pressed] = []
    threads = [
        threading.Thread(
            target=lambda n=n: answers.append(switches.press(switch, switches.my_signature(str(n))))
        )
        for n in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    said = switches.read(switch)
    assert sum(bool(answer.made) for answer in answers) == 1
    assert {answer.before for answer in answers} == {None, said}


def test_an_inbox_that_is_away_does_not_stop_a_touch(home: Home) -> None:
    lay_out(home, inbox=str(home.path / "nowhere"))
    assert main(["kill-switch", "run-17"]) == 0
    assert (home.path.parent / "work" / "kill").exists()


def test_an_unknown_run_names_the_nearest(home: Home, capsys: Says) -> None:
    assert main(["kill-switch", "run17"]) == 1
    assert capsys.readouterr().err == "watchdogd: there is no run 'run17'; did you mean 'run-17'?\n"


def test_a_slip_in_one_name_keeps_no_other_run_from_being_stopped(home: Home, capsys: Says) -> None:
    lay_out(home)
    lay_out(home, run="glide", kill_switch=str(home.path / "glide.kill"))
    assert main(["kill-switch", "glied", "run-17", "nobody", "glide", "--wait", "60s"]) == 1
    out, err = capsys.readouterr()
    assert [line.partition(":")[0] for line in out.splitlines()] == [
        "kill switch of run-17 is set",
        "kill switch of glide is set",
    ]
    assert (home.path / "glide.kill").exists()
    assert [line for line in err.splitlines() if "was heard of" not in line] == [
        "watchdogd: there is no run 'glied'; did you mean 'glide'?",
        "watchdogd: there is no run 'nobody'; there are glide, run-17",
    ]
    assert main(["kill-switch", "glied", "nobody"]) == 1
    assert main(["kill-switch", "glied", "glide", "--clear"]) == 1
    assert not (home.path / "glide.kill").exists()


def test_a_home_that_is_none(tmp_path: Path, capsys: Says) -> None:
    assert main(["kill-switch", "r", "--home", str(tmp_path / "none")]) == 1
    assert "no watchdogd home at" in capsys.readouterr().err


def test_one_that_fails_does_not_stop_the_next(home: Home, capsys: Says) -> None:
    lay_out(home, kill_switch="/nowhere/kill")
    lay_out(home, run="other")
    assert main(["kill-switch", "run-17", "other"]) == 1
    out, err = capsys.readouterr()
    assert "no folder /nowhere" in err
    assert out.splitlines()[-1].startswith("kill switch of other is set")


def test_all_needs_a_yes(home: Home, capsys: Says, monkeypatch: pytest.MonkeyPatch) -> None:
    home.config.write_text('[runs.a]\n[runs."b/../c"]\n')
    for run in ("a", "b/../c"):
        lay_out(home, run=run.replace("/", "%2F"), kill_switch=str(home.path / f"{run[0]}.kill"))
    assert main(["kill-switch", "--all"]) == 64
    assert "say --yes too" in capsys.readouterr().err
    for word, code in (("n\n", 1), ("y\n", 0)):
        ours, theirs = pty.openpty()
        os.write(ours, word.encode())
        with os.fdopen(theirs) as terminal:
            monkeypatch.setattr(sys, "stdin", terminal)
            assert main(["kill-switch", "--all"]) == code
        os.close(ours)
        assert "Set the kill switch of 2 runs (a, b/../c)? [y/N]" in capsys.readouterr().err
        assert (home.path / "a.kill").exists() == (code == 0)
    assert main(["kill-switch", "--all", "--clear", "--yes"]) == 0
    assert not (home.path / "b.kill").exists()
    assert main(["kill-switch", "--all", "a"]) == 64
    assert main(["kill-switch"]) == 64


def test_all_are_those_of_the_configuration_before_any_daemon_ran(home: Home, capsys: Says) -> None:
    home.config.write_text("[runs.glide]\n[runs.dive]\n")
    lay_out(home, run="forgotten", kill_switch=str(home.path / "forgotten.kill"))
    assert main(["kill-switch", "--all", "--yes"]) == 0
    assert sorted(path.name for path in home.switches.glob("*.kill")) == ["dive.kill", "glide.kill"]
    assert not (home.path / "forgotten.kill").exists()


def test_a_broken_configuration_does_not_keep_all_from_stopping(home: Home, capsys: Says) -> None:
    lay_out(home, run="glide", kill_switch=str(home.path / "glide.kill"))
    home.config.write_text("[runs.glide")
    assert main(["kill-switch", "--all", "--yes"]) == 0
    assert "these are the runs as they were" in capsys.readouterr().err
    assert (home.path / "glide.kill").exists()


@pytest.mark.slow
def test_wait_follows_the_save_switch(home: Home, capsys: Says) -> None:
    lay_out(home)
    path = home.path.parent / "work" / "save"

    def train() -> None:
        deadline = time.monotonic() + 30
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.2)
        path.unlink()

    thread = threading.Thread(target=train)
    thread.start()
    assert main(["save-switch", "run-17", "--wait", "30s"]) == 0
    thread.join(240)
    out, err = capsys.readouterr()
    assert out == f"save switch of run-17 is set: {path} and {home.switches}/run-17.save\n"
    assert not (home.switches / "run-17.save").exists()
    assert err.splitlines()[0].endswith(": nothing saves for it but what runs under watchdogd guard")
    assert err.splitlines()[1] == "0s: run-17: not saved yet"
    assert err.splitlines()[-1].startswith("obeyed after ")


@pytest.mark.slow
def test_wait_gives_up_in_time(home: Home, capsys: Says) -> None:
    lay_out(home)
    assert main(["save-switch", "run-17", "--wait", "1s"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "not obeyed within 1s: run-17: not saved yet"


@pytest.mark.slow
def test_where_no_guard_polls_it_the_line_that_ends_its_jobs_is_said(home: Home, capsys: Says) -> None:
    pid_file = home.path / "pid"
    home.config.write_text(f'[runs.run-17]\npid_file = "{pid_file}"\n[slurm]\nmin_poll = "1s"\n')
    lay_out(home, backend="slurm", job_name="tr 11")
    unheard = "no Guard of run-17 was heard of: nothing stops for it but what runs under watchdogd guard"
    with started([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True) as training:
        pid_file.write_text(str(training.pid))
        assert main(["kill-switch", "run-17", "--wait", "1s"]) == 1
        first, *_, ends, last = capsys.readouterr().err.splitlines()
        training.kill()
    assert first == f"watchdogd: {unheard}; to end its jobs, as their owner: scancel --name='tr 11'"
    assert ends == f"{unheard}; to end its jobs, as their owner: kill {training.pid}"
    assert last == "not obeyed within 1s: run-17: 1 running"
    beat = {"run": "run-17", "host": "node5", "pid": 4711, "polls": [str(home.switches / "run-17.kill")]}
    (home.inbox / "run-17.beat.node5.4711.json").write_text(json.dumps(beat))
    assert main(["kill-switch", "run-17"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_wait_without_a_duration_may_stand_before_the_run(home: Home) -> None:
    lay_out(home)
    path = home.path.parent / "work" / "save"
    path.touch()
    threading.Timer(0.3, path.unlink).start()
    assert main(["save-switch", "--wait", "run-17"]) == 0


@pytest.mark.slow
def test_wait_follows_a_process_until_it_ended(home: Home, capsys: Says) -> None:
    pid_file = home.path / "pid"
    home.config.write_text(
        f'[runs.run-17]\npid_file = "{pid_file}"\nkill_switch = "k"\n[slurm]\nmin_poll = "1s"\n'
    )
    lay_out(home, kill_switch=str(home.path / "k"))
    switch = str(home.path / "k")
    loop = f"import os, time\nwhile not os.path.exists({switch!r}): time.sleep(0.05)\ntime.sleep(1)"
    with started([sys.executable, "-c", loop], start_new_session=True) as training:
        pid_file.write_text(str(training.pid))
        reaper = threading.Thread(target=training.wait)
        reaper.start()
        assert main(["kill-switch", "run-17", "--wait", "60s"]) == 0
        reaper.join(240)
    err = capsys.readouterr().err.splitlines()
    assert err[1] == "0s: run-17: 1 running"
    assert err[-1].startswith("obeyed after ")


def test_living_says_what_is_left_and_what_is_not_known() -> None:
    jobs = (
        Job("1_1", "1", "train", "alice", "RUNNING"),
        Job("1_[2-4]", "2", "train", "alice", "PENDING", tasks=3),
        Job("9", "9", "other", "alice", "RUNNING"),
        Job("8", "8", "train", "alice", "RUNNING", comment="watchdogd:abc"),
    )
    assert living_jobs(Snapshot(0, jobs=jobs), "train") == "3 pending, 1 running"
    assert living_jobs(Snapshot(0, jobs=()), "train") == ""
    assert (
        living_jobs(Snapshot(0, trouble="squeue hung"), "train") == "the queue does not answer (squeue hung)"
    )
    assert "does not show the jobs of alice" in living_jobs(
        Snapshot(0, jobs=(), hidden=frozenset({"alice"})), "train"
    )


def test_the_emergency_path_is_light(home: Home) -> None:
    """No heavy import: each costs round trips on a slow file system (measured by benchmarks/)."""
    lay_out(home)
    code = (
        "import sys; from watchdogd.cli import main; code = main(['kill-switch', 'run-17'])\n"
        "heavy = {'typing', 'dataclasses', 'pathlib', 'pydantic', 'tomllib', 'datetime', 'shutil'}\n"
        "print(code, sorted(heavy & sys.modules.keys()))"
    )
    isolated = [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {os.getcwd()!r})\n{code}"]
    answer = subprocess.run(isolated, capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "0 []"


def test_a_switch_that_cannot_be_read_is_an_error(home: Home) -> None:
    loop = home.path / "loop"
    loop.symlink_to("loop")
    with pytest.raises(SwitchError, match="cannot be read"):
        switches.read(Switch("r", "kill", (str(loop / "kill"),), str(home.inbox), None))
