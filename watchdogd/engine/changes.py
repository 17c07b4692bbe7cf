"""What people change under a running daemon: config.toml, home's plugins, the drop-in folders."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from watchdogd.engine import dropins, goodconfig, handout
from watchdogd.engine.patient import Patient
from watchdogd.engine.setup import Setup
from watchdogd.errors import ConfigError, WatchdogError

if TYPE_CHECKING:
    from watchdogd.home import Home

log = logging.getLogger(__name__)


class Changes:
    """Notices changes by the files' times and sizes. What is wrong is written into `troubles`, by subject."""

    def __init__(self, home: Home, patient: Patient, troubles: dict[str, str]) -> None:
        self._home = home
        self._patient = patient
        self._troubles = troubles
        self._config_seen: tuple[int, ...] = ()
        self._dropins_seen: tuple[tuple[str, dropins.Stamp], ...] = ()
        self._dropins_patient = Patient(f"what lies in the drop-in folders of {home.path}")

    def config(self, setup: Setup) -> Setup:
        """`setup` itself where nothing changed, else that of the new configuration.

        A broken edit keeps the last good one. RUN.json and the good copy are laid out on the way.
        """
        try:
            return self._patient.attempt(partial(self._config, setup))
        except ConfigError as error:
            self._troubles["config"] = f"{error} (the last good configuration is kept)"
            log.warning("%s", self._troubles["config"])
        except (WatchdogError, OSError) as error:
            self._troubles["home"] = f"{self._home.path} {self._what_is_wrong(error)}"
        return setup

    def _what_is_wrong(self, error: Exception) -> str:
        if not isinstance(error, FileNotFoundError):
            return f"cannot be used: {error}"
        if self._home.path.exists():
            return "has no config.toml any more: put it back (the last good configuration is kept)"
        return "is gone: was it moved or removed, or is its file system not mounted?"

    def dropins(self, setup: Setup) -> Setup:
        """Likewise for the drop-in folders: what was dropped in has a check from now on."""
        try:
            seen = self._dropins_patient.attempt(partial(dropins.stamps, self._home))
            if seen == self._dropins_seen:
                self._troubles["drop-ins"] = ""
                return setup
            found = self._dropins_patient.attempt(partial(dropins.look, self._home))
        except (WatchdogError, OSError) as error:
            self._troubles["drop-ins"] = f"the drop-in folders cannot be looked at: {error}"
            return setup
        self._troubles["drop-ins"] = ""
        self._dropins_seen = seen
        for dropin in found:
            if not dropin.runs:
                log.info("drop-in %s does not run: %s", dropin.name, dropin.skipped or dropin.refused)
        return setup.with_dropins(found, self._home)

    def close(self) -> None:
        """Let the thread end that looks at the drop-in folders."""
        self._dropins_patient.close()

    def _config(self, setup: Setup) -> Setup:
        seen = _signature(self._home)
        if seen == self._config_seen:
            return setup
        first, self._config_seen = not self._config_seen, seen
        if not first:
            setup = Setup.load(self._home)
            self._troubles["config"] = ""
        handout.lay_out(self._home, setup.config, setup.checks)
        if not self._troubles["config"]:
            goodconfig.keep(self._home)
        return setup


def _signature(home: Home) -> tuple[int, ...]:
    """What changes when config.toml or a plugin of home's own is edited, or its rights are."""
    paths = [home.config, *sorted(home.plugins.glob("*.py"))]
    return tuple(number for path in paths for number in (path.stat().st_ctime_ns, path.stat().st_size))
