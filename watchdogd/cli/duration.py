"""An option that takes a duration, read in one way for all verbs."""

from __future__ import annotations

TYPE_CHECKING = False  # without the import of typing: see watchdogd/cli/__init__.py
if TYPE_CHECKING:
    import argparse


def seconds(args: argparse.Namespace, option: str) -> float:
    """The value of an option such as `--since`. UsageError, naming it, where it is no duration."""
    from watchdogd.errors import UnitError, UsageError
    from watchdogd.units import parse_duration

    try:
        return parse_duration(getattr(args, option.removeprefix("--").replace("-", "_")))
    except UnitError as error:
        raise UsageError(f"{args.verb}: {option}: {error}") from None
