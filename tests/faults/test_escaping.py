"""What comes from outside stays data: hostile texts by every way in, looked at by every way out."""

from __future__ import annotations

import getpass
import json
import os
import pty
import re
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from tests.lab.living import daemon_of, page, said, typed
from tests.lab.processes import started
from tests.servers.slack import SlackServer
from tests.servers.smtp import Mail, Mailbox
from tests.servers.web import WebServer
from tests.waiting import wait_until
from watchdogd.batch import squeue
from watchdogd.batch.slurmtext import FIELD, RECORD
from watchdogd.system import command
from watchdogd.system.pathname import file_name

pytestmark = pytest.mark.xdist_group("escaping")  # one live home for all of them

PRINTABLE = (
    "<!channel> <@U024BE7LH> <https://evil.test|click> & &lt; [red]x[/red] [link=https://evil.test]y[/link] "
    "<script>alert(1)</script><img src=x onerror=alert(1)> %s%n%(x)s {0} {x.__class__} $(touch gone) "
    "`touch gone` ;touch gone '\" | =?utf-8?q?=1Bx=0D=0ABcc:_eve=40evil.test?="
)
ODD = (
    "\x1b[38;5;199mred \x1b]0;title\x07 \x1b]8;;http://evil.test\x1b\\link\x1b]8;;\x1b\\ "
    "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x9b31m\x85\x90q\x9c \u202egnp.exe\u2066 \u2028 \u200f "
    "\x07\x08\r\nBcc: eve@evil.test\r\n\r\n<b>"
)
EVIL = f"{ODD} {PRINTABLE}"
NAMES = (
    "../../up",
    "/absolute",
    "-rf",
    ".hidden",
    "$(touch gone)",
    "[red]x[/red] {0} %s <img src=x onerror=a()>",
)
"""Of runs: all that configuration lets through."""
SUBJECT = "../../sub<script>\x1b[31m"
CONFIG = """
[daemon]
interval = "1s"
confirm = 1
name = {name}
[report]
path = "page.html"
every = "5s"
[channels.hook]
type = "webhook"
url = "{url}/hook"
rate = "none"
[channels."../../<manager>"]
type = "alertmanager"
url = "{url}"
rate = "none"
[channels.slack]
type = "slack"
webhook_url = "{slack}"
rate = "none"
[channels.bot]
type = "slack"
bot_token = "{token}"
channel = "#training"
api = "{api}"
rate = "none"
[channels.mail]
type = "email"
smtp = "{smtp}"
from = "watch@x.test"
to = ["a@x.test"]
rate = "none"
[channels.screen]
type = "console"
[channels.book]
type = "statuslog"
path = "book.log"
[checks.evil]
plugin = "evil"
every = "1m"
[disks.{name}]
path = {disk}
quota = "statvfs"
crit_free = "900PB"
[runs.go]
job_name = {name}
log = {log}
must_not_see = ["SEEN"]
on_disk = [{{ exec = ["{tools}/recorder"] }}]
[runs.waits]
job_name = "waits"
"""
PLUGIN = """
from watchdogd.plugin import check, critical, notice, Metric
@check
def evil(memory):
    odd = {{"a<b>": Metric(1.0, "<u>\\x1b[31m")}}
    yield critical({evil!r}, details={evil!r}, subject={subject!r}, **odd)
    if not memory:
        for label in ("INFO", "WARNING", {evil!r}):
            yield notice(f"noted {{label}} " + {evil!r}, details={evil!r}, label=label)
    memory["told"] = "x"
"""
DROPIN = """#!{python}
import sys
evil = {evil!r}
perf = evil.replace("'", "''").replace("\\n", " ").replace("\\r", "")
sys.stdout.buffer.write(f"{{evil}}\\0 | '{{perf}}'=1;2;3 plain=5<script>\\n{{evil}}\\n".encode())
sys.exit(2)
"""
SQUEUE = """#!{python}
import sys
sys.stdout.buffer.write({text!r}.encode())
"""
VERBS: tuple[tuple[str, ...], ...] = (
    ("status",),
    ("incidents", "--all"),
    ("history",),
    ("history", "--csv"),
    ("check",),
    ("check", "go/log_staleness"),
    ("outbox",),
    ("config",),
    ("plugins",),
    ("doctor",),
    ("backtest", "--since", "1h"),
    ("gpus", "go"),
    ("kill-switch", "go", "--show"),
    ("tick",),
    ("check", EVIL),
    ("silence", EVIL, "--for", "1h"),
    (EVIL,),
)
SHOWN: tuple[tuple[str, ...], ...] = (("status",), ("incidents", "--all"), ("check",))
"""On a terminal."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What came of it; `said` by what was typed, `shown` the same on a terminal."""

    place: Path
    home: Path
    said: dict[tuple[str, ...], str]
    shown: dict[tuple[str, ...], str]
    hooks: list[str]
    slack: list[dict[str, Any]]
    mails: list[Mail]
    page: str
    metrics: str
    before: set[Path]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    place = tmp_path_factory.mktemp("escaping")
    (place / "mail").mkdir()
    with (
        WebServer() as server,
        SlackServer() as slack,
        Mailbox(place / "mail") as mailbox,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(command, "_withheld", set[str]())
        home = _furnish(place, server, slack, mailbox, patch)
        before = set(place.rglob("*"))
        typed("start", "--local")
        daemon = daemon_of(home)
        try:
            wait_until(lambda: _arrived(mailbox, home, place), 90, "all of it is told by mail", every=0.3)
            told = {words: said(*words) for words in VERBS}
            for name in NAMES:
                said("kill-switch", "--reason", EVIL, "--", name)
                said("finish", "--", name)
            shown = {words: _on_a_terminal(words) for words in SHOWN}
            with page() as (_, address), requests.Session() as browser:
                live = browser.get(address, timeout=60).text
                metrics = browser.get(address.replace("/?", "/metrics?"), timeout=60).text
        finally:
            typed("stop")
            daemon.wait(240)
        return Scene(
            place, home, told, shown, [request.body.decode() for request in server.requests],
            [dict(each.payload) for each in slack.messages], mailbox.messages, live, metrics, before,
        )  # fmt: skip


def _furnish(
    place: Path, server: WebServer, slack: SlackServer, mailbox: Mailbox, patch: pytest.MonkeyPatch
) -> Path:
    home, tools, disk = place / "home", place / "tools", place / "disk <!here> $(touch gone) %s {0}"
    for folder in (tools, disk):
        folder.mkdir()
    (disk / "train.log").write_text(f"iteration 1 {EVIL}\nSEEN {EVIL}\n")
    patch.setenv("HOME", str(place))
    patch.setenv("PATH", f"{tools}:{Path(sys.executable).parent}:/usr/bin:/bin")
    patch.setenv("WATCHDOGD_HOME", str(home))
    patch.setenv("no_proxy", "127.0.0.1")
    patch.chdir(place)
    typed("init")
    config = CONFIG.format(
        name=json.dumps("a <b> & [red]x[/red] {0} %s"), url=server.url, slack=slack.url, token=slack.token,
        api=slack.api, smtp=mailbox.url, disk=json.dumps(str(disk)), log=json.dumps(f"{disk}/train.log"),
        tools=tools,
    )  # fmt: skip
    runs = "".join(f'[runs.{json.dumps(name)}]\nabsent_after = "1s"\n' for name in NAMES)
    (home / "config.toml").write_text(config + runs)
    (home / "plugins/evil.py").write_text(PLUGIN.format(evil=EVIL, subject=SUBJECT))
    every = home / "cron.hourly"
    programs = {
        every / "-look<b>[red] $(touch gone)": DROPIN.format(python=sys.executable, evil=EVIL),
        tools / "squeue": SQUEUE.format(python=sys.executable, text=_queue()),
        tools / "recorder": f"#!/bin/sh\nenv > {place}/action.env\ncat > {place}/action.json\n",
        **{tools / name: "#!/bin/sh\nexit 1\n" for name in ("sinfo", "scontrol", "sacct", "sbatch", "srun")},
    }
    for path, text in programs.items():
        path.write_text(text)
        path.chmod(0o755)
    return home


def _queue() -> str:
    """Two jobs of ours as squeue prints them: one runs on a node of a strange name, one waits for ever."""
    letters = re.findall(r"%(.)", squeue.FORMAT)
    texts = {
        "a": EVIL,
        "E": EVIL,
        "Z": EVIL,
        "k": EVIL,
        "P": "small",
        "u": getpass.getuser(),
        "l": "1:00:00",
        "D": "1",
    }
    fields = texts | {"V": "1795825721", "S": "1795825722", "e": "1995825721"}
    jobs = (
        fields
        | dict.fromkeys("iAF", "7")
        | {"T": "RUNNING", "r": "None", "N": EVIL, "j": "a <b> & [red]x[/red] {0} %s"},
        fields
        | dict.fromkeys("iAF", "8")
        | {"T": "PENDING", "r": f"JobHeldUser {EVIL}", "N": "", "j": "waits"},
    )
    return "".join(RECORD + FIELD.join(job.get(letter, "") for letter in letters) + "\n" for job in jobs)


def _arrived(mailbox: Mailbox, home: Path, place: Path) -> bool:
    """Whether the plugin's, the drop-in's, the log's, the disk's and the queue's fault are told."""
    subjects = " ".join(str(mail.message["Subject"]) for mail in mailbox.messages)
    ways = ("evil", "cron.hourly", "go:", "waits:", "a <b>", "-rf:", "../../up:")
    return (
        all(way in subjects for way in ways)
        and (place / "action.json").exists()
        and (home / "page.html").exists()
    )


def _on_a_terminal(words: tuple[str, ...]) -> str:
    """What a verb writes to a terminal."""
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "watchdogd", *words]
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"}
    with started(argv, stdout=theirs, stderr=theirs, env=env):
        os.close(theirs)
        found = b""
        try:
            while chunk := os.read(ours, 65536):
                found += chunk
        except OSError:  # so Linux says that the other end is closed
            os.close(ours)
    return found.decode().replace("\r\n", "\n")


def odd(text: str) -> list[str]:
    """The characters that a terminal obeys, or that turn a text around."""
    marks = {"\u200e", "\u200f", "\u061c", *map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))}
    return sorted(
        {
            f"{character!r} in {text[max(at - 30, 0) : at + 10]!r}"
            for at, character in enumerate(text)
            if character not in "\n\t"
            and (unicodedata.category(character) in ("Cc", "Zl", "Zp") or character in marks)
        }
    )


class Tags(HTMLParser):
    """The elements of a page, and what of them would run or fetch something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.active: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.active += [f"{tag} {name}" for name, _ in attrs if name.startswith("on")]
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action")]


@pytest.mark.parametrize("words", VERBS, ids=lambda words: " ".join(words)[:20].replace("\x1b", ""))
def test_a_console_gets_no_escape(scene: Scene, words: tuple[str, ...]) -> None:
    assert odd(scene.said[words]) == []


def test_it_is_shown_as_it_is(scene: Scene) -> None:
    told = scene.said["incidents", "--all"]
    for part in ("<!channel>", "[red]x[/red]", "<script>alert(1)</script>", "%s%n%(x)s", "{x.__class__}"):
        assert part in told


@pytest.mark.attack("write escapes for a terminal")
@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_a_terminal_gets_our_colours_alone(scene: Scene, words: tuple[str, ...]) -> None:
    shown = scene.shown[words]
    assert "\x1b[38;5;199m" not in shown
    assert odd(re.sub(r"\x1b\[[0-9;]*m", "", shown)) == []
    assert "[red]" in re.sub(r"\x1b\[[0-9;]*m", "", shown)


@pytest.mark.attack("write mentions and links for Slack")
def test_slack_shows_no_mention_or_link(scene: Scene) -> None:
    texts = [text for payload in scene.slack for text in _texts(payload)]
    assert any("&lt;!channel&gt;" in text for text in texts)
    assert [text for text in texts if re.search(r"[<>]", text)] == []
    assert [found for text in texts for found in odd(text)] == []
    assert [text for text in texts if re.search(r"&(?!amp;|lt;|gt;)", text)] == []


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


@pytest.mark.attack("write a mail's head, or HTML into a mail")
def test_no_mail_has_a_head_or_an_element_of_theirs(scene: Scene) -> None:
    known = {
        "From", "To", "Subject", "Date", "Message-ID", "In-Reply-To", "References", "Auto-Submitted",
        "MIME-Version", "Content-Type",
    }  # fmt: skip
    for mail in scene.mails:
        assert set(mail.message.keys()) <= known
        assert mail.recipients == ("a@x.test",)
        assert odd(str(mail.message["Subject"])) == []
        plain, rich = (mail.message.get_body([kind]) for kind in ("plain", "html"))
        assert plain
        assert rich
        tags = Tags(rich.get_content())
        assert (set(tags.names) <= {"html", "body", "h3", "p", "pre", "br"}, tags.active) == (True, [])
        assert odd(plain.get_content().replace("\r\n", "\n")) == []
    assert any("<script>alert(1)</script>" in str(mail.message.get_body(["plain"])) for mail in scene.mails)


def test_a_webhook_gets_plain_texts(scene: Scene) -> None:
    bodies = [json.loads(body) for body in scene.hooks if body]
    assert any("<!channel>" in text for body in bodies for text in _texts(body))
    assert [found for body in bodies for text in _texts(body) for found in odd(text)] == []


def test_logs_have_one_line_a_line(scene: Scene) -> None:
    for path in (scene.home / "book.log", *(scene.home / "logs").iterdir()):
        assert odd(path.read_text()) == [], path
    lines = (scene.home / "book.log").read_text().splitlines()
    assert [line for line in lines if not re.match(r"\d+ [A-Z][a-z]{2} [\d:]{8} \S+ \[[A-Z]+\] ", line)] == []


@pytest.mark.attack("write scripts and elements into the page")
@pytest.mark.parametrize("which", ["live", "report"])
def test_a_page_has_no_element_of_theirs(scene: Scene, which: str) -> None:
    text = scene.page if which == "live" else (scene.home / "page.html").read_text()
    tags = Tags(text)
    assert "&lt;script&gt;alert(1)" in text
    assert "<script>alert" not in text
    assert not {"img", "u", "iframe", "object"} & set(tags.names)
    ours = "data:application/json,%7B"  # an incident's JSON, to be downloaded: data, whatever stands in it
    theirs = [link for link in tags.links if "evil" in link and not link.startswith(ours)]
    assert (tags.active, theirs) == ([], [])
    assert odd(re.sub(r"(?s)<script>.*?</script>|<style>.*?</style>", "", text)) == []


@pytest.mark.attack("break Prometheus's format")
def test_metrics_can_be_read(scene: Scene) -> None:
    families = list(text_string_to_metric_families(scene.metrics))
    labels = [value for family in families for sample in family.samples for value in sample.labels.values()]
    assert any("[red]x[/red]" in value for value in labels)
    assert odd("".join(labels)) == []
    assert all(family.name.startswith("watchdogd_") for family in families)


@pytest.mark.attack("name a path, an option or a command")
def test_nothing_is_run_and_nothing_lies_elsewhere(scene: Scene) -> None:
    """Names lead out of no folder, and no text is a command."""
    ours = ("home", "mail", "action.env", "action.json")
    new = {path.relative_to(scene.place) for path in set(scene.place.rglob("*")) - scene.before}
    assert {str(path) for path in new if path.parts[0] not in ours} == set()
    assert not list(scene.place.rglob("gone"))
    assert not (scene.place.parent / "up.json").exists()
    for name in NAMES:
        for ending in ("json", "kill", "finished"):
            assert (scene.home / "switches" / f"{file_name(name)}.{ending}").is_file(), (name, ending)
    assert all(path.name.isdecimal() for path in (scene.home / "evidence").iterdir())


def test_an_action_gets_the_text_as_data(scene: Scene) -> None:
    incident = json.loads((scene.place / "action.json").read_text())
    assert "disk <!here> $(touch gone) %s {0}" in "; ".join([incident["summary"], *incident["facts"]])
    assert "evil" not in (scene.place / "action.env").read_text()
