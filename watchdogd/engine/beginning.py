"""The configuration with which somebody begins to watch, though an edit broke it since the last one did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.engine import goodconfig
from watchdogd.engine.setup import Setup
from watchdogd.errors import ConfigError

if TYPE_CHECKING:
    from watchdogd.home.layout import Home


def setup_of(home: Home, *, go_on: bool) -> tuple[Setup, str]:
    """Return the configuration and what is wrong with it.

    ConfigError where it is broken and there is no other. `go_on`: with the last good one, to report it,
    without the checks that fit no more (a plugin was removed).
    """
    try:
        return Setup.load(home), ""
    except ConfigError as error:
        config = goodconfig.last(home) if go_on else None
        if config is None:
            raise
        return Setup.of(config, home, whole=False), f"{error} (the last good configuration is kept)"
