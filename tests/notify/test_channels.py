"""Senders from the configuration, and what they need to be imported for."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.example import TARGET, rewritten
from watchdogd.config.channels import ChannelSection, channel_models
from watchdogd.config.loading import parse
from watchdogd.errors import ConfigError
from watchdogd.home.layout import Home
from watchdogd.notify import senders
from watchdogd.notify.channels.alertmanager import Alertmanager
from watchdogd.notify.channels.apprise import Apprise
from watchdogd.notify.channels.console import Console
from watchdogd.notify.channels.email import Mail
from watchdogd.notify.channels.slack import Bot, Webhook
from watchdogd.notify.channels.statuslog import Statuslog
from watchdogd.notify.channels.webhook import JsonWebhook

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # apprise's own

UNEXPLAINED = {"api"}
"""For tests, and for proxies of Slack: nobody else needs it."""

EVERYTHING = """
[daemon]
name = "bloom-watch"
[alerts]
channels = ["slack"]
fallback = ["mail"]
expire = "2h"
[channels.slack]
type = "slack"
webhook_url = "env:HOOK"
[channels.bot]
type = "slack"
bot_token = "env:TOKEN"
channel = "#alerts"
rate = "30/m"
[channels.mail]
type = "email"
smtp = ["smtp://localhost:25", "smtps://mail.example.org"]
from = "w@example.org"
to = "team@example.org"
[channels.hook]
type = "webhook"
url = "env:HOOK"
rate = "none"
[channels.am]
type = "alertmanager"
url = "env:HOOK"
[channels.pager]
type = "apprise"
url = "json://localhost"
[channels.console]
type = "console"
[channels.log]
type = "statuslog"
path = "logs/status.log"
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A folder for relative paths."""
    return Home(tmp_path)


def test_each_type_has_its_sender(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", "https://hooks.example.org/x")
    monkeypatch.setenv("TOKEN", "xoxb-1")
    made = senders.build(parse(EVERYTHING, home.config), home)
    kinds = {name: type(sender) for name, sender in made.items()}
    assert kinds == {
        "slack": Webhook,
        "bot": Bot,
        "mail": Mail,
        "hook": JsonWebhook,
        "am": Alertmanager,
        "pager": Apprise,
        "console": Console,
        "log": Statuslog,
    }
    for sender in made.values():
        sender.close()


def test_a_missing_secret_names_its_channel_and_nothing_else(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", "not-an-address-but-secret")
    monkeypatch.delenv("TOKEN", raising=False)
    with pytest.raises(ConfigError) as caught:
        senders.build(parse(EVERYTHING, home.config), home)
    assert str(caught.value).startswith("channels.slack: webhook_url of Slack is no address")
    monkeypatch.setenv("HOOK", "https://hooks.example.org/x")
    with pytest.raises(ConfigError, match=r"channels\.bot: environment variable TOKEN is not set"):
        senders.build(parse(EVERYTHING, home.config), home)


def test_the_policy_is_the_configured_one(home: Home) -> None:
    policy = senders.policy(parse(EVERYTHING, home.config))
    assert policy.expire == 7200
    assert policy.fallback == ("mail",)
    assert policy.tell == ("slack", "mail")
    assert policy.name == "bloom-watch"
    assert policy.rates["slack"] == 1.0
    assert policy.rates["bot"] == 0.5
    assert policy.rates["hook"] is None
    assert policy.rates["console"] is None


def test_without_a_web_channel_requests_is_not_imported() -> None:
    names = ("senders", "message_outbox", "dead_mans_switch")
    code = "import sys\n" + "".join(f"import watchdogd.notify.{name}\n" for name in names)
    code += "assert 'requests' not in sys.modules and 'smtplib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_the_example_explains_every_key_of_every_type() -> None:
    text = TARGET.read_text()
    assert text == rewritten(text), "the keys of a channel have changed: run scripts/example.py"
    common = set(ChannelSection.model_fields) - {"type"}
    for kind, model in channel_models():
        keys = {field.alias or name for name, field in model.model_fields.items()} - common
        assert keys - UNEXPLAINED <= set(re.findall(r"^(?:# )?(\w+) +=", model.example, re.MULTILINE)), kind
    assert common <= set(re.findall(r"^(\w+) =", ChannelSection.example, re.MULTILINE))
