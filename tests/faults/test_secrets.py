"""Secrets of every kind under a real daemon whose servers refuse and repeat them: they show nowhere."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import requests

from tests.faults.rig import UNWELL
from tests.lab.living import daemon_of, page, said, typed
from tests.servers.smtp import Mailbox, Security
from tests.servers.web import Answer, Request, WebServer
from tests.waiting import wait_until
from watchdogd.system import command

pytestmark = [
    pytest.mark.xdist_group("secrets"),  # one live home for all of them
    pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning"),  # apprise's own
]

CORE = "qanary7f3azx"
"""Stands in every secret, and nowhere else."""
CONFIG = """
[daemon]
interval = "1s"
confirm = 1
name = "bloom-watch"
[heartbeat]
url = "env:BEAT_SECRET"
[report]
path = "page.html"
every = "5s"
[prometheus]
textfile = "watchdogd.prom"
[channels.hook]
type = "webhook"
url = "{url}/open"
rate = "none"
[channels.slack]
type = "slack"
webhook_url = "env:SLACK_SECRET"
[channels.bot]
type = "slack"
bot_token = "file:{keys}/bot"
channel = "#training"
api = "{url}/api"
[channels.mail]
type = "email"
smtp = "smtp://127.0.0.1:{port}"
from = "watch@x.test"
to = ["a@x.test"]
user = "watch"
password = "file:{keys}/mail"
[channels.generic]
type = "webhook"
url = "file:{keys}/generic"
[channels.literal]
type = "webhook"
url = "{url}/{core}-literal"
[channels.apprise]
type = "apprise"
url = "file:{keys}/apprise"
[channels.manager]
type = "alertmanager"
url = "env:MANAGER_SECRET"
[channels.later]
type = "webhook"
relay = true
url = "env:RELAY_SECRET"
[channels.screen]
type = "console"
[checks.peek]
plugin = "peek"
every = "1m"
[runs.run-17]
job_name = "train"
log = "{disk}/train.log"
on_disk = ["stacks", {{ exec = ["{tools}/recorder"] }}]
"""
PLUGIN = """
import os
from watchdogd.plugin import check, ok
@check
def peek():
    open("{seen}/plugin", "w").write(str(dict(os.environ)) + open("/proc/self/environ").read())
    return ok("looked")
"""
WAYS = ("beat", "slack", "bot", "generic", "literal", "apprise", "ntfy", "manager")
VERBS = (
    "config",
    "config --json",
    "status",
    "status --json",
    "incidents --all",
    "incidents --all --json",
    "history",
    "history --json",
    "history --csv",
    "check",
    "check --json",
    "plugins --json",
    "outbox",
    "outbox --json",
    "notify --test",
    "notify --test --json",
    "doctor",
    "doctor --json",
    "backtest --since 1h",
    "export",
    "report -o -",
    "stacks run-17",
    "gpus run-17",
    "env run-17",
    "silence scratch --for 1h",
    "relay --patience 1s",
    "preflight --run run-17 --no-trial",
)


@dataclass(frozen=True, slots=True)
class Scene:
    """What was there and what came of it. `said` by what was typed; `processes` are the daemon's family with
    their arguments and environments; `ports` where one of them listened; `web` what the page's server said.
    """

    home: Path
    seen: Path
    said: dict[str, str]
    bodies: list[str]
    processes: dict[str, str]
    ports: list[str]
    web: dict[str, str]


def repeat(request: Request) -> Answer:
    """Refuse, with all that was sent; what is no secret's is taken."""
    if request.path == "/open":
        return Answer()
    return Answer(404, f"no {request.path} for {dict(request.headers)}")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    place = tmp_path_factory.mktemp("secrets")
    with WebServer() as server, Mailbox(place) as mailbox, pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "_withheld", set[str]())
        server.behave(repeat)
        mailbox.require(Security(login=("watch", "another"), repeats=True))
        home = _furnish(place, server, mailbox, patch)
        told = {"start": typed("start", "--local")}
        daemon = daemon_of(home)
        try:
            with _observed(daemon) as processes:
                wait_until(lambda: all(_asked(server, way) for way in WAYS), 90, "all ways were tried")
                wait_until(lambda: "535" in said("outbox"), 90, "the mail server refused", every=1)
                wait_until(lambda: (place / "seen/action").exists(), 90, "the action ran")
                wait_until(lambda: (home / "page.html").exists(), 90, "the page is written")
                told |= {words: said(*words.split()) for words in VERBS}
                web = _served()
                ports = [
                    where for each in (daemon, *daemon.children(recursive=True)) for where in _listening(each)
                ]
        finally:
            told["stop"] = typed("stop")
            daemon.wait(240)
        bodies = [request.body.decode() for request in server.requests]
    return Scene(home, place / "seen", told, bodies, processes, ports, web)


def _furnish(place: Path, server: WebServer, mailbox: Mailbox, patch: pytest.MonkeyPatch) -> Path:
    home, keys, tools, seen, disk = (place / name for name in ("home", "keys", "tools", "seen", "disk"))
    for folder in (keys, tools, seen, disk):
        folder.mkdir()
    host = server.url.removeprefix("http://")
    for name, text in {
        "bot": f"xoxb-{CORE}-bot",
        "mail": f"{CORE}-mail",
        "generic": f"http://watch:{CORE}-generic@{host}/hook?key=a%20{CORE}-generic",
        "apprise": f"json://watch:{CORE}-apprise@{host}/x ntfy://watch:{CORE}-ntfy@{host}/topic",
    }.items():
        (keys / name).write_text(text)
        (keys / name).chmod(0o600)
    (keys / "generic").chmod(0o644)
    for tool in ("squeue", "sinfo", "scontrol", "sacct", "sbatch", "srun", "scancel"):
        code = 0 if tool == "squeue" else 1  # the queue is empty
        (tools / tool).write_text(f'#!/bin/sh\n(echo "$@"; env) > {seen}/{tool}.$$\nexit {code}\n')
    (tools / "recorder").write_text(f"#!/bin/sh\n(env; cat) > {seen}/action\n")
    (disk / "train.log").write_text("iteration 1\n")
    patch.setenv("HOME", str(place))
    patch.setenv("PATH", f"{tools}:{Path(sys.executable).parent}:/usr/bin:/bin")
    patch.setenv("WATCHDOGD_HOME", str(home))
    patch.setenv("no_proxy", "127.0.0.1")
    typed("init")
    for name in ("BEAT", "SLACK", "MANAGER", "RELAY"):
        word = f"{CORE}-{name.lower()}"
        patch.setenv(f"{name}_SECRET", f"{server.url}/{word}/a%2Fb?token={word}")
    places = {"url": server.url, "keys": keys, "port": mailbox.port, "disk": disk, "tools": tools}
    (home / "config.toml").write_text((UNWELL + CONFIG).format(core=CORE, **places))
    (home / "plugins/peek.py").write_text(PLUGIN.format(seen=seen))
    (home / "cron.hourly/look").write_text(f"#!/bin/sh\nenv | tee {seen}/dropin\nexit 1\n")
    for program in (*tools.iterdir(), home / "cron.hourly/look"):
        program.chmod(0o755)
    return home


def _asked(server: WebServer, way: str) -> bool:
    """Whether a request bore this secret; logins come in base64."""
    words = (f"{CORE}-{way}", base64.b64encode(f"watch:{CORE}-{way}".encode()).decode())
    return any(word in f"{each.path} {each.headers}" for each in server.requests for word in words)


def _served() -> dict[str, str]:
    """What `web` listens on and answers."""
    with page() as (process, address), requests.Session() as browser:
        bare, _, token = address.partition("/?token=")
        return {
            "ports": " ".join(_listening(process)),
            "refused": str(requests.get(bare, timeout=60).status_code),
            "page": browser.get(address, timeout=60).text,
            "metrics": browser.get(f"{bare}/metrics?token={token}", timeout=60).text,
        }


def _listening(process: psutil.Process) -> list[str]:
    try:
        connections = process.net_connections("inet")
    except psutil.NoSuchProcess:
        return []  # it has ended
    return [each.laddr.ip for each in connections if each.status == psutil.CONN_LISTEN]


@contextlib.contextmanager
def _observed(daemon: psutil.Process) -> Iterator[dict[str, str]]:
    """The daemon's family while it lives: arguments and environments."""
    processes: dict[str, str] = {}
    over = threading.Event()
    own = _of(daemon.pid, "cmdline")
    processes[f"{daemon.pid} {own}"] = ""

    def look() -> None:
        for process in [daemon, *daemon.children(recursive=True)]:
            words = _of(process.pid, "cmdline")
            if words not in ("", own):  # between fork and exec a child is its parent still
                processes[f"{process.pid} {words}"] = _of(process.pid, "environ")

    def watch() -> None:
        while not over.wait(0.25):
            look()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield processes
    finally:
        over.set()
        watcher.join(240)


def _of(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""  # it has ended


def _needles() -> tuple[str, ...]:
    """The secrets' common part as it is and as base64 has it, wherever in a text it stands."""
    size = len(CORE)
    coded = [base64.b64encode(b"\0" * before + CORE.encode() + b"\0\0").decode() for before in range(3)]
    cut = [text[-(-before * 8 // 6) : (before + size) * 8 // 6] for before, text in enumerate(coded)]
    return (CORE, *cut)


NEEDLES = _needles()


def bare(text: str) -> str:
    """`text` around the first secret that it holds; empty where it holds none."""
    places = [at for needle in NEEDLES if (at := text.lower().find(needle.lower())) >= 0]
    return text[max(min(places) - 60, 0) : min(places) + 60] if places else ""


def test_a_secret_is_found_in_whatever_form() -> None:
    for word in (f"{CORE}-x", f"watch:{CORE}", f"\0watch\0{CORE}", f"a:{CORE}"):
        assert bare(f"no {base64.b64encode(word.encode()).decode()} here")
    assert bare("") == ""


@pytest.mark.parametrize("words", ["start", *VERBS, "stop"])
def test_no_verb_prints_one(scene: Scene, words: str) -> None:
    assert bare(scene.said[words]) == ""


def test_failures_are_told_all_the_same(scene: Scene) -> None:
    assert len(re.findall(r"answered 404: no \*\*\*\*", scene.said["notify --test"])) >= 3
    assert re.search(r"refused: 535 5\.7\.8 watch: not \*\*\*\*, \*\*\*\*", scene.said["notify --test"])
    assert "Traceback" not in "".join(scene.said.values())


def test_a_file_that_others_can_read_is_told(scene: Scene) -> None:
    for verb in ("start", "doctor"):
        said = "".join(scene.said[verb].split())
        assert re.search(r"channels\.generic\.url:secretfile\S+/keys/genericcanbereadbyeverybody", said), verb
        assert "/keys/botcanberead" not in said
        assert re.search(r"chmod600\S+/keys/generic", said), verb


def test_no_message_bears_one(scene: Scene) -> None:
    assert any("scratch" in body for body in scene.bodies)
    assert [found for found in map(bare, scene.bodies) if found] == []


def test_no_file_of_home_holds_one(scene: Scene) -> None:
    told = {"config.toml", ".config.good.toml"}  # one stands written out in there
    files = [Path(above, name) for above, _, names in os.walk(scene.home) for name in names]
    holding = {str(file): bare(file.read_text(errors="replace")) for file in files if file.name not in told}
    assert {"history.db", "status.json", "link.log", "page.html", "watchdogd.prom", "book.log"} <= {
        file.name for file in files
    }
    assert {file: found for file, found in holding.items() if found} == {}


def test_no_process_has_one(scene: Scene) -> None:
    """Neither in its arguments, which everybody can see, nor what the daemon starts in its environment."""
    assert any("watchdogd.daemon.workers.worker_main" in words for words in scene.processes)
    both = [f"{words}\n{environ}" for words, environ in scene.processes.items()]
    assert [found for found in map(bare, both) if found] == []


@pytest.mark.attack("look for the daemon's secrets")
def test_no_plugin_dropin_action_or_tool_gets_one(scene: Scene) -> None:
    seen = {path.name: path.read_text() for path in scene.seen.iterdir()}
    assert {"plugin", "dropin", "action", "squeue"} <= {name.partition(".")[0] for name in seen}
    assert {name: found for name, text in seen.items() if (found := bare(text))} == {}


def test_the_page_and_its_numbers_show_none(scene: Scene) -> None:
    assert "scratch" in scene.web["page"]
    assert "watchdogd_alive" in scene.web["metrics"]
    assert bare(scene.web["page"]) + bare(scene.web["metrics"]) == ""


def test_nothing_listens_but_the_page_and_that_on_loopback_with_a_token(scene: Scene) -> None:
    assert scene.ports == []
    assert (scene.web["ports"], scene.web["refused"]) == ("127.0.0.1", "401")


@pytest.mark.parametrize(
    "words", ["tick", "status --json", "config", "history", "incidents --json", "doctor"]
)
def test_the_password_of_a_database_that_is_away_shows_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setenv("WATCHDOGD_HOME", str(tmp_path / "home"))
    said("init")
    url = f"postgresql://watch:{CORE}@127.0.0.1:1/x"
    (tmp_path / "home/config.toml").write_text(f'[history]\nurl = "{url}"\n')
    assert bare(said(*words.split())) == ""
    holding = {file.name for file in tmp_path.rglob("*") if file.is_file() and CORE in file.read_text()}
    assert holding <= {"config.toml", ".config.good.toml"}
