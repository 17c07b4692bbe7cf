"""Kinds of the daemon's own troubles: a trouble is a line of text, and may say which kind it is."""

from __future__ import annotations

import enum

from watchdogd.system.bounded_io import StuckError


class TroubleKind(enum.Enum):
    """What is known of a trouble beside its text."""

    OTHER = enum.auto()
    NO_ANSWER = enum.auto()
    """Home's file system did not answer in time: often just a hiccup."""
    NO_CONFIG = enum.auto()
    """config.toml is no longer there."""


class Trouble(str):
    """Text of a trouble, and its kind."""

    kind: TroubleKind

    def __new__(cls, text: str, kind: TroubleKind = TroubleKind.OTHER) -> Trouble:
        """Return the text with its kind."""
        made = super().__new__(cls, text)
        made.kind = kind
        return made

    @classmethod
    def of(cls, text: str, error: BaseException) -> Trouble:
        """Return the text, of the kind that the error shows."""
        return cls(text, TroubleKind.NO_ANSWER if isinstance(error, StuckError) else TroubleKind.OTHER)


def kind_of(text: str) -> TroubleKind:
    """Return the kind of a trouble."""
    return text.kind if isinstance(text, Trouble) else TroubleKind.OTHER
