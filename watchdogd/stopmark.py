"""The stop mark: the daemon was ended on purpose. It ends a link that Slurm can no longer reach, too."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

from watchdogd.actions import switches

if TYPE_CHECKING:
    from pathlib import Path

    from watchdogd.home import Home


def path_of(home: Home) -> Path:
    """Where it lies."""
    return home.path / "stopped"


def is_set(home: Home) -> bool:
    """Whether it is there. OSError where home cannot be asked."""
    return path_of(home).exists()


def put(home: Home, reason: str = "") -> None:
    """Set it, with who, when and where. OSError."""
    home.write(path_of(home), json.dumps(switches.mine(reason)._asdict()) + "\n")


def remove(home: Home) -> None:
    """Take it away: the watchdog is wanted again. OSError."""
    with contextlib.suppress(FileNotFoundError):
        path_of(home).unlink()


def words(home: Home) -> str:
    """`stopped by alice on login1 at ...`, or empty where it is not set."""
    try:
        said = json.loads(path_of(home).read_text(encoding="utf-8", errors="replace"))
        return f"stopped {switches.Touch(said['by'], said['host'], said['at'], said['reason'])}"
    except FileNotFoundError:
        return ""
    except (ValueError, KeyError, TypeError):
        return "stopped by somebody"
