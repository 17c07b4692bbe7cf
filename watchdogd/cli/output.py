"""Output of all verbs: JSON, or plain lines with outside text made safe; options that are times."""

from __future__ import annotations

import re
import sys

from watchdogd.errors import UnknownKeyError

TYPE_CHECKING = False  # for type checkers: emergency verbs import this module and need no typing
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from typing import IO

    from rich.console import Console, ConsoleOptions, RenderableType

    from watchdogd.errors import WatchdogError
    from watchdogd.incidents.models import Observation

_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC, DCS, SOS, PM, APC: titles, links, strings
    r"|\x1b[ -/]*[0-~]"  # two-character escapes
)
_PLAIN = str.maketrans("█▉▊▋▌▍▎▏─→", "#####---->")
"""Replacements for bars and arrows in terminals whose encoding lacks them (not UTF-8)."""
_UNFOLDED = 10_000
"""Columns if the output is no terminal: `grep` and scripts need each fact on one line."""
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters that terminals obey
    r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # text direction, and other line ends
    r"\u200b\u2060-\u2064\ufeff\U000e0000-\U000e007f]"  # invisible characters
)


def clean(text: str) -> str:
    """Return outside text that is safe for a terminal.

    No escapes, no control characters except newline and tab, no changes of direction, nothing invisible;
    surrogates (bytes that are not UTF-8) become `?`.
    """
    visible = _CONTROL.sub("", _ESCAPE.sub("", text))
    return visible.encode("utf-8", "replace").decode("utf-8")


def one_line(text: str) -> str:
    """Return safe text on one line."""
    return " ".join(clean(text.replace("\r", "\n")).split())


def print_line(text: str, *, at_once: bool = False) -> None:
    """Print one line of any text; `at_once`: flush, for readers of a file or pipe while the verb goes on."""
    print(clean(text), flush=at_once)


def note(text: str) -> None:
    """Print a line of our own to stderr."""
    print(f"watchdogd: {one_line(text)}", file=sys.stderr, flush=True)


def named(check: str, subject: str | None, target: str = "") -> str:
    """Return a check's name on one line, with the part that is meant: `run-17/gpu_health [node3]`.

    For what watchdogd reports about itself, `target` is the daemon's name, as in messages.
    """
    name = target if check == "watchdogd" and target else check
    return one_line(f"{name} [{subject}]" if subject else name)


def print_results(observations: Iterable[Observation]) -> None:
    for seen in observations:
        result = seen.result
        print_line(f"{result.status.name:8} {named(seen.check, result.subject)}: {one_line(result.summary)}")


def warn(warnings: Iterable[str]) -> None:
    """Print each warning on a line of stderr."""
    for warning in warnings:
        note(f"warning: {warning}")


def explained(error: WatchdogError) -> str:
    """Return an error's line; for an unknown key of config.toml, with where the key belongs."""
    if isinstance(error, UnknownKeyError):
        from watchdogd.daemon import misplaced_keys

        return str(misplaced_keys.explained(error))
    return str(error)


def complain(error: WatchdogError) -> int:
    """Print one of several errors as if the verb had ended with it; return its exit code."""
    note(explained(error))
    return error.exit_code


def print_json(value: object) -> None:
    """Print a value as one JSON document; anything that is not valid UTF-8 is escaped."""
    import json

    print(json.dumps(value, indent=2, ensure_ascii=True))


def terminal(width: int | None = None) -> Console:
    """Return rich's console for tables, in which outside text cannot become markup or escapes.

    Without `width` it is as wide as the terminal, or as COLUMNS says; in a pipe or file nothing is folded or
    cut. A reader that leaves (`| head`) ends the verb as for any other output, not with rich's exit code 1,
    which has another meaning here.
    """
    from typing import cast

    from rich.console import Console
    from rich.segment import Segment

    class Terminal(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                text = clean(segment.text) if drawable else clean(segment.text).translate(_PLAIN)
                yield segment if segment.control else Segment(text, segment.style)

    drawable = _can_draw(sys.stdout.encoding)
    console = Terminal(highlight=False, markup=False, emoji=False, width=width or _width())
    if not console.is_terminal:
        console.file = cast("IO[str]", _Trimmed(sys.stdout))
    return console


def columns() -> int:
    """Return the width for drawings: COLUMNS, else the terminal's, else 80."""
    import shutil

    return shutil.get_terminal_size().columns


def _width() -> int | None:
    """Return the columns for lines and tables; None lets rich follow a terminal that is resized."""
    import os

    wished = os.environ.get("COLUMNS", "")
    if wished.isdecimal():  # some set it to 0 for an unknown width, which rich would take literally
        return columns() if int(wished) or sys.stdout.isatty() else _UNFOLDED
    return None if sys.stdout.isatty() else _UNFOLDED


def _can_draw(encoding: str | None) -> bool:
    """Return True if this encoding has the characters of our drawings."""
    try:
        "█▏─→".encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


class _Trimmed:
    """File to which lines are written without the trailing blanks of tables."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write whole lines, as rich does."""
        return self._file.write(re.sub(r"(?<! ) +(?=\n)", "", text))

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


def seconds(args: argparse.Namespace, option: str) -> float:
    """Return the value of an option such as `--since` in seconds. Raise UsageError if it is no duration."""
    from watchdogd.errors import UnitError, UsageError
    from watchdogd.units import parse_duration

    try:
        return parse_duration(getattr(args, option.removeprefix("--").replace("-", "_")))
    except UnitError as error:
        raise UsageError(f"{args.verb}: {option}: {error}") from None
