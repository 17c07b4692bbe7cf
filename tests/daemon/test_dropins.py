"""Drop-in folders: what is one and what is not; run by a real daemon on a real home."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import FOLDER, steps
from tests.faults import mounts
from tests.lab.dog import Dog
from tests.lab.forked import Running
from tests.plugins.words import commands_of, text_of
from tests.waiting import wait_until
from watchdogd.config.loading import parse
from watchdogd.config.models import Config
from watchdogd.daemon.dropins import dropin_jobs
from watchdogd.daemon.dropins.crontab import Scouts, build
from watchdogd.daemon.dropins.dropins import DropIn, DropInKind, executable, look
from watchdogd.daemon.housekeeping import clean_up
from watchdogd.home.layout import Home
from watchdogd.plugin import Metric, Plugin, Result, Status
from watchdogd.system.times import CronTimes

CONFIG = """
[daemon]
interval = "1s"
name = "bloom-watch"
dropin_timeout = "8s"
[channels.alerts]
type = "statuslog"
path = "alerts.log"
"""
CHECK = """
from watchdogd.plugin import Duration, check, ok
@check
def queue_length(wait: Duration = "2m"):
    return ok(f"waited {wait}")
"""
EXECUTABLE: Plugin = executable


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    home.config.write_text(CONFIG)
    return home


def drop(home: Path, name: str, text: str, mode: int = 0o755) -> Path:
    """Put a file into a drop-in folder, whole from the first moment."""
    path = home / name
    path.parent.mkdir(exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(text)
    draft.chmod(mode)
    draft.rename(path)
    return path


def found(home: Home) -> dict[str, DropIn]:
    return {dropin.name: dropin for dropin in look(home)}


def config_of(home: Home) -> Config:
    return parse(CONFIG, home.config)


# ---------------------------------------------------------------------------- what is one


@pytest.mark.parametrize(
    ("lines", "ours"),
    [
        (["--output=%x-%j.out"], True),
        (["--output={home}/mine/%x-%A_%a.out"], True),
        (["--output={home}-beside/%j.out"], False),
        (["-D /tmp", "-o %j.out"], False),
        (["-D {home}/mine", "-o %j.out"], True),
        (["-D /tmp", "-o /dev/null"], False),
    ],
)
def test_no_output_of_a_job_piles_up_in_home(home: Home, lines: list[str], ours: bool) -> None:
    text = "".join(f"#SBATCH {line.format(home=home.path)}\n" for line in lines)
    path = drop(home.path, "cron.daily/tidy.slurm", f"#!/bin/bash\n{text}true\n")
    output = str(home.logs / "tidy")
    wish = dropin_jobs.ScriptOptions(
        str(path), "", str(home.path), output, "", "", 60.0, frozenset(), 0, dry=True
    )
    assert (f"--output={output}-%j.out" in dropin_jobs._options(wish)) == ours


def test_three_kinds_at_the_cadence_of_their_folders(home: Home) -> None:
    drop(home.path, "cron.hourly/disk", "#!/bin/sh\necho OK\n")
    drop(home.path, "cron.daily/train.slurm", "#!/bin/bash\ntrue\n", 0o644)
    drop(home.path, "cron.weekly/train.sbatch", "#!/bin/bash\ntrue\n", 0o644)
    drop(home.path, "cron.every-1h30m/queue.py", CHECK, 0o644)
    drop(home.path, "cron.every-5m/script.py", "#!/usr/bin/python3\nprint('OK')\n")
    assert {name: (each.kind, each.every) for name, each in found(home).items()} == {
        "cron.hourly/disk": (DropInKind.EXECUTABLE, 3600.0),
        "cron.daily/train.slurm": (DropInKind.SLURM, 86400.0),
        "cron.weekly/train.sbatch": (DropInKind.SLURM, 604800.0),
        "cron.every-1h30m/queue.py": (DropInKind.PYTHON, 5400.0),
        "cron.every-5m/script.py": (DropInKind.EXECUTABLE, 300.0),
    }
    assert all(each.runs and not each.skipped for each in found(home).values())


@pytest.mark.parametrize(
    ("name", "mode", "reason"),
    [
        ("notes.txt", 0o644, "not executable: chmod +x"),
        ("tool.py", 0o644, "defines no checks and is not executable: chmod +x"),
        (".hidden", 0o755, "hidden"),
        ("disk~", 0o755, "its name ends in ~"),
        ("disk.bak", 0o755, "its name ends in .bak"),
        ("train.slurm.disabled", 0o755, "its name ends in .disabled"),
        ("bell\a", 0o755, "characters that cannot be shown"),
        ("two\nlines", 0o755, "characters that cannot be shown"),
    ],
)
def test_what_is_skipped_says_why(home: Home, name: str, mode: int, reason: str) -> None:
    drop(home.path, f"cron.hourly/{name}", "#!/bin/sh\necho OK\n", mode)
    [dropin] = found(home).values()
    assert reason in dropin.skipped
    assert not dropin.runs
    assert dropin.name.isprintable()
    assert build([dropin], config_of(home), home, Scouts()) == ()


@pytest.mark.parametrize("text", ["\n", " ", "from ", "\nimport\n", "\nfrom watchdogd import "])
def test_a_long_file_holds_nobody_up(home: Home, text: str) -> None:
    drop(home.path, "cron.daily/long.py", text * (40_000 // len(text)) + " " * 20_000)
    began = time.process_time()
    assert found(home)["cron.daily/long.py"].kind is not DropInKind.PYTHON
    assert time.process_time() - began < 5.0


def test_folders_links_pipes_and_empty_files_are_skipped(home: Home) -> None:
    folder = home.path / "cron.daily"
    (folder / "sub").mkdir()
    (folder / "lost").symlink_to(folder / "nowhere")
    os.mkfifo(folder / "pipe")
    (folder / "empty").touch(0o755)
    assert {name: each.skipped for name, each in found(home).items()} == {
        "cron.daily/sub": "a folder",
        "cron.daily/lost": "cannot be read: No such file or directory",
        "cron.daily/pipe": "no plain file",
        "cron.daily/empty": "empty",
    }


def test_a_folder_whose_name_is_no_cadence_says_how_to_name_it(home: Home) -> None:
    for name in ("cron.monthly", "cron.every-soon", "cron.every-0s"):
        (home.path / name).mkdir()
    (home.path / "cron.hourly-notes").write_text("no folder")
    skipped = {name: each.skipped for name, each in found(home).items()}
    assert skipped.keys() == {"cron.monthly", "cron.every-soon", "cron.every-0s"}
    assert "cron.every-2h" in skipped["cron.monthly"]
    assert "'soon' is no duration" in skipped["cron.every-soon"]


def test_what_others_can_write_is_refused_and_so_is_what_lies_in_their_folder(home: Home) -> None:
    drop(home.path, "cron.hourly/mine", "#!/bin/sh\necho OK\n")
    drop(home.path, "cron.hourly/open", "#!/bin/sh\necho OK\n", 0o757)
    drop(home.path, "cron.daily/inside", "#!/bin/sh\necho OK\n")
    (home.path / "cron.daily").chmod(0o777)
    seen = found(home)
    assert seen["cron.hourly/mine"].runs
    assert "chmod o-w" in seen["cron.hourly/open"].refused
    assert "cron.daily/inside" not in seen
    assert "cron.daily can be written by everybody" in seen["cron.daily"].refused
    checks = {check.name: check for check in build(seen.values(), config_of(home), home, Scouts())}
    assert set(checks) == {"cron.daily", "cron.hourly/mine", "cron.hourly/open"}
    assert checks["cron.hourly/open"].parameters["status"] == Status.CRITICAL


def test_what_is_seen_changes_with_what_lies_there_its_text_and_its_rights(home: Home) -> None:
    seen = [look(home)]
    path = drop(home.path, "cron.hourly/disk", "#!/bin/sh\necho OK\n")
    seen.append(look(home))
    path.write_text("#!/bin/sh\necho fine\n")
    seen.append(look(home))
    path.chmod(0o700)
    seen.append(look(home))
    path.chmod(0o600)
    seen.append(look(home))
    assert len(set(seen)) == len(seen)
    assert look(home) == seen[-1]
    path.unlink()
    assert look(home) == seen[0]


def test_python_drop_ins_have_defaults_and_broken_ones_say_so(home: Home) -> None:
    drop(home.path, "cron.daily/one.py", CHECK, 0o644)
    drop(home.path, "cron.daily/two.py", CHECK + "@check(every='5m')\ndef other():\n    return ok('x')\n")
    drop(home.path, "cron.daily/broken.py", CHECK + "def (\n")
    drop(home.path, "cron.daily/needy.py", CHECK.replace(' = "2m"', ""))
    checks = {each.name: each for each in build(look(home), config_of(home), home, Scouts())}
    one = checks["cron.daily/one.py"]
    assert (one.every, one.target, one.parameters["wait"]) == (86400.0, "cron.daily/one.py", 120.0)
    assert checks["cron.daily/two.py/other"].every == 300.0
    assert checks["cron.daily/two.py/queue_length"].target == "cron.daily/two.py"
    assert "SyntaxError" in checks["cron.daily/broken.py"].parameters["summary"]
    assert "'wait' has no default" in checks["cron.daily/needy.py"].parameters["summary"]


# ---------------------------------------------------------------------------- running one


def execute(home: Home, text: str, deadline: float = 20.0, mode: int = 0o755) -> Result:
    path = drop(home.path, "cron.hourly/plugin", text, mode)
    parameters = {"path": str(path), "home": str(home.path), "deadline": deadline}
    [result] = EXECUTABLE.results(parameters, {})
    return result


def test_a_plugin_gets_its_arguments_from_the_script_that_the_page_shows(home: Home) -> None:
    (step,) = (each for each in steps(FOLDER / "plugins.md") if each.file.endswith("/load"))
    result = execute(home, step.text, 60.0)
    assert (result.status is not Status.UNKNOWN, "load average" in result.summary) == (True, True)
    assert result.metrics["load1"].warn == 40


@pytest.mark.parametrize(
    ("folder", "looks"),
    [("cron.every-1m", 2), ("cron.every-10m", 2), ("cron.hourly", 1), ("cron.at-0230", 1)],
)
def test_what_may_be_a_chore_is_not_run_again_and_a_check_is(home: Home, folder: str, looks: int) -> None:
    drop(home.path, f"{folder}/link", "#!/bin/sh\necho OK\n")
    [check] = build(found(home).values(), config_of(home), home, Scouts())
    assert check.confirm == looks


def test_an_executable_is_judged_as_a_nagios_plugin(home: Home) -> None:
    result = execute(home, "#!/bin/sh\necho 'FREE WARNING - 3 left | free=3;5:;1:'\necho more\nexit 1\n")
    assert (result.status, result.summary, result.details) == (
        Status.WARNING,
        "FREE WARNING - 3 left",
        "more",
    )
    assert result.metrics == {"free": Metric(3.0, "", 5.0, 1.0)}


def test_a_real_plugin_of_debian(home: Home) -> None:
    result = execute(home, "#!/bin/sh\nexec /usr/lib/nagios/plugins/check_disk -w 0% -c 0% -p /\n")
    assert result.status is Status.OK
    assert result.metrics["/"].unit == "B"


def test_it_runs_in_home_without_slurm_and_knows_its_home(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "88")
    monkeypatch.setenv("WATCHDOGD_LINK", "daemon")
    said = execute(home, '#!/bin/sh\necho "$(pwd) $WATCHDOGD_HOME [$SLURM_JOB_ID$WATCHDOGD_LINK]"\n').summary
    assert said == f"{home.path} {home.path} []"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("#!/bin/sh\ntrap '' TERM\nwhile :; do :; done\n", "did not end within 1s, and was stopped"),
        ("#!/bin/sh\necho begun\nsleep 60\n", "did not end within 1s, and was stopped"),
        ("#!/bin/sh\nkill -SEGV $$\n", "was killed by SIGSEGV"),
        ("#!/bin/sh\nexit 77\n", "ended with exit code 77, not a valid status (0 to 3)"),
        ("echo OK\n", "Begin it with a line such as #!/bin/bash"),
        ("#!/nowhere/python\n", "Install the interpreter that its first line names"),
        ("#!/bin/sh\r\necho OK\r\n", r"sed -i 's/\r$//' "),
    ],
)
def test_what_misbehaves_is_unknown_in_a_sentence(home: Home, text: str, says: str) -> None:
    result = execute(home, text, deadline=1.0)
    assert result.status is Status.UNKNOWN
    assert says in text_of(result)
    assert "/" not in result.summary, "its own path stands below"
    if "begun" in text:
        assert result.details == "begun"


def test_a_flood_and_invalid_bytes_are_bounded(home: Home) -> None:
    flood = execute(home, "#!/bin/sh\nhead -c 50000000 /dev/zero | tr '\\0' x\n", deadline=60.0)
    assert flood.status is Status.OK
    assert len(flood.summary) <= 1_000_000
    assert "\\xff" in execute(home, "#!/bin/sh\nprintf 'a\\377b\\n'\n").summary


def test_it_is_refused_at_the_moment_it_would_run(home: Home) -> None:
    result = execute(home, "#!/bin/sh\ntouch ran\necho OK\n", mode=0o757)
    assert result.status is Status.CRITICAL
    assert "chmod o-w" in commands_of(result)[0]
    assert not (home.path / "ran").exists()


# ---------------------------------------------------------------------------- cleaning up


def test_only_own_old_files_go(home: Home) -> None:
    gone = [
        "logs/cron.daily.train.slurm-88.out",
        "logs/daemon.log.3",
        "logs/link.log.1",
        "inbox/run-17.beat.node1.4711.json",
        "inbox/.run-17.beat.node1.4711.json.node1.4711.new",
        "inbox/run-17.sample.node1.4711.json",
        "inbox/run-17.stacks.node1.4711.json",
        "inbox/run-17.stacks.node1.4711.txt",
        "inbox/run-17.stacks-request",
        ".status.json.4711.0a1b2c3d",
        "switches/.run-17.json.4711.0a1b2c3d",
    ]
    stays = [
        "logs/alerts.log",
        "logs/daemon.log",
        "logs/link.log",
        "logs/notes-88.out",
        "inbox/run-17.ack.node1.4711-1.json",
        "inbox/notes.txt",
        "inbox/run-17.stacks.txt",
        "switches/run-17.kill",
        "config.toml",
        "evidence/.x.1.0a1b2c3d",
        "cron.hourly/.x.1.0a1b2c3d",
    ]
    for name in (*gone, *stays):
        (home.path / name).touch()
    (home.logs / "cron.link-1.out").symlink_to(home.config)
    (home.logs / "cron.folder-1.out").mkdir()
    now = time.time()
    assert clean_up(home, 7 * 86400.0, now) == 0
    assert clean_up(home, 7 * 86400.0, now + 8 * 86400) == len(gone)
    assert [name for name in gone if (home.path / name).exists()] == []
    assert [name for name in stays if not (home.path / name).exists()] == []
    assert (home.logs / "cron.link-1.out").is_symlink()
    assert (home.logs / "cron.folder-1.out").is_dir()


def test_young_logs_stay_as_long_as_configured(home: Home) -> None:
    log = home.logs / "cron.daily.train.slurm-88.out"
    log.touch()
    now = time.time()
    assert clean_up(home, 30 * 86400.0, now + 29 * 86400) == 0
    assert clean_up(home, 86400.0, now + 2 * 86400) == 1


# ---------------------------------------------------------------------------- the daemon


@pytest.fixture
def dog(tmp_path: Path) -> Dog:
    return Dog(tmp_path / "home").settle(CONFIG)


@pytest.fixture
def daemon(dog: Dog) -> Iterator[Running]:
    with dog.running() as process:
        yield process


def checks_of(dog: Dog) -> dict[str, str]:
    return {seen["check"]: seen["status"] for seen in dog.json("status")["checks"]}


def counted(dog: Dog, name: str) -> int:
    path = dog.home / name
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_dropped_in_it_runs_taken_out_it_stops_and_its_incident_closes(dog: Dog, daemon: Running) -> None:
    path = drop(dog.home, "cron.hourly/spare", "#!/bin/sh\necho ran >> ran\necho 'no spare nodes'\nexit 2\n")
    wait_until(lambda: "[CRITICAL] cron.hourly/spare: no spare nodes" in dog.alerts(), 60, "it is told")
    drop(dog.home, "cron.every-1s/often", "#!/bin/sh\necho ran >> often\necho fine\n")
    wait_until(lambda: counted(dog, "often") >= 3, 60, "the other one runs each second")
    assert counted(dog, "ran") == 1
    path.unlink()
    wait_until(lambda: dog.json("incidents") == [], 60, "its incident is closed")
    assert "[RESOLVED]" not in dog.alerts()
    wait_until(lambda: "cron.hourly/spare" not in checks_of(dog), 60, "and it is no check any more")
    drop(dog.home, "cron.hourly/spare", "#!/bin/sh\necho ran >> ran\necho fine\n")
    wait_until(lambda: counted(dog, "ran") == 2, 60, "dropped in again, it is due at once")


def test_a_single_bad_look_of_a_check_pages_nobody(dog: Dog, daemon: Running) -> None:
    down = "#!/bin/sh\necho ran >> {0}\n[ $(wc -l < {0}) {1} ] && exit 0\necho 'ib0 is down'\nexit 2\n"
    drop(dog.home, "cron.every-10m/blip", down.format("blip", "-gt 1"))
    drop(dog.home, "cron.every-10m/link", down.format("link", "-gt 99"))
    told = "[CRITICAL] cron.every-10m/link: ib0 is down"
    wait_until(lambda: told in dog.alerts(), 60, "what stays bad is told")
    wait_until(lambda: counted(dog, "blip") == 2, 60, "the other one was looked at again, too")
    wait_until(lambda: checks_of(dog)["cron.every-10m/blip"] == "OK", 60, "and is fine")
    assert counted(dog, "link") == 2
    assert "blip" not in dog.alerts()


def test_a_python_drop_in_appears_and_a_broken_one_stops_nothing(dog: Dog, daemon: Running) -> None:
    drop(dog.home, "cron.hourly/broken.py", CHECK + "def (\n", 0o644)
    drop(dog.home, "cron.hourly/exits.py", "import sys\nfrom watchdogd.plugin import check\nsys.exit(3)\n")
    drop(dog.home, "cron.hourly/queue.py", CHECK, 0o644)
    wait_until(lambda: checks_of(dog).get("cron.hourly/queue.py") == "OK", 90, "the good one ran")
    wait_until(lambda: "[UNKNOWN] cron.hourly/broken.py" in dog.alerts(), 60, "the broken one is told")
    wait_until(lambda: "[UNKNOWN] cron.hourly/exits.py" in dog.alerts(), 60, "the other one too")
    drop(dog.home, "cron.hourly/broken.py", CHECK, 0o644)
    wait_until(lambda: "[RESOLVED] cron.hourly/broken.py" in dog.alerts(), 60, "mended, it resolves")


def test_what_is_refused_is_an_incident_until_its_rights_are_right(dog: Dog, daemon: Running) -> None:
    path = drop(dog.home, "cron.weekly/open", "#!/bin/sh\necho ran >> ran\necho fine\n", 0o757)
    wait_until(lambda: "[CRITICAL] cron.weekly/open: refused" in dog.alerts(), 60, "it is told")
    assert counted(dog, "ran") == 0
    path.chmod(0o755)
    wait_until(lambda: "[RESOLVED] cron.weekly/open" in dog.alerts(), 60, "it resolves")
    assert counted(dog, "ran") >= 1


def test_a_slow_one_holds_up_nobody_and_is_not_started_on_top(dog: Dog, daemon: Running) -> None:
    drop(dog.home, "cron.hourly/slow", "#!/bin/sh\necho ran >> slow\nsleep 600\n")
    drop(dog.home, "cron.every-1s/quick", "#!/bin/sh\necho ran >> quick\necho fine\n")
    wait_until(lambda: counted(dog, "slow") == 1, 60, "the slow one runs")
    before = counted(dog, "quick")
    wait_until(lambda: counted(dog, "quick") >= before + 3, 60, "the quick one goes on")
    assert counted(dog, "slow") == 1
    wait_until(lambda: "did not end within 8s, and was stopped" in dog.alerts(), 60, "it is killed and told")


def test_its_numbers_and_thresholds_land_in_history(dog: Dog) -> None:
    drop(dog.home, "cron.daily/load", "#!/bin/sh\necho 'LOAD OK | load1=0.5;5;10'\n")
    assert dog("tick").returncode == 0
    rows = dog("history", "--csv").stdout.splitlines()
    assert any(",cron.daily/load,,OK,load1,0.5," in row for row in rows)
    [seen] = [seen for seen in dog.json("status")["checks"] if seen["check"] == "cron.daily/load"]
    assert seen["metrics"] == {"load1": {"value": 0.5, "unit": "", "warn": 5.0, "crit": 10.0}}
    assert seen["target"] == "cron.daily/load"


def test_ticks_keep_the_cadence_and_after_downtime_each_runs_once(dog: Dog) -> None:
    drop(dog.home, "cron.daily/chore", "#!/bin/sh\necho ran >> ran\necho done\n")
    drop(dog.home, "cron.every-2s/often", "#!/bin/sh\necho ran >> often\necho done\n")
    for _ in range(2):
        assert dog("tick").returncode == 0
    assert counted(dog, "ran") == 1
    before = counted(dog, "often")
    time.sleep(6)  # three of its cadences go by without anybody
    assert dog("tick").returncode == 0
    assert counted(dog, "often") == before + 1
    (dog.home / "cron.daily/chore").unlink()
    assert dog("tick").returncode == 0
    drop(dog.home, "cron.daily/chore", "#!/bin/sh\necho ran >> ran\necho done\n")
    assert dog("tick").returncode == 0
    assert counted(dog, "ran") == 2


def test_rounds_that_could_not_be_recorded_are_not_called_unwatched(dog: Dog) -> None:
    dog("tick")
    status = dog.home / "status.json"
    status.write_text(json.dumps(json.loads(status.read_text()) | {"recorded": False}))
    with contextlib.closing(sqlite3.connect(dog.home / "history.db")) as history, history:
        history.execute("UPDATE facts SET value = ? WHERE name = 'last_round'", [str(time.time() - 7200.0)])
    dog("tick")
    (told,) = (line for line in dog.alerts().splitlines() if "no history of " in line)
    assert told.split("[")[1].startswith("WARNING] bloom-watch: ")
    assert "nobody watched" not in dog.alerts()
    assert dog.json("status")["gaps"] == []


def test_ticks_are_seen_by_status_tell_a_gap_and_respect_a_stop(dog: Dog) -> None:
    assert dog("status").returncode == 3
    dog("tick")
    seen = dog.json("status")
    assert seen["alive"] is True
    assert seen["holder"].startswith("by ticks, the last at ")
    hours_ago = time.time() - 7200.0
    (dog.home / ".ticks").write_text(json.dumps([hours_ago - 300.0, hours_ago]))
    assert dog("status").returncode == 3
    with contextlib.closing(sqlite3.connect(dog.home / "history.db")) as history, history:
        history.execute("UPDATE facts SET value = ? WHERE name = 'last_round'", [str(hours_ago)])
    dog("tick")
    assert "[WARNING] bloom-watch: nobody watched for 2h" in dog.alerts()
    (gap,) = dog.json("status")["gaps"]
    assert gap["reason"] == "no daemon ran"
    dog("stop", "--reason", "holidays")
    assert dog("status").returncode == 3
    said = dog("tick")
    assert (said.returncode, said.stdout.startswith("nothing done: it was stopped by ")) == (0, True)
    assert ": holidays;" in said.stdout
    assert (dog.home / "stopped").exists()


def test_a_broken_edit_leaves_a_line_in_the_log_and_libraries_leave_none(dog: Dog, daemon: Running) -> None:
    (dog.home / "config.toml").write_text(CONFIG.replace("interval", "intervall"))
    log = dog.home / "logs/daemon.log"
    wait_until(lambda: log.exists() and "did you mean 'interval'" in log.read_text(), 60, "the edit is in it")
    assert "WARNING watchdogd.daemon.config_changes" in log.read_text()
    assert "alembic" not in log.read_text()
    (dog.home / "config.toml").write_text(CONFIG)


def test_a_rehearsal_runs_no_program_and_check_does(dog: Dog) -> None:
    drop(dog.home, "cron.daily/chore", "#!/bin/sh\necho ran >> ran\necho done\n")
    done = dog("tick", "--dry-run")
    assert "cron.daily/chore: would be run" in done.stdout
    assert counted(dog, "ran") == 0
    one = dog("check", "cron.daily/chore")
    assert (one.returncode, one.stdout.strip()) == (0, "cron.daily/chore OK - done")
    assert counted(dog, "ran") == 1


def test_a_tick_tells_what_it_knows_while_a_slow_one_runs_and_keeps_its_lease(dog: Dog) -> None:
    config = dog.home / "config.toml"
    config.write_text(config.read_text().replace('timeout = "8s"', 'timeout = "60s"'))
    drop(dog.home, "cron.daily/bad", "#!/bin/sh\necho broken\nexit 2\n")
    renewed = "stat -c %Y .lease/0* > renewed; date +%s >> renewed; cp alerts.log told"
    drop(dog.home, "cron.daily/slow", f"#!/bin/sh\nsleep 23\n{renewed}\necho slow at last\n")
    assert dog("tick").returncode == 0
    assert "[CRITICAL] cron.daily/bad: broken" in (dog.home / "told").read_text()
    at, now = map(int, (dog.home / "renewed").read_text().split())
    assert now - at < 15
    assert "slow at last" in dog("history", "--csv").stdout


def test_what_was_set_aside_by_its_name_is_no_trouble_of_doctor(dog: Dog) -> None:
    drop(dog.home, "cron.daily/old.disabled", "#!/bin/sh\necho done\n")
    drop(dog.home, "cron.daily/notes.txt", "x", 0o644)
    said = dog("doctor").stdout
    assert "cron.daily/notes.txt" in said
    assert "old.disabled" not in said
    checked = dog("check", "cron.daily/old.disabled")
    assert (checked.returncode, checked.stderr) == (
        3,
        "watchdogd: cron.daily/old.disabled is not run: its name ends in .disabled\n",
    )


def test_plugins_lists_drop_ins_with_what_is_skipped_and_refused(dog: Dog) -> None:
    drop(dog.home, "cron.daily/chore", "#!/bin/sh\necho done\n")
    drop(dog.home, "cron.daily/notes.txt", "x", 0o644)
    drop(dog.home, "cron.daily/open", "#!/bin/sh\necho done\n", 0o757)
    listed = {entry["name"]: entry for entry in dog.json("plugins")}
    assert listed["cron.daily/chore"]["description"] == "executable, every 1d"
    assert listed["cron.daily/chore"]["skipped"] is None
    assert "not executable" in listed["cron.daily/notes.txt"]["skipped"]
    assert listed["cron.daily/open"]["skipped"].startswith("refused: ")
    said = dog("plugins").stdout
    assert "chmod +x" in said
    assert max(line.count(str(dog.home)) for line in said.splitlines()) == 1, "no path twice"
    assert dog("tick").returncode == 0
    log = (dog.home / "logs" / "daemon.log").read_text()
    assert "drop-in cron.daily/notes.txt does not run: not executable" in log


def test_secrets_stay_out_of_their_environment(dog: Dog) -> None:
    with (dog.home / "config.toml").open("a") as config:
        config.write('[channels.hook]\ntype = "webhook"\nurl = "env:HOOK_URL"\n')
    dog.env["HOOK_URL"] = "http://127.0.0.1:1/hush"
    drop(dog.home, "cron.daily/env", "#!/bin/sh\necho OK\nenv\n")
    [seen] = [seen for seen in dog.json("check") if seen["check"] == "cron.daily/env"]
    assert f"WATCHDOGD_HOME={dog.home}" in seen["details"]
    assert "hush" not in json.dumps(seen)


@pytest.fixture
def hung(tmp_path: Path) -> Iterator[Path]:
    """A file system that never answers."""
    with mounts.hung(tmp_path / "hung") as place:
        yield place


@pytest.mark.root
def test_a_drop_in_on_a_hung_file_system_holds_up_nothing_else_and_is_told(
    dog: Dog, daemon: Running, hung: Path
) -> None:
    drop(dog.home, "cron.every-1s/quick", "#!/bin/sh\necho ran >> quick\necho fine\n")
    wait_until(lambda: counted(dog, "quick") >= 1, 60, "the other one runs")
    (dog.home / "cron.daily" / "stuck").symlink_to(hung / "script")
    wait_until(lambda: "new drop-ins are not taken up" in dog.alerts(), 60, "it is told")
    before = counted(dog, "quick")
    wait_until(lambda: counted(dog, "quick") >= before + 3, 60, "the other one goes on")


def test_the_daily_chores_are_done_once_a_day_by_ticks_too(dog: Dog) -> None:
    old = dog.home / "logs" / "cron.daily.train.slurm-88.out"
    old.touch()
    os.utime(old, (time.time() - 8 * 86400,) * 2)
    assert dog("tick").returncode == 0
    assert not old.exists()
    old.touch()
    os.utime(old, (time.time() - 8 * 86400,) * 2)
    assert dog("tick").returncode == 0
    assert old.exists()
    os.utime(dog.home / ".chores", (time.time() - 86500,) * 2)
    assert dog("tick").returncode == 0
    assert not old.exists()


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ("", ["--chdir=/home/w", "--output=/home/w/logs/cron.daily-tidy-%j.out"]),
        ("--output=%x-%j.out", ["--chdir=/home/w", "--output=/home/w/logs/cron.daily-tidy-%j.out"]),
        (
            "-o tidy.out -e err/%j",
            [
                "--chdir=/home/w",
                "--output=/home/w/logs/cron.daily-tidy-%j.out",
                "--error=/home/w/logs/cron.daily-tidy-%j.err",
            ],
        ),
        ("--output=/scratch/tidy-%j.out", ["--chdir=/home/w"]),
        ("--chdir=/scratch --output=tidy.out", []),
    ],
)
def test_an_output_that_would_lie_in_home_goes_to_its_logs(
    tmp_path: Path, asked: str, options: list[str]
) -> None:
    path = tmp_path / "tidy.slurm"
    path.write_text(f"#!/bin/sh\n#SBATCH {asked}\ntrue\n")
    output = "/home/w/logs/cron.daily-tidy"
    wish = dropin_jobs.ScriptOptions(
        str(path), "c", "/home/w", output, "", "", 60.0, frozenset(), 0, dry=False
    )
    assert dropin_jobs._options(wish) == ["--comment=c", *options]


def test_a_folder_or_the_configuration_names_the_time_of_day(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.make()
    for folder in ("cron.at-0415", "cron.daily", "cron.hourly", "cron.at-2560"):
        (home.path / folder).mkdir(exist_ok=True)
        drop(home.path, f"{folder}/tidy", "#!/bin/sh\ntrue\n")
        drop(home.path, f"{folder}/tidy.slurm", "#!/bin/sh\ntrue\n")
    text = '[daemon]\ndaily_at = "02:30"\ntimezone = "Europe/Helsinki"\n[channels.c]\ntype = "console"\n'
    config = parse(text, home.config)
    made = {check.name: check for check in build(look(home), config, home, Scouts())}
    times = {name: check.at.expression if check.at else "" for name, check in made.items()}
    wanted = {"cron.at-0415/tidy": "15 4 * * *", "cron.daily/tidy": "30 2 * * *", "cron.hourly/tidy": ""}
    assert {name: times[name] for name in wanted} == wanted
    assert made["cron.daily/tidy.slurm"].parameters["at"].expression == "30 2 * * *"
    assert made["cron.daily/tidy.slurm"].at is None, "it is followed in each round"
    assert made["cron.daily/tidy"].since == pytest.approx(time.time(), abs=60)
    (skipped,) = [each for each in look(home) if each.name.startswith("cron.at-2560")]
    assert "cron.at-0230" in skipped.skipped


@pytest.mark.parametrize(
    ("submitted", "now", "due"),
    [(None, 90, False), (None, 130, True), (100.0, 130, True), (121.0, 9000, False)],
)
def test_a_script_is_submitted_at_its_hour(submitted: float | None, now: float, due: bool) -> None:
    day = 1_795_800_000.0 // 86400 * 86400
    at = CronTimes("2 0 * * *")
    wish = dropin_jobs.ScriptOptions(
        "x.slurm", "c", "/h", "o", "", "", 86400.0, frozenset(), 0, dry=False, at=at, since=day + 60
    )
    known = dropin_jobs.Followed(submitted=None if submitted is None else day + submitted)
    assert dropin_jobs._due(wish, known, day + now) is due
