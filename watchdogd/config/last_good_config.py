"""Last good configuration, which is used where an edit broke config.toml."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watchdogd.home.file_trust import distrust, team_of
from watchdogd.system.smallfile import NoPlainFileError, read_plain

if TYPE_CHECKING:
    from watchdogd.config.models import Config
    from watchdogd.home.layout import Home


def keep(home: Home) -> None:
    """Save a copy of config.toml, unless the copy is the same already.

    OSError; ConfigError where it was edited since and is invalid now.
    """
    text = read_plain(home.config, follow=True)
    kept = home.good_config
    if _text(kept) != text:
        from watchdogd.config.loading import load

        load(home)
        home.write(kept, text)


def last(home: Home) -> Config | None:
    """Return the saved configuration; None where there is none, or others could have written it."""
    from watchdogd.config.loading import parse

    path = home.good_config
    try:
        return None if distrust(path, team_of(home.path)) else parse(read_plain(path), home.config)
    except OSError:
        return None


def restoring(home: Home) -> str:
    """Return the command that puts the saved configuration back."""
    return f"cp {shlex.quote(str(home.good_config))} {shlex.quote(str(home.config))}"


def _text(path: Path) -> str | None:
    try:
        return read_plain(path)
    except (FileNotFoundError, NoPlainFileError):
        return None


def tables(home: Home) -> dict[str, Any] | None:
    """Return the tables of config.toml if a daemon found this text valid, else None.

    For verbs that need one value and cannot spend half a second on validation.
    """
    try:
        text = read_plain(home.config, follow=True)
        return tomllib.loads(text) if text == read_plain(home.good_config) else None
    except (OSError, ValueError, RecursionError):
        return None
