"""status.json: what the verbs show of the daemon, put into home every round."""

from __future__ import annotations

import errno
import json
from functools import partial
from typing import TYPE_CHECKING, Any

from watchdogd.system.smallfile import STATUS_LIMIT, parse_json, read_plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchdogd.home.layout import Home
    from watchdogd.system.bounded import BoundedIO

ROOM = 16_384
"""Bytes to whose multiples status.json is filled up, so that it can be overwritten where home is full."""


class Picture:
    """Replaces status.json; where home is full, it is overwritten in place.

    A tick, or a link that has just begun, has run few checks yet: what the others said to the one before it
    stays in the picture until they are due.
    """

    def __init__(self, home: Home, patient: BoundedIO) -> None:
        self._home = home
        self._patient = patient
        self._inherited: list[dict[str, Any]] | None = None

    def publish(self, picture: dict[str, Any], known: Sequence[str]) -> None:
        """Write status.json; `known` are all checks by name, in order.

        OSError or StuckError where home does not take it, also where it could be overwritten.
        """
        self._patient.attempt(partial(self._write, picture, known))

    def _write(self, picture: dict[str, Any], known: Sequence[str]) -> None:
        home, picture = self._home, picture | {"checks": self._with_inherited(picture["checks"], known)}
        text = json.dumps(picture)
        try:
            home.write(home.status, text.ljust(len(text) + ROOM - len(text) % ROOM))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            if not home.overwrite(home.status, text):
                home.overwrite(home.status, json.dumps(picture | {"checks": []}))
            why = "it takes no new file: it is full (bytes or inodes) or over quota: free space"
            raise OSError(error.errno, why, str(home.path)) from None

    def _with_inherited(self, said: list[dict[str, Any]], known: Sequence[str]) -> list[dict[str, Any]]:
        """Join what was said with what checks that did not speak here said before, ordered as `known`."""
        if self._inherited is None:
            self._inherited = left_behind(self._home)
        heard, order = {seen["check"] for seen in said}, {name: place for place, name in enumerate(known)}
        self._inherited = [seen for seen in self._inherited if seen["check"] in order.keys() - heard]
        return sorted([*said, *self._inherited], key=lambda seen: order.get(seen["check"], len(order)))


def left_behind(home: Home) -> list[dict[str, Any]]:
    """Read the results in the status.json that is there; none where it cannot be read."""
    try:
        found = parse_json(read_plain(home.status, limit=STATUS_LIMIT))["checks"]
        return [seen for seen in found if isinstance(seen["check"], str)]
    except (OSError, ValueError, KeyError, TypeError):
        return []
