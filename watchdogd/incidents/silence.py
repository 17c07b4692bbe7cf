"""Silences and maintenance windows: whether messages about somebody have to wait, and why. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.incidents.models import Silence
from watchdogd.system.clock import JUMP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from watchdogd.home.orders import Order


def obey(silences: tuple[Silence, ...], orders: Iterable[Order], now: float) -> tuple[Silence, ...]:
    """The silences that last, after people's orders; a new one replaces an older one of its target.

    None was asked for in the future: the clock was set back since, and it lasts as long as was asked for.
    """
    lasting = {silence.target: silence for silence in silences}
    for order in orders:
        if order.verb == "silence":
            lasting[order.target] = Silence(order.target, order.until, order.by, order.reason, order.at)
        elif order.verb == "unsilence":
            lasting.pop(order.target, None)
    known = (_of_now(silence, now) for silence in lasting.values())
    return tuple(silence for silence in known if silence.until > now)


def _of_now(silence: Silence, now: float) -> Silence:
    ahead = silence.at - now
    return replace(silence, at=now, until=silence.until - ahead) if ahead > JUMP else silence


class Hush:
    """Why messages have to wait in this round; each question is asked once."""

    def __init__(
        self,
        silences: tuple[Silence, ...],
        windows: Callable[[str, str, float], str] | None,
        now: float,
    ) -> None:
        self._silences = silences
        self._windows = windows
        self._now = now
        self._answers: dict[tuple[str, str, str], str] = {}

    def reason(self, target: str, run: str, check: str) -> str:
        """`silenced by bob: moving racks`, what the maintenance window says, or nothing."""
        if not self._silences and self._windows is None:
            return ""
        asked = (target, run, check)
        if asked not in self._answers:
            self._answers[asked] = self._reason(*asked)
        return self._answers[asked]

    def _reason(self, target: str, run: str, check: str) -> str:
        names = {name for name in (target, run, check, check.rpartition("/")[2]) if name}
        for silence in self._silences:
            if silence.target in names:
                return f"silenced by {silence.by}" + (f": {silence.reason}" if silence.reason else "")
        return self._windows(target, check, self._now) if self._windows else ""
