"""Everything that follows from the configuration, as one value: built anew when config.toml changes."""

from __future__ import annotations

import shutil
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from watchdogd import config as configuration
from watchdogd.config import SlackChannel
from watchdogd.engine import checks as checks_module
from watchdogd.engine.catalog import discover
from watchdogd.engine.maintenance import Windows
from watchdogd.incident import Policy
from watchdogd.notify.message import Route, Rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchdogd.config import Config
    from watchdogd.engine.catalog import Entry
    from watchdogd.engine.checks import Check
    from watchdogd.home import Home

SELF = "watchdogd"
"""The check under which the daemon speaks of itself; its subjects are `SELF_SUBJECTS`."""
SELF_SUBJECTS = ("engine", "history", "config", "delivery", "workers", "chain", "home")


@dataclass(frozen=True, slots=True)
class Setup:
    """Configuration, plugins, checks, and how each check's results are judged and sent."""

    config: Config
    catalog: Mapping[str, Entry]
    checks: tuple[Check, ...]
    policies: Mapping[str, Policy]
    routes: Mapping[str, Route]
    maintenance: Windows
    rules: Rules

    @classmethod
    def load(cls, home: Home) -> Setup:
        """Read everything. ConfigError, one line, where something does not fit."""
        return cls.of(configuration.load(home), home)

    @classmethod
    def of(cls, config: Config, home: Home) -> Setup:
        """What follows from a configuration that was read."""
        catalog = discover(home)
        backend = "slurm" if shutil.which("squeue") else "none"
        checks = checks_module.build(config, catalog, home, backend)
        own = Policy(1, config.daemon.interval, config.alerts.repeat_every, config.alerts.escalate_after)
        return cls(
            config=config,
            catalog=catalog,
            checks=checks,
            policies={SELF: own} | {check.name: checks_module.policy(check, config) for check in checks},
            routes={SELF: Route(config.default_channels)}
            | {check.name: Route(check.channels, check.runbook) for check in checks},
            maintenance=Windows(config.alerts.maintenance),
            rules=Rules(
                channels=config.default_channels,
                escalate_to=config.alerts.escalate_to,
                digest_above=config.alerts.digest_above,
                threaded=frozenset(
                    name
                    for name, channel in config.channels.items()
                    if isinstance(channel, SlackChannel) and channel.bot_token
                ),
                name=config.daemon.name,
                host=socket.gethostname(),
            ),
        )

    @property
    def hidden(self) -> frozenset[str]:
        """Environment variables that hold secrets: no worker and no tool gets them."""
        return frozenset(secret.variable for _, secret in self.config.secrets() if secret.variable)
