"""What a silence can speak of."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from watchdogd.cli.past import config_of
from watchdogd.errors import WatchdogError
from watchdogd.home import inbox
from watchdogd.system.smallfile import STATUS_LIMIT, parse_json, read_plain
from watchdogd.system.text import nearest

if TYPE_CHECKING:
    from watchdogd.home.layout import Home


def known_target(home: Home, target: str) -> str:
    """The target, where a run, disk, check, drop-in or the daemon bears its name. WatchdogError else."""
    names = _names(home)
    if target in names or target.startswith("cron."):
        return target
    raise WatchdogError(f"there is no run, disk or check '{target}'{nearest(target, sorted(names))}")


def silenced(home: Home) -> set[str] | None:
    """The targets that are silent by the daemon's last word and what was handed in since; None where its word
    cannot be read."""
    now = datetime.now().astimezone()
    try:
        listed = parse_json(read_plain(home.status, limit=STATUS_LIMIT))["silences"]
        found = {str(each["target"]) for each in listed if datetime.fromisoformat(each["until"]) > now}
    except FileNotFoundError:
        found = set()  # no round was judged yet
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    for paper in inbox.waiting(home, {"silence", "unsilence"}):
        for order in paper.orders:
            found.discard(order.target)
            if order.verb == "silence" and order.until > now.timestamp():
                found.add(order.target)
    return found


def _names(home: Home) -> set[str]:
    config = config_of(home)
    names = {config.daemon.name, "watchdogd", *config.runs, *config.disks, *config.checks}
    try:
        picture = parse_json(read_plain(home.status, limit=STATUS_LIMIT))
        for key in ("checks", "incidents", "silences"):
            for entry in picture[key]:
                names |= {str(entry[word]) for word in ("check", "target", "run") if entry.get(word)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass  # the daemon has not written one yet: the configuration alone speaks
    plugins = {name.rpartition("/")[2] for name in names}
    return names | plugins
