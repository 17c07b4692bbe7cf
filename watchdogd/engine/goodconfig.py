"""The last configuration that was good: a link of the chain goes on with it where an edit broke the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.config import parse

if TYPE_CHECKING:
    from pathlib import Path

    from watchdogd.config import Config
    from watchdogd.home import Home


def keep(home: Home) -> None:
    """Keep config.toml as it stands, where it is not kept already. OSError."""
    text = home.config.read_text(encoding="utf-8")
    kept = _path(home)
    if not kept.exists() or kept.read_text(encoding="utf-8") != text:
        home.write(kept, text)


def last(home: Home) -> Config | None:
    """The configuration that was kept, or None."""
    try:
        return parse(_path(home).read_text(encoding="utf-8"), home.config)
    except OSError:
        return None


def _path(home: Home) -> Path:
    return home.path / ".config.good.toml"
