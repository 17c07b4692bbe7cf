"""`watchdogd demo`: a training that hangs and fills its disk, watched in this terminal."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from types import FrameType

from rich.console import Console

from watchdogd.cli import status
from watchdogd.cli.output import print_line
from watchdogd.demo.disk import BYTES, INODES
from watchdogd.demo.stage import Stage
from watchdogd.demo.story import STEPS, Screen, play
from watchdogd.units import format_size

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class LeaveEarly(Exception):  # noqa: N818 - no error: somebody wants to leave
    """A signal asked the demo to end."""


class SignalCatcher:
    """Catcher of SIGINT, SIGTERM and (except under nohup) SIGHUP; `number` is the one that came, or 0."""

    def __init__(self) -> None:
        self.number = 0
        for number in SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._take)

    def _take(self, number: int, _frame: FrameType | None) -> None:
        self.number = number

    def pause(self, seconds: float) -> None:
        """Wait. Raise LeaveEarly if a signal comes or has come."""
        if not self.number:
            time.sleep(seconds)
        if self.number:
            raise LeaveEarly


_WELCOME = (
    "A small training, a disk of {bytes} and {inodes} inodes, and a real daemon, in {home}. Each alert is "
    "waited for, none is played. It takes about a minute; Ctrl-C ends it."
)


def arguments(_parser: argparse.ArgumentParser) -> None:
    """Declare nothing: the demo makes a home of its own."""


def run(args: argparse.Namespace) -> int:
    """Return 0 if every step was seen, 1 if one was not, 128 plus the number of a signal that ended it."""
    del args
    ending, begin = SignalCatcher(), time.monotonic()
    console = Console(highlight=False, markup=False, emoji=False)
    try:
        with Stage(status.read) as stage, Screen(console, str(stage.home.path)) as screen:
            screen.say(_WELCOME.format(bytes=format_size(BYTES), inodes=INODES, home=stage.home.path))
            play(stage, screen, ending.pause)
    except LeaveEarly:
        print_line("\nended early; no process and no file is left")
        return 128 + ending.number
    took = time.monotonic() - begin
    print_line(f"\nAll {len(STEPS)} steps were seen in {took:.0f} s; no process and no file is left.")
    print_line(f"For your own training:\n\n{_commands()}\n")
    return 0


def _commands() -> str:
    """Return what to type next, with the program's name as it can be called here."""
    beside = os.path.join(os.path.dirname(sys.executable), "watchdogd")
    program = "watchdogd" if shutil.which("watchdogd") else min(beside, os.path.relpath(beside), key=len)
    start = "start --partition small" if shutil.which("squeue") else "start --local"
    does = {
        "init": "makes ~/.watchdogd/config.toml",
        "check": "what it sees now",
        start: "from now on it watches",
    }
    width = max(map(len, does))
    return "\n".join(f"  {program} {verb:<{width}}  # {text}" for verb, text in does.items())
