"""What the pieces of the doctor make of what they see, without a cluster."""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from tests.lab.processes import started
from tests.servers.smtp import Mailbox
from tests.servers.web import WebServer
from tests.waiting import wait_until
from watchdogd.batch.models import Job
from watchdogd.batch.sinfo import Partition
from watchdogd.cli.setup.doctor import _sum
from watchdogd.config.secret import Secret
from watchdogd.daemon.setup import Setup
from watchdogd.doctor import cluster, delivery, home_storage, tools, watched
from watchdogd.doctor.diagnosis import (
    BROKEN,
    FINE,
    WARNING,
    Diagnosis,
    Installation,
    broken,
    exit_code,
    fine,
    from_json,
    warning,
)
from watchdogd.doctor.runner import examine
from watchdogd.history.store import Store
from watchdogd.home.layout import Home
from watchdogd.parsers.quota.models import BYTES, INODES, StorageLimit
from watchdogd.plugin import Run
from watchdogd.system.mounts import Mount

SMALL = Partition("small", "1-00:00:00", 2, gpus=False, default=True)


def states(findings: Iterator[Diagnosis]) -> list[str]:
    return [finding.state for finding in findings]


def test_findings_come_back_from_json_and_the_worst_is_the_exit_code() -> None:
    found = (fine("a", "well"), warning("b", "so", "do"), broken("c", "bad", "fix"))
    assert tuple(from_json(each.as_json()) for each in found) == found
    assert [exit_code(found[:count]) for count in range(4)] == [0, 0, 1, 2]
    assert _sum([*found, found[1]]) == "1 broken, 2 warnings, 1 fine"


@pytest.mark.parametrize(
    ("mount", "chain", "state", "words"),
    [
        (Mount("/s", "lustre", "x", "rw,flock"), True, FINE, "lies on lustre (/s)"),
        (Mount("/s", "lustre", "x", "rw,localflock"), True, WARNING, "on one node alone"),
        (Mount("/h", "nfs4", "x", "rw,vers=4.2"), True, FINE, "nfs4"),
        (Mount("/h", "nfs", "x", "rw,nolock"), True, WARNING, "without locks between nodes"),
        (Mount("/h", "nfs", "x", "rw,local_lock=all"), True, WARNING, "without locks between nodes"),
        (Mount("/dev/shm", "tmpfs", "x"), False, WARNING, "lost at a reboot"),
        (Mount("/", "ext4", "x"), True, FINE, "--on-partition"),
        (Mount("/", "ext4", "x"), False, FINE, "ext4 (/)"),
        (None, True, FINE, "/s/home is there"),
    ],
)
def test_the_file_system_under_home(mount: Mount | None, chain: bool, state: str, words: str) -> None:
    found = home_storage.judge_mount("/s/home", mount, chain=chain)
    assert found.state == state
    assert words in found.text
    assert bool(found.fix) == (state != FINE)


def test_locks_clock_and_room() -> None:
    held = [home_storage.judge_lock(held, Mount("/s", "x", "y")).state for held in (True, False, None)]
    assert held == [FINE, BROKEN, BROKEN]
    assert home_storage.judge_skew(0.4).state == FINE
    assert "1m30s ahead of" in home_storage.judge_skew(90.0).text
    assert "1m30s behind" in home_storage.judge_skew(-90.0).text
    full = [StorageLimit(BYTES, "fs", 0.0, 1e12), StorageLimit(INODES, "fs", 0.0, 1e6)]
    assert states(home_storage.judge_room(full)) == [FINE]
    assert states(home_storage.judge_room([StorageLimit(BYTES, "fs", 0.0, 1e8), full[1]])) == [WARNING]
    assert states(home_storage.judge_room([full[0], StorageLimit(INODES, "fs", 0.0, 50.0)])) == [BROKEN]
    assert states(home_storage.judge_room([])) == []


@pytest.mark.parametrize(
    ("shown", "site", "words"),
    [
        ({"State": "UP", "AllocNodes": "ALL"}, {"SelectType": "select/cons_tres"}, []),
        ({"State": "DOWN"}, {}, ["small is DOWN"]),
        ({"OverSubscribe": "EXCLUSIVE"}, {}, ["whole nodes (OverSubscribe=EXCLUSIVE)"]),
        ({"ExclusiveUser": "YES"}, {"SelectType": "select/linear"}, ["ExclusiveUser=YES, SelectType=linear"]),
        ({"AllocNodes": "login[1-2]", "Nodes": "n[1-4]"}, {}, ["takes jobs from login[1-2] alone"]),
        ({"AllocNodes": "login1,n[1-9]", "Nodes": "n[1-4]"}, {}, []),
    ],
)
def test_a_partition(shown: Mapping[str, str], site: Mapping[str, str], words: list[str]) -> None:
    found = list(cluster.judge_partition(SMALL, shown, site))
    assert len(found) == len(words)
    assert all(word in finding.text and finding.fix for word, finding in zip(words, found, strict=True))


def test_accounting_and_whom_slurm_shows() -> None:
    kept = {"AccountingStorageType": "accounting_storage/slurmdbd", "MinJobAge": "300 sec"}
    assert cluster.judge_accounting(kept, "").state == FINE
    assert "is known for 300 sec only" in cluster.judge_accounting(kept, "it is away").text
    none = {"AccountingStorageType": "accounting_storage/none"}
    assert cluster.judge_accounting(none, "").state == WARNING
    private = {"PrivateData": "accounts,jobs"}
    assert states(cluster.judge_users("ines", {"ines"}, private)) == [FINE]
    assert states(cluster.judge_users("ines", {"ines", "otto"}, private)) == [WARNING]
    assert states(cluster.judge_users("ines", {"otto"}, {"PrivateData": "none"})) == [FINE]


def test_how_many_files_home_holds() -> None:
    few = home_storage.judge_files({"logs": 1200, "evidence": 30, "": 9})
    assert few.state == FINE
    assert few.text == "home holds 1,239 files: 1,200 in logs, 30 in evidence, 9 in home itself"
    assert home_storage.judge_files({"logs": 60_000}).state == WARNING


@pytest.mark.parametrize(
    ("site", "said"),
    [
        ({}, "it has no HealthCheckProgram): ask its administrators for one that tests GPUs"),
        ({"HealthCheckProgram": "(null)", "NodeFeaturesPlugins": "knl_cray"}, "and knl_cray tests none)"),
        ({"HealthCheckProgram": "/usr/sbin/nhc", "HealthCheckInterval": "0 sec"}, "HealthCheckInterval is 0"),
        (
            {"HealthCheckProgram": "/usr/sbin/nhc", "HealthCheckInterval": "300 sec"},
            "the site looks for them itself: /usr/sbin/nhc every 300 sec on ANY nodes",
        ),
    ],
)
def test_whether_the_site_drains_bad_nodes_and_what_to_ask_for(site: dict[str, str], said: str) -> None:
    found = cluster.judge_draining(site)
    assert said in found.text
    assert found.state == FINE


def test_whose_jobs_are_seen_and_whose_are_not() -> None:
    assert states(cluster.judge_sharing({"ines"}, None, "")) == []
    assert states(cluster.judge_sharing({"ines"}, None, "crew")) == [WARNING]
    assert states(cluster.judge_sharing({"ines"}, "crew", "crew")) == []
    jobs = [
        Job("7", "7", "moe", "otto", "RUNNING"),
        Job("8", "8", "moe", "ines", "COMPLETED"),
        Job("9", "9", "sft", "otto", "PENDING"),
        Job("10", "10", "sft", "ines", "RUNNING"),
        Job("11", "11", "mix", "otto", "RUNNING", comment="watchdogd:x"),
    ]
    runs = [Run(name, name) for name in ("moe", "sft", "mix", "none")]
    (found,) = cluster.judge_runs(runs, {"ines"}, jobs)
    assert found.text == "moe: job 7 of that name is otto's, whose jobs do not count"
    assert 'user = "otto" under [runs.moe]' in found.fix
    assert list(cluster.judge_runs([Run("moe", "moe", users=frozenset({"otto"}))], {"ines"}, jobs)) == []


def test_stacks_and_cron() -> None:
    assert tools.judge_stacks(spy=True, scope="0").state == FINE
    assert "children only" in tools.judge_stacks(spy=True, scope="1").text
    assert tools.judge_stacks(spy=True, scope="3").state == WARNING
    assert tools.judge_stacks(spy=True, scope="2", privileged=True).state == FINE
    assert tools.judge_stacks(spy=True, scope="3", privileged=True).state == WARNING
    assert "in a container" in tools.judge_stacks(spy=True, scope="0", boxed=True).text
    assert "pip install" in tools.judge_stacks(spy=False, scope="").fix
    line = "*/10 * * * * watchdogd ensure\n"
    assert tools.judge_cron(line, alive=False).state == FINE
    assert tools.judge_cron("#" + line, alive=False).state == WARNING


def test_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "hook"
    file.write_text("s3cret-words\n")
    file.chmod(0o644)
    monkeypatch.setenv("HOOK", "s3cret-words")
    [found] = delivery.judge_secrets([("channels.a.url", Secret(f"file:{file}"))], None)
    assert (found.state, found.fix) == (WARNING, f"chmod 600 {file}")
    file.chmod(0o600)
    both = [("channels.a.url", Secret(f"file:{file}")), ("heartbeat.url", Secret("env:HOOK"))]
    assert states(delivery.judge_secrets(both, None)) == [FINE]
    assert states(delivery.judge_secrets([("channels.a.url", Secret("s3cret-words"))], None)) == [WARNING]
    [gone] = delivery.judge_secrets([("channels.a.url", Secret("env:NO_SUCH_HOOK"))], None)
    assert gone.state == BROKEN
    assert "NO_SUCH_HOOK" in gone.text
    assert states(delivery.judge_secrets([], None)) == []


def test_folders_of_switches(tmp_path: Path) -> None:
    assert watched.writable("moe", str(tmp_path)) is None
    found = watched.writable("moe", str(tmp_path / "none"))
    assert found is not None
    assert found.fix == f"mkdir -p {tmp_path}/none"


def test_runs_that_read_one_log_are_named(home: Home) -> None:
    home.config.write_text(
        "[runs.moe]\nlog = 'l/o-*.txt'\n[runs.pike]\nlog = 'l/o-*.txt'\n[runs.tuna]\nlog = 'l/t-*.txt'\n"
    )
    found = [
        each
        for each in watched.look_at_runs(Installation.of(home, Setup.load(home)))
        if "the same log" in each.text
    ]
    assert [each.state for each in found] == [WARNING]
    assert found[0].text == f"moe and pike read the same log, {home.path}/l/o-*.txt: one can hide a hang"


def _slurm_of(home: Home, text: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[bool, list[str]]:
    """Whether Slurm is tested for this configuration where it is installed, and what is said of the runs."""
    path.mkdir(exist_ok=True)
    (path / "squeue").write_text("#!/bin/sh\necho 'no controller' >&2; exit 1\n")
    (path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{path}:{os.environ['PATH']}")
    home.config.write_text(text)
    scene = Installation.of(home, Setup.load(home))
    return scene.slurm, [each.text for each in watched.look_at_runs(scene)]


def test_slurm_is_no_trouble_where_all_runs_are_processes(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log").touch()
    process = f'[runs.moe]\nbackend = "process"\ncommand = "{tmp_path}/train.py"\nlog = "{tmp_path}/log"\n'
    slurm, said = _slurm_of(home, process, tmp_path / "bin", monkeypatch)
    assert (slurm, said) == (False, ["moe: log and switches are in place"])
    mixed = f'{process}[runs.pike]\nlog = "{tmp_path}/other"\n'
    assert _slurm_of(home, mixed, tmp_path / "bin", monkeypatch)[0]
    nodes = f'{process}[checks.spare]\nplugin = "node_health"\npartition = "gpu"\n'
    assert _slurm_of(home, nodes, tmp_path / "bin", monkeypatch)[0]


def test_a_script_to_resubmit_that_is_not_there(home: Home) -> None:
    said = "moe: again.slurm does not exist, so that watchdogd cannot resubmit it"
    home.config.write_text("[runs.moe]\non_gone = [{ resubmit = 'again.slurm' }]\n")

    def found() -> list[tuple[str, str]]:
        looked = watched.look_at_runs(Installation.of(home, Setup.load(home)))
        return [(each.state, each.fix) for each in looked if each.text == said]

    assert found() == [("broken", "correct resubmit under [runs.moe]")]
    (home.path / "again.slurm").write_text("#!/bin/sh\n")
    assert found() == []


def test_ranks_whose_flight_recorder_is_of_no_use(home: Home, tmp_path: Path) -> None:
    home.config.write_text(f'[runs.moe]\npid_file = "{tmp_path}/pid"\nlog = "{tmp_path}/log"\n')
    (tmp_path / "log").touch()
    other = f"SLURM_PROCID=1 {sys.executable} -c 'import time; time.sleep(600)' & wait"
    words = [sys.executable, "-c", "import os, sys; os.system(sys.argv[1])", other]
    env = {**os.environ, "SLURM_PROCID": "0", "TORCH_NCCL_TRACE_BUFFER_SIZE": "0"}  # WORLD_SIZE: none has it
    with started(words, env=env, start_new_session=True) as rank:
        (tmp_path / "pid").write_text(str(rank.pid))
        below = psutil.Process(rank.pid)
        wait_until(
            lambda: [sys.executable] in [each.cmdline()[:1] for each in below.children(recursive=True)],
            30,
            "both are there",
        )
        found = list(watched.look_at_runs(Installation.of(home, Setup.load(home))))
        os.killpg(rank.pid, signal.SIGKILL)
    assert [(each.state, each.text) for each in found] == [
        ("warning", "moe: PyTorch's Flight Recorder: TORCH_FR_BUFFER_SIZE is 0, so that nothing is recorded")
    ]


CHANNELS = """
[channels.mail]
type = "email"
smtp = "{mail}"
from = "w@x.test"
to = "a@x.test"
[channels.hook]
type = "webhook"
url = "{web}/hook/s3cret"
[channels.slack]
type = "slack"
webhook_url = "{web}/hook/s3cret"
[channels.am]
type = "alertmanager"
url = "{web}/s3cret"
[channels.status]
type = "statuslog"
path = "status.log"
"""


def test_servers_are_greeted_and_get_nothing(home: Home, mailbox: Mailbox, endpoint: WebServer) -> None:
    def found() -> list[tuple[str, str, str]]:
        scene = Installation.of(home, Setup.load(home))
        return [
            (each.state, each.text, each.fix) for each in delivery.look(scene) if each.topic == "channels"
        ]

    home.config.write_text(CHANNELS.format(mail=mailbox.url, web=endpoint.url))
    address = mailbox.url.removeprefix("smtp://")
    assert found() == [
        (FINE, f"mail: {address} greets us ('notify --test mail' sends one)", ""),
        (FINE, "hook: 127.0.0.1 answers ('notify --test hook' sends one)", ""),
        (FINE, "slack: 127.0.0.1 answers ('notify --test slack' sends one)", ""),
        (FINE, "am: 127.0.0.1 answers ('notify --test am' sends one)", ""),
        (FINE, "status: statuslog, on this machine", ""),
    ]
    assert mailbox.messages == []
    assert all("s3cret" not in request.path for request in endpoint.requests)
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    home.config.write_text(
        CHANNELS.format(mail=f"smtp://127.0.0.1:{closed}", web=f"http://127.0.0.1:{closed}")
    )
    relay = "or deliver from a machine that has a way out: watchdogd relay"
    mail, hook, *_ = found()
    assert mail == (
        BROKEN,
        f"mail: 127.0.0.1:{closed} cannot be reached: Connection refused",
        f"correct smtp; {relay}",
    )
    assert hook == (
        BROKEN,
        "hook: 127.0.0.1 cannot be reached: Connection refused",
        f"set https_proxy, where there is a proxy; {relay}",
    )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    home.config.write_text("[runs.moe]\npid_file = 'moe.pid'\n")
    return home


def test_what_hangs_or_cannot_be_looked_at_is_broken_and_the_rest_goes_on(home: Home) -> None:
    def hangs(scene: Installation) -> Iterator[Diagnosis]:
        yield fine("slow", "begun")
        time.sleep(3)

    def refused(scene: Installation) -> Iterator[Diagnosis]:
        raise OSError(errno.EACCES, "Permission denied", "/s/x")
        yield

    pieces = {"slow": hangs, "closed": refused, "good": lambda scene: iter([fine("good", "well")])}
    found = examine(home, pieces, deadline=0.5)
    assert [(each.topic, each.state) for each in found] == [
        ("slow", FINE),
        ("slow", BROKEN),
        ("closed", BROKEN),
        ("good", FINE),
    ]
    assert found[2].text == "/s/x: Permission denied"


def test_a_fault_of_ours_is_no_finding(home: Home) -> None:
    def faulty(scene: Installation) -> Iterator[Diagnosis]:
        raise ZeroDivisionError
        yield

    with pytest.raises(ZeroDivisionError):
        examine(home, {"x": faulty}, deadline=5.0)


def test_the_history_that_is_not_made_yet_and_one_that_cannot_be_opened(home: Home) -> None:
    pieces = {"history": home_storage.look_at_history}
    [none_yet] = examine(home, pieces)
    assert none_yet.state == FINE
    home.history.mkdir()
    [wrong] = examine(home, pieces)
    assert (wrong.state, wrong.topic) == (BROKEN, "history")
    home.history.rmdir()
    Store.open("sqlite:///history.db", home).close()
    assert [found.text for found in examine(home, pieces)] == ["it can be read"]


def test_a_broken_configuration_is_the_one_finding(home: Home) -> None:
    home.config.write_text("[daemn]\n")
    [found] = examine(home)
    assert found.state == BROKEN
    assert "did you mean 'daemon'" in found.text
