#!/usr/bin/env python3
"""Writes docs/watchdogd.1 from the verbs' own parsers; to be run when a verb or option has changed."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from watchdogd.cli.setup import completion
from watchdogd.cli.setup.completion import Option, Positional, Verb

TARGET = Path(__file__).resolve().parents[1] / "docs" / "watchdogd.1"
_HEAD = r"""
.TH WATCHDOGD 1 "" "watchdogd" "User Commands"
.SH NAME
watchdogd \- the watchdog for long trainings on shared clusters
.SH SYNOPSIS
.B watchdogd
.RB [ \-\-home
.IR DIR ]
.I VERB
\&...
.SH DESCRIPTION
Watches whether training jobs live and make progress, and whether disks and GPUs
last; tells people what is wrong, and stops a training on request.
It runs without root: as a chain of small Slurm jobs, under cron, or in a
terminal.
.SH VERBS
"""
_TAIL = r"""
.SH EXIT STATUS
0 where all is well, 64 for wrong usage, 78 for a broken configuration.
.B status
exits with 1 where a warning is open, 2 where something critical is, 3 where
nobody watches;
.B check
with 0, 1, 2 or 3 like a Nagios plugin;
.B doctor
with 1 for a warning, 2 where something is broken.
.SH ENVIRONMENT
.TP
.B WATCHDOGD_HOME
Home, where \-\-home is not given.
.TP
.B NO_COLOR
No colours, where it is set.
.SH FILES
.TP
.I ~/.watchdogd/config.toml
What to watch, and whom to notify; in home.
.SH SEE ALSO
.BR sbatch (1),
.BR squeue (1)
"""


def page() -> str:
    """The page as troff."""
    return _HEAD.lstrip() + "\n".join(line for verb in completion.all_verbs() for line in _verb(verb)) + _TAIL


def _verb(verb: Verb) -> Iterator[str]:
    yield f".SS {_plain(verb.usage.replace('[-h] [--home DIR] ', ''))}"
    yield _sentence(verb.help)
    words: tuple[Positional | Option, ...] = (*verb.places, *verb.options)
    for word in words:
        if isinstance(word, Positional):
            title = f".I {_plain(word.name)}"
        elif word.names[0] in ("-h", "--home"):
            continue
        else:
            title = _title(word)
        yield from (".TP", title, _sentence(word.help))


def _title(option: Option) -> str:
    names = ", ".join(option.names)
    return f".BI {_quoted(names + ' ')} {_quoted(option.value)}" if option.value else f".B {_plain(names)}"


def _quoted(text: str) -> str:
    return f'"{_plain(text)}"'


def _sentence(text: str) -> str:
    """Text of a paragraph, with a full stop; no line of it begins with a request."""
    shown = _plain(text[:1].upper() + text[1:] if text[:1].isalpha() else text)
    ended = shown if shown.endswith(("?", ".")) else f"{shown}."
    lines = textwrap.wrap(ended, 78, break_on_hyphens=False, break_long_words=False)
    return "\n".join(("\\&" if line.startswith((".", "'")) else "") + line for line in lines)


def _plain(text: str) -> str:
    """Signs that troff would read otherwise."""
    return text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")


if __name__ == "__main__":
    TARGET.write_text(page())
    sys.exit(0)
