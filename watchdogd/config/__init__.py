"""config.toml as values. Durations are seconds, sizes bytes, paths absolute (relative ones hang on home)."""

from watchdogd.config.channels import (
    AlertmanagerChannel,
    AppriseChannel,
    Channel,
    ConsoleChannel,
    EmailChannel,
    SlackChannel,
    StatuslogChannel,
    WebhookChannel,
)
from watchdogd.config.reading import absolute, load, parse, personal, variables
from watchdogd.config.sections import CheckSection, Config, Maintenance
from watchdogd.config.targets import DiskSection, RunSection

__all__ = [
    "AlertmanagerChannel",
    "AppriseChannel",
    "Channel",
    "CheckSection",
    "Config",
    "ConsoleChannel",
    "DiskSection",
    "EmailChannel",
    "Maintenance",
    "RunSection",
    "SlackChannel",
    "StatuslogChannel",
    "WebhookChannel",
    "absolute",
    "load",
    "parse",
    "personal",
    "variables",
]
