"""Time zones: those with a name, and this machine's own, whatever TZ says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo


class _Local(tzinfo):
    """The zone of this process as the C library has it: also a POSIX rule, a file, or nonsense (then UTC).

    zoneinfo knows names alone; a zone by any other description would be an error there.
    """

    def utcoffset(self, at: datetime | None) -> timedelta | None:
        """How far its clock is ahead of UTC at a time of its own; `fold` counts."""
        return None if at is None else at.replace(tzinfo=None).astimezone().utcoffset()

    def tzname(self, at: datetime | None) -> str | None:
        """What the zone is called then: `CET`."""
        return None if at is None else at.replace(tzinfo=None).astimezone().tzname()

    def dst(self, _at: datetime | None) -> None:
        """Not known, and not asked for."""
        return

    def fromutc(self, at: datetime) -> datetime:
        """The local time of a time in UTC."""
        found = at.replace(tzinfo=UTC).astimezone()
        return found.replace(tzinfo=self, fold=_fold(found))


def _fold(at: datetime) -> int:
    """1 where this is the second time that the clock shows it."""
    return int(at.replace(tzinfo=None).astimezone().utcoffset() != at.utcoffset())


LOCAL: tzinfo = _Local()
"""This machine's zone, with its changes to and from summer time."""


def named(name: str) -> tzinfo:
    """The zone called `Europe/Berlin`. ValueError, with the name that was meant, where there is none."""
    from zoneinfo import ZoneInfo, available_timezones

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        from watchdogd.system.nearest import close_to

        hint = close_to(name, sorted(available_timezones()))
        raise ValueError(f"there is no time zone '{name}'{hint}: write it as Europe/Berlin") from None


def spoken(at: float, now: float) -> str:
    """A time as people say it: `16:10` of today, else with its day."""
    then, today = (datetime.fromtimestamp(each, UTC).astimezone() for each in (at, now))
    return then.strftime("%H:%M" if then.date() == today.date() else "%a %d %b %H:%M")
