"""The verbs as people call them: what they print and how they exit, with a real daemon on a real home."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from tests.lab.dog import Dog
from tests.lab.forked import Running
from tests.servers.web import Answer, WebServer
from tests.waiting import wait_until
from watchdogd.cli import main
from watchdogd.cli.setup.plugins import type_name
from watchdogd.system.account import user_name
from watchdogd.units import AmountField, Percent

CONFIG = """
[daemon]
interval = "1s"
name = "bloom-watch"
[channels.alerts]
type = "statuslog"
path = "alerts.log"
[runs.run-17]
pid_file = "train.pid"
log = "train.log"
stale_after = "4s"
absent_after = "2s"
[runs.run-17.checks.log_staleness]
grace = "1s"
[disks.scratch]
path = "."
warn_free = "1kB"
crit_free = "1B"
"""


@pytest.fixture
def dog(tmp_path: Path) -> Dog:
    return Dog(tmp_path / "home").settle(CONFIG)


@pytest.fixture
def daemon(dog: Dog) -> Iterator[Running]:
    with dog.running() as process:
        yield process


@pytest.fixture
def training(dog: Dog) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(["sleep", "600"], text=True, start_new_session=True)
    (dog.home / "train.pid").write_text(f"{process.pid}\n")
    (dog.home / "train.log").write_text("iteration 41 | loss 2.0\n")
    yield process
    process.kill()
    process.wait(240)


def test_init_never_overwrites_and_its_config_loads(tmp_path: Path) -> None:
    dog = Dog(tmp_path / "fresh")
    first = dog("init")
    assert first.returncode == 0
    assert dog("config").returncode == 0
    text = (dog.home / "config.toml").read_text()
    (dog.home / "config.toml").write_text(text + "# mine\n")
    again = dog("init")
    assert again.returncode == 0
    assert "stays as it is" in again.stdout
    assert (dog.home / "config.toml").read_text().endswith("# mine\n")
    assert (dog.home.stat().st_mode & 0o7777, (dog.home / "config.toml").stat().st_mode & 0o777) == (
        0o700,
        0o600,
    )


def test_init_in_a_folder_that_everybody_may_write_says_so(dog: Dog, tmp_path: Path) -> None:
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(0o777)
    made = dog("init", "--home", str(place))
    assert made.returncode == 0
    assert f"watchdogd --home {place} doctor, watchdogd --home {place} start" in made.stdout
    assert f"watchdogd: warning: {place} can be written by everybody: chmod o-w {place}" in made.stderr


def test_without_a_home_and_with_a_broken_config_one_line_says_what_to_do(dog: Dog, tmp_path: Path) -> None:
    assert dog("doctor", "--home", str(tmp_path / "none")).returncode == 2
    for verb in ("status", "check", "run", "tick", "incidents", "history", "config"):
        done = dog(verb, "--home", str(tmp_path / "none"))
        assert done.returncode == (3 if verb in ("status", "check") else 1), verb  # 1 would be a warning
        assert f"watchdogd --home {tmp_path / 'none'} init" in done.stderr
        assert done.stderr.count("\n") == 1
    (dog.home / "config.toml").write_text("[daemon]\nconfim = 2\n")
    for verb in ("check", "run", "tick", "config"):
        done = dog(verb)
        assert done.returncode == 78, verb
        assert "did you mean 'confirm'?" in done.stderr
        assert done.stderr.count("\n") == 1


def test_check_is_a_nagios_plugin_and_exits_with_the_worst(dog: Dog) -> None:
    one = dog("check", "scratch/disk_quota")
    assert one.returncode == 0
    assert one.stdout.startswith("scratch/disk_quota OK - ")
    assert "| " in one.stdout.splitlines()[0]
    every = dog.json("check")
    assert {seen["check"] for seen in every} == {
        "run-17/job_liveness",
        "run-17/log_staleness",
        "scratch/disk_quota",
    }
    assert set(every[0]) >= {"check", "run", "subject", "status", "summary", "metrics", "details"}
    config = (dog.home / "config.toml").read_text()
    (dog.home / "config.toml").write_text(config.replace('crit_free = "1B"', 'crit_free = "100%"'))
    assert dog("check", "scratch").returncode == 2
    assert dog("check").returncode == 2
    unknown = dog("check", "scratch/disk_quote")
    assert unknown.returncode == 3
    assert "did you mean 'scratch/disk_quota'?" in unknown.stderr
    assert not (dog.home / "history.db").exists()


def test_status_without_a_daemon_is_not_alive(dog: Dog) -> None:
    assert dog("status").returncode == 3
    line = "watchdogd UNKNOWN - not alive, to start it: watchdogd start | critical=0 warning=0 unknown=0\n"
    assert dog("status", "--nagios").stdout == line
    assert dog.json("status") == {
        "last_round": None,
        "link": None,
        "incidents": [],
        "gaps": [],
        "checks": [],
        "holder": None,
        "alive": False,
        "switches": [],
        "stopped": None,
    }


def test_the_life_of_an_incident(dog: Dog, training: subprocess.Popen[str], daemon: Running) -> None:
    wait_until(lambda: "[CRITICAL] run-17" in dog.alerts(), 60, "the silence is told")
    assert dog("status").returncode == 2
    line = dog("status", "--nagios")
    assert line.returncode == 2
    assert line.stdout.startswith("watchdogd CRITICAL - alive: process ")
    assert "1 open, first run-17/log_staleness: " in line.stdout
    assert " | critical=1 warning=0 unknown=0 last_round=" in line.stdout
    [incident] = dog.json("incidents")
    assert (incident["run"], incident["status"], incident["state"]) == ("run-17", "CRITICAL", "open")
    assert [each["command"] for each in incident["advice"]] == [
        "watchdogd stacks run-17",
        f"kill {training.pid}",
    ]
    assert f"{dog.home}/train.log" in incident["facts"][0]
    [told] = dog.json("status")["incidents"]
    assert {key: told[key] for key in ("facts", "advice")} == {
        key: incident[key] for key in ("facts", "advice")
    }
    assert Path(told["evidence"], "incident.json").is_file()
    [taken] = dog.json("ack", str(incident["id"]))
    assert (taken["id"], taken["state"]) == (incident["id"], "acknowledged")
    assert taken["acknowledged_by"] == user_name(os.geteuid())
    wait_until(lambda: dog.json("incidents")[0]["state"] == "acknowledged", 30, "it is acknowledged")
    with (dog.home / "train.log").open("a") as log:
        log.write("iteration 42 | loss 2.0\n")
    wait_until(lambda: "[RESOLVED] run-17" in dog.alerts(), 60, "it is resolved")
    wait_until(
        lambda: "resolved" in [seen["state"] for seen in dog.json("incidents", "--all")],
        30,
        "and recorded",
    )
    story = dog("history", "run-17").stdout
    assert "CRITICAL" in story
    for kind in ("opened", "acknowledged", "resolved"):
        assert f" INCIDENT {incident['id']} {kind}: run-17/log_staleness: " in story
    for verb in ("history", "incidents"):
        nobody = dog(verb, "run-71")
        assert (nobody.returncode, nobody.stderr.count("\n")) == (1, 1)
        assert "did you mean 'run-17'?" in nobody.stderr
        assert dog(verb, "--all" if verb == "incidents" else "--csv", "--since", "bla").returncode == 64
    good = (dog.home / "config.toml").read_text()
    (dog.home / "config.toml").write_text(good + "[daemn]\n")
    for words in (("incidents",), ("history",), ("outbox",), ("silence", "run-17", "--for", "1s")):
        assert dog(*words).returncode == 0, words
    (dog.home / "config.toml").write_text(good)
    rows = dog("history", "--csv").stdout.splitlines()
    assert rows[0] == "time,run,check,subject,status,metric,value,unit,summary"
    assert any(",scratch/disk_quota,bytes,OK,free," in row for row in rows)
    training.kill()
    wait_until(lambda: dog.alerts().count("[CRITICAL] run-17") >= 2, 60, "its end is told")


def test_a_second_daemon_says_who_has_the_lease_and_a_tick_does_nothing(dog: Dog, daemon: Running) -> None:
    second = dog("run")
    assert second.returncode == 1
    assert f"process {daemon.pid}" in second.stderr
    tick = dog("tick")
    assert tick.returncode == 0
    assert "nothing done" in tick.stdout
    daemon.terminate()
    daemon.wait(240)
    assert dog("status").returncode == 3
    assert dog("tick").returncode == 0


def test_a_restart_announces_nothing_twice_and_ticks_go_on_from_each_other(
    dog: Dog, training: subprocess.Popen[str]
) -> None:
    wait_until(lambda: dog("tick") and "[CRITICAL] run-17" in dog.alerts(), 60, "told by ticks")
    for _ in range(3):
        assert dog("tick").returncode == 0
    assert dog.alerts().count("[CRITICAL] run-17") == 1


def test_a_broken_edit_keeps_the_last_good_one_and_is_told(dog: Dog, daemon: Running) -> None:
    good = (dog.home / "config.toml").read_text()
    (dog.home / "config.toml").write_text(good + "\n[daemn]\n")
    wait_until(lambda: "did you mean 'daemon'?" in dog.alerts(), 60, "the broken edit is told")
    assert dog.json("status")["alive"]
    (dog.home / "config.toml").write_text(good + '\n[disks.other]\npath = "/"\n')
    wait_until(lambda: "[RESOLVED] bloom-watch" in dog.alerts(), 60, "the mended one is read")
    wait_until(
        lambda: any(seen["check"] == "other/disk_quota" for seen in dog.json("status")["checks"]),
        60,
        "and used",
    )


def test_a_dry_tick_prints_and_leaves_nothing(dog: Dog) -> None:
    done = dog("tick", "--dry-run")
    assert done.returncode == 0
    assert "scratch/disk_quota" in done.stdout
    assert "would send" in done.stdout
    assert not (dog.home / "history.db").exists()
    assert dog.alerts() == ""


def test_before_the_first_round_verbs_say_so_and_exit_0(dog: Dog, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> tuple[int, str, str]:
        code = main(["--home", str(dog.home), *words])
        return code, *capsys.readouterr()

    files = {
        "incidents": "no open incidents\n",
        "history": "nothing is recorded of that time\n",
        "outbox": "everything is delivered\n",
        "backtest": "0 alerts would have come",
        "report": "report.html",
        "export": '"watchdogd',
    }
    note = f"watchdogd: nothing is recorded yet; 'watchdogd --home {dog.home} start' begins it\n"
    for verb, words in files.items():
        code, out, err = said(verb)
        assert (code, words in out, err) == (0, True, note), (verb, out, err)
    for verb in ("incidents", "history", "outbox", "backtest"):
        assert said(verb, "--json") == (0, "[]\n", note)
    assert "No run is watched" in (dog.home / "report.html").read_text()
    assert said("history", "run-17")[0] == 0
    assert said("relay") == (0, "no channel needs a way out: the daemon itself writes them all\n", "")
    assert not (dog.home / "history.db").exists()
    assert said("ack", "1") == (1, "", "watchdogd: there is no open incident 1; none is open\n")
    assert said("tick", "--json")[0] == said("status", "--watch", "--json")[0] == 64


def test_a_dry_tick_as_json(dog: Dog) -> None:
    (dog.home / "config.toml").write_text(CONFIG.replace('crit_free = "1B"', 'crit_free = "100%"'))
    found = dog.json("tick", "--dry-run")
    assert {each["check"] for each in found["results"]} >= {"run-17/job_liveness", "scratch/disk_quota"}
    assert all({"status", "summary", "metrics"} <= each.keys() for each in found["results"])
    told = {each["target"]: each for each in found["notifications"]}["scratch"]
    assert (told["channel"], told["status"]) == ("alerts", "CRITICAL")
    assert told["headline"].startswith("[CRITICAL] scratch: ")


def test_a_plot_names_what_there_is(dog: Dog) -> None:
    assert dog("tick").returncode == 0
    done = dog("history", "scratch", "--plot", "--metric", "fre")
    assert done.stdout.startswith("no fre of scratch is recorded of that time; there are ")
    assert "free, " in done.stdout
    assert "free" in dog("history", "scratch", "--plot", "--metric", "free").stdout


def test_notify_says_what_was_delivered(dog: Dog, tmp_path: Path) -> None:
    assert dog("notify", "--test").returncode == 0
    assert "bloom-watch" in dog.alerts()
    wrong = dog("notify", "--test", "alert")
    assert wrong.returncode == 1
    assert "did you mean 'alerts'?" in wrong.stderr
    with (dog.home / "config.toml").open("a") as config:
        config.write('[channels.hook]\ntype = "webhook"\nurl = "http://127.0.0.1:1/x"\n')
        config.write('[channels.here]\ntype = "console"\n')
    assert dog("notify", "--test").returncode == 2
    told = {each["channel"]: each for each in dog.json("notify", "--test")}
    assert (told["alerts"]["delivered"], told["hook"]["delivered"]) == (True, False)
    assert "Connection refused" in told["hook"]["trouble"]


def test_notify_says_what_the_server_tells_of_the_configuration(dog: Dog, endpoint: WebServer) -> None:
    endpoint.behave(Answer(200, "ok", (("X-Version-Id", "9.11.0"),)))
    with (dog.home / "config.toml").open("a") as config:
        config.write(f'[channels.chat]\ntype = "slack"\nwebhook_url = "{endpoint.url}/hooks/x"\n')
    done = dog("notify", "--test", "chat")
    assert (done.returncode, done.stdout.partition("; but ")[0]) == (0, "chat: delivered")
    assert done.stdout.rstrip().endswith("write blocks = false")


def test_a_switch_pressed_is_told_and_recorded(
    dog: Dog, training: subprocess.Popen[str], daemon: Running
) -> None:
    stalled = "[CRITICAL] run-17: stalled, no output for "
    wait_until(lambda: stalled in dog.alerts(), 60, "the silent log is told, not in one message with it")
    assert dog("kill-switch", "run-17", "--reason", "wrong learning rate").returncode == 0
    wait_until(lambda: "wrong learning rate" in dog.alerts(), 60, "the touch is told")
    wait_until(lambda: "wrong learning rate" in dog("history").stdout, 30, "and recorded")
    assert list((dog.home / "inbox").glob("*touch*")) == []


def test_plugins_is_a_short_list_and_one_by_its_name_has_its_parameters(dog: Dog) -> None:
    assert all(": " in line and line[0] != " " for line in dog("plugins").stdout.splitlines())
    first, *parameters = dog("plugins", "disk_quota").stdout.splitlines()
    assert first.startswith("disk_quota (built-in): ")
    assert any(line.startswith("    path (str, required): ") for line in parameters)
    wrong = dog("plugins", "disk_quot")
    assert (wrong.returncode, wrong.stderr) == (
        1,
        "watchdogd: there is no plugin 'disk_quot'; did you mean 'disk_quota'?\n",
    )


def test_plugins_lists_parameters_and_what_is_skipped(dog: Dog) -> None:
    (dog.home / "plugins" / "broken.py").write_text("def (")
    found = {entry["name"]: entry for entry in dog.json("plugins")}
    assert found["disk_quota"]["origin"] == "built-in"
    assert found["log_staleness"]["parameters"]["log"]["type"]
    assert "SyntaxError" in found["broken"]["skipped"]


def test_the_types_of_parameters_are_told_in_words() -> None:
    spoken = [type_name(each) for each in (Literal["auto", "du"] | int, Percent | None, AmountField)]
    assert spoken == ['"auto" or "du" or int', "per cent or nothing", "size or percentage"]
