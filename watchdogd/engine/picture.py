"""status.json: what the verbs show of the daemon, put into home every round."""

from __future__ import annotations

import errno
import json
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from watchdogd.engine.patient import Patient
    from watchdogd.home import Home

ROOM = 16_384
"""Bytes to whose multiples status.json is filled up, so that it can be overwritten where home is full."""


class Picture:
    """Replaces status.json; where home is full, it is overwritten in place."""

    def __init__(self, home: Home, patient: Patient) -> None:
        self._home = home
        self._patient = patient

    def publish(self, picture: dict[str, Any]) -> None:
        """OSError or StuckError where home does not take it."""
        self._patient.attempt(partial(self._write, picture))

    def _write(self, picture: dict[str, Any]) -> None:
        home, text = self._home, json.dumps(picture)
        try:
            home.write(home.status, text.ljust(len(text) + ROOM - len(text) % ROOM))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            if not home.overwrite(home.status, text):
                home.overwrite(home.status, json.dumps(picture | {"checks": []}))
