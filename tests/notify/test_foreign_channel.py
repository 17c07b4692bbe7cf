"""A type of channel from outside: docs/channels.md followed, with real packages in a temporary folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.docs.pages import FOLDER, steps
from tests.lab.dog import Dog
from tests.servers.web import Answer, Request, WebServer

CONFIG = """
[alerts]
channels = ["phone"]
fallback = ["status"]
[channels.phone]
type = "gotify"
url = "{url}"
token = "env:GOTIFY_TOKEN"
urgent = 9
rate = "none"
only = ["CRITICAL"]
[channels.status]
type = "statuslog"
path = "alerts.log"
[disks.full]
path = "/"
quota = "statvfs"
crit_free = "100%"
checks.disk_quota = {{ confirm = 1 }}
"""
BROKEN = {
    "raises": "raise RuntimeError('no such library')",
    "ends": "import sys; sys.exit(3)",
    "other": "Pigeon = 17",
    "plain": "class Pigeon: pass",
}
ASKED = """
import json, sys
from pathlib import Path
from watchdogd.config.loading import parse
from watchdogd.daemon.misplaced_keys import explained
from watchdogd.errors import ConfigError, UnknownKeyError
def said(text):
    try:
        parse(text, Path("/h/config.toml"))
    except UnknownKeyError as error:
        return str(explained(error))
    except ConfigError as error:
        return str(error)
    return ""
print(json.dumps([said(text) for text in sys.argv[1:]]))
"""


def _written(folder: Path) -> Path:
    """The page's files below a folder; returns that of the package."""
    for step in steps(FOLDER / "channels.md"):
        path = folder / step.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(step.text)
    return folder / "watchdogd-gotify"


def _register(site: Path, points: str) -> None:
    """What an installer leaves of a package with these entry points."""
    about = site / "pigeon-1.dist-info"
    about.mkdir(parents=True)
    about.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: watchdogd-pigeon\nVersion: 1\n")
    about.joinpath("entry_points.txt").write_text(f"[watchdogd.channels]\n{points}\n")


def _dog(home: Path, site: Path) -> Dog:
    made = Dog(home)
    made.env |= {"PYTHONPATH": str(site), "GOTIFY_TOKEN": "t0ken-4711"}
    return made


def _posted(server: WebServer) -> list[Request]:
    return [request for request in server.requests if request.method == "POST"]


def _tried(dog: Dog) -> list[str]:
    """What doctor says of the channels."""
    return [each["text"] for each in dog.json("doctor")["findings"] if each["topic"] == "channels"]


def test_every_verb_knows_the_channel_of_another_package(tmp_path: Path, endpoint: WebServer) -> None:
    assert "pip install ./watchdogd-gotify" in (FOLDER / "channels.md").read_text()
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation"]
    words = [*pip, "--target", str(tmp_path / "site"), str(_written(tmp_path))]
    env = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    dog = _dog(tmp_path / "home", tmp_path / "site")
    dog.settle(CONFIG.format(url=endpoint.url))
    shown = dog("config").stdout
    assert 'channels.phone.type = "gotify"' in shown
    assert "channels.phone.urgent = 9" in shown
    assert "env:GOTIFY_TOKEN" in shown
    assert '# token = "file:~/.gotify-token"' in dog("config", "--example").stdout

    assert "phone: 127.0.0.1 answers ('notify --test phone' sends one)" in _tried(dog)
    assert not _posted(endpoint)

    assert dog("notify", "--test", "phone").stdout == "phone: delivered\n"
    [sent] = _posted(endpoint)
    assert sent.headers["x-gotify-key"] == "t0ken-4711"
    assert sent.path == "/message"

    endpoint.behave(lambda request: Answer(503, f"not now, {request.headers['x-gotify-key']}"))
    assert dog("tick").returncode == 0
    [row] = dog.json("outbox")  # CRITICAL waits for it; what is INFO does not go there
    assert (row["channel"], row["state"]) == ("phone", "waiting")
    assert "answered 503: not now, ****" in row["failure"]  # by Web, which masks the token
    endpoint.behave(None)
    assert (
        "phone: delivered: [CRITICAL] full:"
        in dog("relay", "phone", "--patience", "60s", "--every", "0.2s").stdout
    )
    assert _posted(endpoint)[-1].json()["title"].startswith("[CRITICAL] full:")
    assert _posted(endpoint)[-1].json()["priority"] == 9


Complaints = Callable[[Mapping[str, str], str, Sequence[str]], list[str]]


@pytest.fixture
def complaints(tmp_path: Path) -> Complaints:
    """What is said of each configuration, where these modules are installed with these entry points."""

    def asked(modules: Mapping[str, str], points: str, configs: Sequence[str]) -> list[str]:
        _register(tmp_path / "site", points)
        for name, code in modules.items():
            (tmp_path / f"site/{name}.py").write_text(code)
        env = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
        words = [sys.executable, "-c", ASKED, *configs]
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return list(json.loads(done.stdout))

    return asked


def test_its_keys_are_checked_as_our_own(complaints: Complaints, tmp_path: Path) -> None:
    code = (_written(tmp_path) / "watchdogd_gotify.py").read_text()
    cases = {
        ("urgent", "urgend"): "channels.phone.urgend: unknown key; did you mean 'urgent'?",
        ("urgent = 9", 'urgent = "very"'): "channels.phone.urgent: must be a whole number",
        ('token = "env:GOTIFY_TOKEN"\n', ""): "channels.phone.token: is missing",
        ('"gotify"', '"gotifi"'): "slack, statuslog, webhook, gotify; did you mean 'gotify'?",
        ("[disks.full]", "[disks.full]\nurgent = 3"): 'its place is [channels.NAME] urgent (type = "gotify")',
        ("9\n", "9\n"): "",
    }
    configs = [CONFIG.format(url="http://127.0.0.1:9").replace(*change) for change in cases]
    said = complaints({"gotify": code}, "gotify = gotify:GotifyChannel", configs)
    for sentence, complaint in zip(cases.values(), said, strict=True):
        assert sentence in complaint
        assert "\n" not in complaint
    assert said[-1] == ""


def test_a_package_that_cannot_be_loaded_is_one_line_and_in_nobodys_way(complaints: Complaints) -> None:
    points = "\n".join(f"{kind} = {kind}:Pigeon" for kind in BROKEN)
    configs = [f'[channels.p]\ntype = "{kind}"' for kind in BROKEN]
    console = '[channels.p]\ntype = "console"\n'
    *said, misspelt, good = complaints(BROKEN, points, [*configs, f"{console}url = 3", console])
    for kind, complaint in zip(BROKEN, said, strict=True):
        assert f"channels.p: type '{kind}' of the package watchdogd-pigeon" in complaint
        assert "\n" not in complaint
    assert "channels.p.url: unknown key; its place is" in misspelt  # which asks all types
    assert good == ""


def test_what_fails_within_stops_nothing_else(tmp_path: Path) -> None:
    code, site = (_written(tmp_path) / "watchdogd_gotify.py").read_text(), tmp_path / "site"
    _register(site, "gotify = late:GotifyChannel")
    (site / "late.py").write_text(code.replace("from watchdogd.notify.http_client", "from no_such_library"))
    dog = _dog(tmp_path / "home", site)
    dog.settle(CONFIG.format(url="http://127.0.0.1:9"))
    failed = (
        "phone: its connectivity test failed within: ModuleNotFoundError: No module named 'no_such_library'"
    )
    assert {failed, "status: statuslog, on this machine"} <= {*_tried(dog)}
    told = json.loads(dog("notify", "--test", "--json").stdout)
    assert [each["delivered"] for each in told] == [False, True]
    assert "failed within: ModuleNotFoundError" in told[0]["trouble"]
    assert "channels.phone: it failed within" in dog("tick").stderr
