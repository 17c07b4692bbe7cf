"""Self-monitoring: the daemon's own troubles and notices as results of a check."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from watchdogd.config import last_good_config
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.trouble import UNWRITABLE, Trouble, TroubleKind, kind_of, trouble
from watchdogd.errors import Problem
from watchdogd.home.layout import Home
from watchdogd.incidents.models import DELIVERY, HOME_CLOSED, HOME_SILENT, SELF, Observation
from watchdogd.plugin import Advice, Metric, Result, Status, notice
from watchdogd.system.number import count
from watchdogd.units import age, local_time

SUBJECTS = (
    "engine", "history", "config", "channels", "answers", "delivery", "workers", "chain", "home", "inbox",
    "drop-ins", "publishing", "pulse",
)  # fmt: skip
"""Subjects of the check SELF, under which the daemon reports on itself."""

BEARABLE = frozenset({"config", "answers", "delivery", "drop-ins", "publishing", "pulse"})
"""Subjects that are a WARNING only: everything is watched, and alerts go out."""
_ANSWERED = frozenset({"home", "inbox", "history"})
"""Subjects on which people's answers depend: each is taken in by the inbox, and kept in the history."""
_BEARABLE = frozenset({TroubleKind.GO_ON, TroubleKind.SET_ASIDE})
"""Kinds of trouble that are a WARNING only: the old channels go on, other answers are taken in."""
MEANS = {"history": "events are not recorded", "inbox": "acknowledgements are not taken in"}
"""Consequence of a trouble, where its own text does not name it."""
PLUGINS_LIMIT = 500
"""Maximum characters on unusable plugins; `watchdogd plugins` lists them all."""

SHOWN = 5
"""Number of unusable plugins whose fix is named."""
ADVICE = {
    "config": (Advice("To see whether it is correct, once you have corrected it:", "watchdogd config"),),
    "channels": (
        Advice(
            "Correct it in config.toml, or set its secret; no alert goes out there before. To test it then:",
            "watchdogd notify --test",
        ),
    ),
    "answers": (Advice("Give the bot the missing rights; alerts go out all the same.", ""),),
    "delivery": (Advice("To see what waits, and why:", "watchdogd outbox"),),
    "workers": (Advice("Only a reboot of this machine ends it: ask its administrators."),),
    "chain": (Advice("To see what Slurm says of the next job:", "watchdogd status"),),
}
"""Advice on a trouble of which no more is known than its subject."""
_TWICE = re.compile(r"\b(\w+) (?=\1\.)")
"""Word before a file of that name, as in `history history.db`."""
AGAIN = {
    "engine": "alerts go out again",
    "history": "events are recorded again",
    "config": "config.toml is correct again",
    "channels": "all channels can be used again",
    "answers": "answers can be read again",
    "delivery": "all channels deliver again",
    "workers": "no process hangs any more",
    "chain": "the next watchdog job is queued again",
    "home": "the watchdog's home can be written again",
    "inbox": "acknowledgements are taken in again",
    "drop-ins": "new drop-ins are taken up again",
    "publishing": "the page can be written again",
    "pulse": "the pulse file is updated again",
}
"""End of a trouble, by subject."""
MEANWHILE = {
    "config": "the last good configuration counts meanwhile",
    "history": "alerts still go out; nothing is requeued or cancelled, and what happens may be missing later",
    "home": "alerts still go out; acknowledgements and silences may have no effect meanwhile",
    "inbox": "alerts still go out; no acknowledgement or silence has an effect meanwhile",
    "workers": "the file system that it waits for may not answer",
    "drop-ins": "those known before run on",
}
"""What holds while a trouble lasts, by subject."""
_PATH = re.compile(r"""(?<![\w/:.])(?:/[^\s/:;,'"()]+)+/([^\s/:;,'"()]+)""")
"""Path with at least one parent folder; the group is its last part."""

log = logging.getLogger(__name__)


LOOK_AGAIN = 60.0
"""Seconds within which a bad result is confirmed at the latest, however rare the rounds are."""


@dataclass(frozen=True, slots=True)
class _Silence:
    """Time in which home does not answer: since when, in how many rounds, and whether it is reported."""

    since: float
    rounds: int = 0
    confirmed: bool = False


_ELSEWHERE = frozenset({"drop-ins", "pulse"})
"""Subjects that wait for home, or for another file system to which a link or a path in it leads."""


def _is_silence(text: str) -> bool:
    return kind_of(text) is TroubleKind.NO_ANSWER


class SelfMonitoring:
    """Troubles of the daemon, by subject, and notices.

    Any part of the daemon writes its trouble to `troubles` (empty: none), and the next round evaluates it as
    a check's result. `began`: since when, in seconds since the epoch, where that is known.

    A home that does not answer is one trouble, whatever was asked of it, and it is reported once it has
    lasted as long as any fault must: a file system under load answers again in a few seconds.
    """

    def __init__(self, home: Home | None = None) -> None:
        self._home = home
        self._silent: _Silence | None = None
        self._ended_silence = False
        self.troubles = dict.fromkeys(SUBJECTS, "")
        self.began: dict[str, float] = {}
        self._notices: list[Result] = []
        self._unusable: tuple[Problem, ...] = ()

    @property
    def standing(self) -> list[str]:
        return [text for text in self.troubles.values() if text and not (self.unsure and _is_silence(text))]

    @property
    def unsure(self) -> bool:
        """Return whether home has not answered for a time too short to be reported."""
        quiet = any(map(_is_silence, self.troubles.values()))
        return quiet and not (self._silent and self._silent.confirmed)

    @property
    def _silent_home(self) -> frozenset[str]:
        """Subjects to which home does not answer; empty if what hangs may lie elsewhere."""
        silent = frozenset(subject for subject, text in self.troubles.items() if _is_silence(text))
        return silent if silent - _ELSEWHERE else frozenset()

    def tell(self, text: str) -> None:
        """Report something once, as a notice."""
        self._notices.append(_pathless(notice(text, label="WARNING")))

    def observe(self, setup: Setup, link: Mapping[str, Any] | None, now: float) -> tuple[Observation, ...]:
        """Return the results for this round; the job id of the chain's `link` is recorded for the page."""
        notices, self._notices = self._notices, []
        self._listen(setup, now)
        results = [*self._of_troubles(link, now), self._of_plugins(setup.unusable), *notices]
        return tuple(
            Observation(
                DELIVERY if result.subject == "delivery" else SELF, "", setup.config.daemon.name, result, now
            )
            for result in results
        )

    def _listen(self, setup: Setup, now: float) -> None:
        """Note since when home has not answered, and whether that is to be reported."""
        before, self._silent = self._silent, None
        if any(map(_is_silence, self.troubles.values())):
            daemon = setup.config.daemon
            known = before or _Silence(now)
            rounds = known.rounds + 1
            lasts = now - known.since >= (daemon.confirm - 1) * min(daemon.interval, LOOK_AGAIN) * 0.9
            sure = known.confirmed or (rounds >= daemon.confirm and lasts)
            self._silent = _Silence(min(known.since, now), rounds, confirmed=sure)
        elif before is not None:
            self._ended_silence = before.confirmed

    def _of_troubles(self, link: Mapping[str, Any] | None, now: float) -> Iterator[Result]:
        for said in self._by_subject(link):
            yield replace(said, unanswered=True) if self._silent else said
        if self._silent and self._silent.confirmed and self._silent_home:
            yield self._of_silence(self._silent, now)

    def _of_silence(self, silence: _Silence, now: float) -> Result:
        """Return the one result on a home that does not answer."""
        place = self._home.path if self._home else "HOME"
        lost = [MEANS.get(subject, "") for subject in SUBJECTS if subject in self._silent_home]
        lasting = age(max(now - silence.since, 1.0))
        said = Result(Status.CRITICAL, f"the watchdog's home has not answered for {lasting}", subject="home")
        look = Advice("Its file system is slow or hangs; to see how long it takes:", f"ls {place}")
        said = said.saying(", ".join(filter(None, (*lost, "alerts still go out"))), advice=[look])
        return said.of_kind(HOME_SILENT).dated(silence.since)

    def _by_subject(self, link: Mapping[str, Any] | None) -> Iterator[Result]:
        """Yield a result for each subject, except for those of a home that does not answer."""
        job = str(link["job_id"]) if link else ""
        recorded = {"chain": {"link": Metric(number)}} if (number := count(job)) is not None else {}
        held = self._silent is not None and not self._silent.confirmed
        for subject, text in self.troubles.items():
            if _is_silence(text) and (held or subject in self._silent_home):
                continue
            if self._silent and subject == "home" and not text:
                continue
            said = (
                self._of_trouble(subject, trouble(text))
                if text
                else Result(Status.OK, f"{subject}: no trouble")
            )
            said = replace(said, metrics=recorded.get(subject, {}), subject=subject)
            if text and subject == "home":
                self._ended_silence = False
            if text and subject == "chain" and link and link.get("ends_at"):
                ends = local_time(datetime.fromisoformat(link["ends_at"]).timestamp())
                said = said.saying(f"this job watches until {ends}, and nobody after it")
            if text and subject in self.began:
                said = said.dated(self.began[subject])
            again = AGAIN.get(subject, f"{subject} is fine again")
            if subject == "home" and self._ended_silence:
                again = "the watchdog's home answers again"
            yield _pathless(said).ending(again)

    def _of_trouble(self, subject: str, found: Trouble) -> Result:
        """Return the result on a trouble: as bad as what it keeps from being watched or reported."""
        bearable = subject in BEARABLE or found.kind in _BEARABLE
        means = MEANS.get(subject, "") if found.kind not in _BEARABLE else ""
        text = f"{means}: {found}" if means else str(found)
        said = Result(Status.WARNING if bearable else Status.CRITICAL, text)
        place = found.path if found.path not in text else ""
        meanwhile = "" if found.kind in _BEARABLE else MEANWHILE.get(subject, "")
        look = Advice("To see what is wrong:", "watchdogd doctor")
        said = said.saying(place, meanwhile, advice=(*self._advice(subject, found), look))
        closed = subject in _ANSWERED and found.kind in UNWRITABLE
        return said.of_kind(HOME_CLOSED) if closed else said

    def _advice(self, subject: str, found: Trouble) -> Iterator[Advice]:
        """Yield the advice on a trouble: by its cause, or else by its subject."""
        gone = found.kind is TroubleKind.NO_CONFIG
        if not gone:
            yield from tuple(found.helps) or ADVICE.get(subject, ())
        if self._home and (gone or subject == "config"):
            restore = last_good_config.restoring(self._home)
            yield Advice("To drop the edit and put the last good one back:", restore)

    def _of_plugins(self, unusable: tuple[Problem, ...]) -> Result:
        """Return the result on unusable plugins: somebody relies on them."""
        if unusable != self._unusable:
            log.info("%s", "; ".join(unusable) or "all plugins are used again")
            self._unusable = unusable
        text = "; ".join(each.what for each in unusable)[:PLUGINS_LIMIT] or "plugins are fine"
        said = Result(Status.WARNING if unusable else Status.OK, text, subject="plugins")
        said = said.saying(advice=map(Advice.of, unusable[:SHOWN]))
        return _pathless(said).ending("all plugins are used again")


def _pathless(result: Result) -> Result:
    """Return the result with file names for paths in its summary, and the full summary below it."""
    short = _TWICE.sub("", _PATH.sub(r"\1", result.summary))
    return result if short == result.summary else replace(result, summary=short).saying(result.summary)
