"""Changes to config.toml, home's plugins and the drop-in folders while the daemon runs.

After a change, switches/RUN.json, from which a training loop learns its switches, is written again.
"""

from __future__ import annotations

import contextlib
import grp
import json
import logging
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

from watchdogd.config import last_good_config
from watchdogd.config.loading import empty_config
from watchdogd.config.models import Config
from watchdogd.daemon.dropins import dropins
from watchdogd.daemon.dropins.dropins import DropIn
from watchdogd.daemon.registry.check_factory import Check
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.trouble import Trouble, TroubleKind
from watchdogd.errors import ConfigError, Problem, UnknownKeyError, WatchdogError
from watchdogd.home import layout
from watchdogd.home.layout import Home
from watchdogd.plugin import Run
from watchdogd.system.bounded_io import BoundedIO
from watchdogd.system.pathname import file_name
from watchdogd.system.smallfile import NoPlainFileError, read_head, read_plain
from watchdogd.system.text import one_line


def lay_out(home: Home, config: Config, checks: tuple[Check, ...]) -> None:
    """Write switches/RUN.json of every run where its content differs. OSError.

    An unchanged one older than config.toml gets a new time, by which `switch_places` knows that it is
    current.
    """
    edited = home.config.stat().st_ctime_ns
    runs = {check.run.name: check.run for check in checks if check.run}
    for run in runs.values():
        path = home.switches / f"{file_name(run.name)}.json"
        text = json.dumps(_places(home, config, run), indent=1) + "\n"
        if _text(path, len(text)) != text:
            home.write(path, text)
        elif path.stat().st_mtime_ns < edited:
            with contextlib.suppress(OSError):  # a colleague's: then config.toml is read at each press
                os.utime(path)


def _text(path: Path, size: int) -> str | None:
    """Read `size` + 1 bytes of a file at most; None where there is no plain file."""
    try:
        return read_head(path, size + 1)[0].decode("utf-8", "replace")
    except (FileNotFoundError, NoPlainFileError):
        return None


def _places(home: Home, config: Config, run: Run) -> dict[str, Any]:
    """Return the content of switches/RUN.json, read by the Guard, `guard` and `probe`."""
    section = config.runs[run.name]
    return {
        "run": run.name,
        "kill_switch": run.kill_switch,
        "save_switch": run.save_switch,
        "inbox": str(home.inbox),
        "memory_free": None if section.memory_free is None else str(section.memory_free),
        "group": None if home.group is None else grp.getgrgid(home.group).gr_name,
        "job_name": run.job_name,
        "backend": run.backend,
        "node_disks": list(section.node_disks),
    }


def not_taken(home: Home, error: ConfigError) -> str:
    """Say that config.toml is rejected, and why; its own path is left out of the reason."""
    why = str(error).removeprefix(f"{home.config}: ").replace(str(home.config), "it", 1)
    if isinstance(error, UnknownKeyError):
        table = f" (under {'.'.join(error.where)})" if error.where else ""
        why = one_line(f"unknown key {error.key}{error.hint}{table}")
    at = f", line {error.line}" if error.line else ""
    return f"config.toml not taken{at}: {why}"


Seen = tuple[tuple[int, ...], tuple[Problem, ...]]
"""Signature of config.toml and plugins, and complaints about misplaced files."""
PAUSE = 1.0
"""Seconds for which a file must stay unchanged before an edit is loaded."""
TRIES = 5
"""Maximum number of such pauses."""

log = logging.getLogger(__name__)


class Changes:
    """Detects changes by the files' times and sizes. What is wrong is written to `troubles`, by subject."""

    def __init__(self, home: Home, patient: BoundedIO, troubles: dict[str, str]) -> None:
        self._home = home
        self._patient = patient
        self._troubles = troubles
        self._config_seen: tuple[int, ...] = ()
        self._laid_out = False
        self._there = False
        self._dropins_seen: tuple[DropIn, ...] = ()
        self._dropins_patient = BoundedIO(f"what lies in the drop-in folders of {home.path}")

    def config(self, setup: Setup) -> Setup:
        """Return `setup` unchanged, or that of the edited configuration.

        A broken edit keeps the last good one. RUN.json and the good copy are written on the way; if home
        rejects them, the new configuration is used all the same and writing is tried again.
        """
        wrong: tuple[Problem, ...] = ()
        try:
            seen, wrong = self._settled()
            if seen != self._config_seen:
                setup = self._loaded(setup) if self._config_seen else setup
                self._config_seen, self._laid_out = seen, False
            if not self._laid_out:
                self._patient.attempt(partial(self._lay_out, setup))
        except (WatchdogError, OSError) as error:
            if not wrong:
                self._troubles["home"] = self._what_is_wrong(error)
        if wrong:
            self._troubles["home"] = Trouble.wrong(wrong, self._home.path)
        return setup

    def _settled(self) -> Seen:
        """Return the signature once it is stable: editors empty or rename the file first."""
        seen = self._looked()
        for _ in range(TRIES):
            if not self._there or (seen is not None and seen[0] == self._config_seen):
                break
            time.sleep(PAUSE)
            before, seen = seen, self._looked()
            if seen is not None and before is not None and seen[0] == before[0]:
                break
        self._there = seen is not None
        return seen or self._patient.attempt(self._look)

    def _looked(self) -> Seen | None:
        """Return the signature; None where there is no config.toml."""
        try:
            return self._patient.attempt(self._look)
        except FileNotFoundError:
            return None

    def _loaded(self, setup: Setup) -> Setup:
        """Load the edited configuration; return `setup` where it is broken or watches nothing any more."""
        try:
            found = self._patient.attempt(partial(Setup.load, self._home))
            was, now = setup.config, found.config
            if now.watches_nothing and not now.daemon.empty and not was.watches_nothing:
                raise empty_config(self._home, read_plain(self._home.config))
            setup = found
            self._troubles["config"] = ""
        except ConfigError as error:
            self._troubles["config"] = not_taken(self._home, error)
            log.warning("%s", self._troubles["config"])
        return setup

    def _what_is_wrong(self, error: Exception) -> Trouble:
        path = self._home.path
        if not isinstance(error, FileNotFoundError):
            why = getattr(error, "strerror", None) or error
            return Trouble.of(f"{path} cannot be used: {why}", error, path)
        if path.exists():
            lacks = f"{path} has no config.toml any more, the last good configuration counts"
            return Trouble(lacks, TroubleKind.NO_CONFIG)
        return Trouble.of("the watchdog's home is gone", error, path)

    def dropins(self, setup: Setup) -> Setup:
        """Return `setup` with a check for each drop-in file found now."""
        try:
            found = self._dropins_patient.attempt(partial(dropins.look, self._home))
        except (WatchdogError, OSError) as error:
            why = getattr(error, "strerror", None) or error
            place = getattr(error, "filename", None) or self._home.path
            self._troubles["drop-ins"] = Trouble.of(f"new drop-ins are not taken up: {why}", error, place)
            return setup
        self._troubles["drop-ins"] = ""
        if found == self._dropins_seen and setup.looked:
            return setup
        self._dropins_seen = found
        for dropin in found:
            if not dropin.runs:
                log.info("drop-in %s does not run: %s", dropin.name, dropin.skipped or dropin.refused)
        return setup.with_dropins(found, self._home)

    def close(self) -> None:
        """Stop the thread that reads the drop-in folders."""
        self._dropins_patient.close()

    def _look(self) -> Seen:
        """Return the signature, and complaints about misplaced files; restore missing folders of home."""
        seen = _signature(self._home)
        if restored := layout.restore_folders(self._home):
            log.warning("made anew in %s, where they were missing: %s", self._home.path, ", ".join(restored))
            self._laid_out = False
        return seen, layout.misplaced(self._home)

    def _lay_out(self, setup: Setup) -> None:
        lay_out(self._home, setup.config, setup.checks)
        if not self._troubles["config"]:
            last_good_config.keep(self._home)
        self._laid_out = True


def _signature(home: Home) -> tuple[int, ...]:
    """Return change times and sizes of config.toml and home's plugins."""
    paths = [home.config, *sorted(home.plugins.glob("*.py"))]
    return tuple(number for path in paths for number in (path.stat().st_ctime_ns, path.stat().st_size))
