"""Maintenance windows: whether somebody planned for a target to be down just now."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from apscheduler.triggers.cron import CronTrigger

from watchdogd.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from watchdogd.config import Maintenance


class Windows:
    """The configured windows. Calling it says why a target is silent at a time, or nothing."""

    def __init__(self, windows: Iterable[Maintenance]) -> None:
        self._windows = [(_trigger(window.cron), window) for window in windows]

    def __call__(self, target: str, check: str, now: float) -> str:
        """`maintenance until 04:00`, or empty; times of `cron` are local."""
        for trigger, window in self._windows:
            if window.targets and target not in window.targets and check not in window.targets:
                continue
            local = datetime.fromtimestamp(now).astimezone()
            begin = trigger.get_next_fire_time(None, local - timedelta(seconds=window.length))
            if begin is not None and begin <= local:
                end = begin + timedelta(seconds=window.length)
                return f"maintenance until {end:%H:%M}"
        return ""


def _trigger(cron: str) -> CronTrigger:
    try:
        return CronTrigger.from_crontab(cron)
    except ValueError as error:
        raise ConfigError(
            f"config.toml: alerts.maintenance: '{cron}' is no crontab time ({error}): write it as 0 2 * * 0"
        ) from None
