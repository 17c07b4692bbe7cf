"""What people change under a running daemon: config.toml, home's plugins, the drop-in folders."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from watchdogd import misfit
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
        self._laid_out = False
        self._dropins_seen: tuple[tuple[str, dropins.Stamp], ...] = ()
        self._dropins_patient = Patient(f"what lies in the drop-in folders of {home.path}")

    def config(self, setup: Setup) -> Setup:
        """`setup` itself where nothing changed, else that of the new configuration.

        A broken edit keeps the last good one. RUN.json and the good copy are laid out on the way; where home
        does not take them, that is tried again, and the new configuration counts all the same.
        """
        wrong: tuple[str, ...] = ()
        try:
            seen, wrong = self._patient.attempt(self._look)
            if seen != self._config_seen:
                setup = self._loaded(setup) if self._config_seen else setup
                self._config_seen, self._laid_out = seen, False
            if not self._laid_out:
                self._patient.attempt(partial(self._lay_out, setup))
        except (WatchdogError, OSError) as error:
            wrong = wrong or (f"{self._home.path} {self._what_is_wrong(error)}",)
        if wrong:
            self._troubles["home"] = "; ".join(wrong)
        return setup

    def _loaded(self, setup: Setup) -> Setup:
        """The new configuration; `setup` where an edit broke it."""
        try:
            setup = self._patient.attempt(partial(Setup.load, self._home))
            self._troubles["config"] = ""
        except ConfigError as error:
            self._troubles["config"] = f"{error} (the last good configuration is kept)"
            log.warning("%s", self._troubles["config"])
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
            if seen == self._dropins_seen and setup.looked:
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

    def _look(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """The signature of what is configured, and what lies in a wrong place."""
        seen = _signature(self._home)
        if restored := misfit.restore(self._home):
            log.warning("made anew in %s, where they were missing: %s", self._home.path, ", ".join(restored))
            self._laid_out = False
        return seen, misfit.misfits(self._home)

    def _lay_out(self, setup: Setup) -> None:
        handout.lay_out(self._home, setup.config, setup.checks)
        if not self._troubles["config"]:
            goodconfig.keep(self._home)
        self._laid_out = True


def _signature(home: Home) -> tuple[int, ...]:
    """What changes when config.toml or a plugin of home's own is edited, or its rights are."""
    paths = [home.config, *sorted(home.plugins.glob("*.py"))]
    return tuple(number for path in paths for number in (path.stat().st_ctime_ns, path.stat().st_size))
