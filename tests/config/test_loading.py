"""config.toml: what is right is read, and what is wrong names file, key and the nearest right key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdogd.config.loading import load, parse, variables
from watchdogd.config.models import Config
from watchdogd.config.secret import Secret
from watchdogd.errors import ConfigError
from watchdogd.home.layout import Home
from watchdogd.notify.channels.email import EmailChannel
from watchdogd.notify.channels.slack import SlackChannel
from watchdogd.units import Amount

if TYPE_CHECKING:
    from collections.abc import Callable

PATH = Path("/home/a/.watchdogd/config.toml")


def test_an_empty_file_is_a_configuration() -> None:
    config = parse("", PATH)
    assert (config.daemon.interval, config.daemon.confirm, config.alerts.repeat_every) == (60.0, 2, 14400.0)


def test_units_lists_and_secrets_are_read() -> None:
    config = parse(
        """
        [channels.slack]
        type = "slack"
        webhook_url = "env:HOOK"
        rate = "30/m"
        [channels.mail]
        type = "email"
        smtp = ["smtp://a:25", "smtps://b:465"]
        from = "w@example.org"
        to = "team@example.org"
        [runs.big]
        stale_after = "auto"
        memory_free = "5%"
        quiet = [{ match = "saving", allow = "40m" }]
        on_gone = [{ resubmit = "train.slurm" }, "stacks"]
        [disks.scratch]
        path = "~/x"
        usable = "80%"
        growth = "8.64TB/d"
        """,
        PATH,
    )
    slack, mail = config.channels["slack"], config.channels["mail"]
    assert isinstance(slack, SlackChannel)
    assert slack.rate == 0.5
    assert isinstance(mail, EmailChannel)
    assert mail.to == ("team@example.org",)
    assert config.runs["big"].memory_free == Amount(share=0.05)
    assert config.runs["big"].quiet[0].allow == 2400
    assert config.disks["scratch"].growth == 10**8
    assert config.disks["scratch"].path.startswith("/")
    assert [str(secret) for _, secret in config.secrets()] == ["env:HOOK"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[runs.x]\nstale_afer = "3m"', "runs.x.stale_afer: unknown key; did you mean 'stale_after'?"),
        ("[daemon]\nconfim = 2", "daemon.confim: unknown key; did you mean 'confirm'?"),
        ("[deamon]\n", "deamon: unknown key; did you mean 'daemon'?"),
        ('[runs.x]\nstale_after = "3 apples"', "runs.x.stale_after: '3 apples' is no duration"),
        (
            '[channels.a]\ntype = "slak"',
            "channels.a: type must be one of alertmanager, apprise, con",
        ),
        ('[channels.a]\ntype = "slack"\nwebhok_url = "env:A"', "did you mean 'webhook_url'?"),
        ("[disks.d]\n", "disks.d.path: is missing"),
        ("[disks.d]\npath = 3", "disks.d.path: "),
        ('[alerts]\nchannels = ["x"]', "alerts.channels: there is no [channels.x]"),
        ('[runs.r]\nchannels = ["x"]', "runs.r.channels: there is no [channels.x]"),
        ("[a]\nb = = 2", "line 2"),
        ('[runs.x]\nprogress = "("', "runs.x.progress: '(' is no regular expression"),
        ('[runs.x]\nbackend = "process"', "needs pid_file or command"),
        (
            '[runs.x]\npid_file = "p"\non_hang = ["stacks", "requeue"]',
            'runs.x: on_hang: a plain process has no queue, so requeue cannot be done: write "cancel" or',
        ),
        (
            '[runs.x]\ncommand = "x"\non_gone = [{ requeue = { exclude = "suspects" } }]',
            "runs.x: on_gone: a plain process has no queue, so requeue with exclude cannot be done",
        ),
        (
            '[runs.x]\nbackend = "pbs"\non_gone = [{ resubmit = "train.sh" }]',
            "runs.x: on_gone: scripts are submitted to Slurm alone: write { exec",
        ),
        ('[channels.m]\ntype="email"\nsmtp="localhost"\nfrom="a"\nto="b"', "write smtp://host:25"),
        ('[channels.c]\ntype="console"\nrate="fast"', "write it as 1/s, 30/m or none"),
        ("[daemon]\ninterval = '0s'", "daemon.interval: "),
        ("runs = 3", "runs: "),
        ('[alerts]\nmaintenance = [{ cron = "x", fr = "2h" }]', "alerts.maintenance.0"),
    ],
)
def test_an_error_is_one_line_with_file_key_and_mend(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, PATH)
    message = str(caught.value)
    assert message.startswith(f"{PATH}: ")
    assert sentence in message
    assert "\n" not in message


@given(st.text(max_size=200))
def test_no_text_brings_the_reader_down(text: str) -> None:
    try:
        outcome: object = parse(text, PATH)
    except ConfigError as error:
        outcome = str(error)
    assert isinstance(outcome, Config) or (isinstance(outcome, str) and "\n" not in outcome)


def test_a_file_that_is_missing_or_no_utf8_is_told(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with pytest.raises(ConfigError, match=f"watchdogd --home {tmp_path} init"):
        load(home)
    home.config.write_bytes(b"a = '\xff'")
    with pytest.raises(ConfigError, match="UTF-8"):
        load(home)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (os.mkfifo, "no plain file"),
        (Path.mkdir, "no plain file"),
        (lambda path: path.symlink_to("/dev/zero"), "no plain file"),
        (lambda path: path.write_bytes(b"# a pasted log\n" * 100_000), "more than 1048576 bytes"),
    ],
    ids=["pipe", "folder", "device", "log"],
)
def test_what_is_no_small_plain_file_is_refused_at_once(
    tmp_path: Path, make: Callable[[Path], None], sentence: str
) -> None:
    home = Home(tmp_path)
    make(home.config)
    with pytest.raises(ConfigError, match=sentence):
        load(home)
    assert variables(home) == ()
    with pytest.raises(ConfigError, match=sentence):
        Secret(f"file:{home.config}").reveal()


def test_the_mark_that_editors_of_windows_put_first_is_no_part_of_a_file(tmp_path: Path) -> None:
    home, secret = Home(tmp_path), tmp_path / "hook"
    home.config.write_bytes(b"\xef\xbb\xbf[daemon]\r\nname = 'lab'\r\n")
    secret.write_bytes(b"\xef\xbb\xbfhttps://hooks.example.org/T0\r\n")
    secret.chmod(0o600)
    assert load(home).daemon.name == "lab"
    assert Secret(f"file:{secret}").reveal() == "https://hooks.example.org/T0"


def test_a_secret_never_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", "https://hooks.example.org/T0/B0/verysecret")
    text = '[channels.s]\ntype="slack"\nwebhook_url="env:HOOK"\n[channels.t]\ntype="webhook"\nurl="https://x/plainsecret"'
    config = parse(text, PATH)
    shown = repr(config) + str(config) + config.model_dump_json(fallback=str)
    assert "verysecret" not in shown
    assert "plainsecret" not in shown
    assert dict(config.secrets())["channels.s.webhook_url"].reveal().endswith("verysecret")


def test_a_secret_that_is_not_there_names_its_reference(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("NOPE", raising=False)
    config = parse(
        f'[channels.s]\ntype="webhook"\nurl="env:NOPE"\n[heartbeat]\nurl="file:{tmp_path}/none"', PATH
    )
    for _, secret in config.secrets():
        with pytest.raises(ConfigError, match=r"NOPE|none"):
            secret.reveal()
