"""Which Guards of a run do not see a press: the heartbeat of each names the switches that it polls. Light."""

from __future__ import annotations

import os
import time

from watchdogd.home import touchfile
from watchdogd.system.place import file_name

TYPE_CHECKING = False  # without the import of typing: see watchdogd/cli/__init__.py
if TYPE_CHECKING:
    from watchdogd.home.switches import Pressed, Switch

_FRESH = 600.0
"""Seconds for which a Guard that was heard counts as living: its loop may take long steps."""


def deaf(switch: Switch, pressed: Pressed) -> list[str]:
    """A line for each Guard that polls none of the places where the switch is set now."""
    if not (pressed.made or pressed.before):
        return []
    places = [path for path in switch.places if os.path.lexists(path)]
    return [_line(switch, *beat) for beat in _beats(switch) if not _sees(switch.inbox, beat[1], places)]


def _beats(switch: Switch) -> list[tuple[str, list[str]]]:
    """The Guards that live, as far as is known, and what each polls, where it says so."""
    prefix, found = f"{file_name(switch.run)}.beat.", []
    try:
        names = sorted(name for name in os.listdir(switch.inbox) if name.startswith(prefix))
    except OSError:
        return []
    for name in names:
        path = os.path.join(switch.inbox, name)
        try:
            fresh = time.time() - os.lstat(path).st_mtime < _FRESH
        except OSError:
            continue  # it goes away just now
        beat = touchfile.said(path) if fresh else {}
        polls = beat.get("polls")
        if beat.get("run") == switch.run and isinstance(polls, list):
            who = f"process {beat.get('pid')} on {beat.get('host')}"
            found.append((who, [each for each in polls if isinstance(each, str)]))
    return found


def _sees(inbox: str, polls: list[str], places: list[str]) -> bool:
    """Whether one of `polls` is one of `places`; those of home hang on its inbox."""
    named = [os.path.normpath(os.path.join(inbox, path)) for path in polls]
    if not {*places}.isdisjoint(named):
        return True
    return not {*map(_real, places)}.isdisjoint(map(_real, named))


def _real(path: str) -> str:
    """Its folder may be reached by several names; the file itself may be a link."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _line(switch: Switch, who: str, polls: list[str]) -> str:
    what = "sees no switch just now"
    if polls:
        what = f"polls {', '.join(polls)}: touch its {switch.name} there too"
    text = f"the Guard of {who} does not see the {switch.name} of {switch.run}: it {what}"
    return touchfile.one_line(text, 1000)
