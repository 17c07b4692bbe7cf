"""The last configuration that was good: a link of the chain goes on with it where an edit broke the file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watchdogd.home.file_trust import distrust, team_of
from watchdogd.system.smallfile import NoPlainFileError, read_plain

if TYPE_CHECKING:
    from watchdogd.config.models import Config
    from watchdogd.home.layout import Home


def keep(home: Home) -> None:
    """Keep config.toml as it stands, where it is not kept already.

    OSError; ConfigError where it is not good any more: it was edited since it was read.
    """
    text = read_plain(home.config, follow=True)
    kept = home.good_config
    if _text(kept) != text:
        from watchdogd.config.loading import load

        load(home)
        home.write(kept, text)


def last(home: Home) -> Config | None:
    """Return the configuration that was kept, or None: also where others could have written it."""
    from watchdogd.config.loading import parse

    path = home.good_config
    try:
        return None if distrust(path, team_of(home.path)) else parse(read_plain(path), home.config)
    except OSError:
        return None


def _text(path: Path) -> str | None:
    try:
        return read_plain(path)
    except (FileNotFoundError, NoPlainFileError):
        return None


def tables(home: Home) -> dict[str, Any] | None:
    """config.toml as it is written, where it is still what a daemon found good; None else.

    For verbs that want one value of it and no half second for what checks it all.
    """
    try:
        text = read_plain(home.config, follow=True)
        return tomllib.loads(text) if text == read_plain(home.good_config) else None
    except (OSError, ValueError, RecursionError):
        return None
