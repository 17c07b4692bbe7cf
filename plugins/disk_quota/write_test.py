"""Test whether a file can really be written: finds what df hides (quota, I/O errors, hanging)."""

from __future__ import annotations

import errno
import os
import platform
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

import psutil

from watchdogd.plugin import Advice, Metric, Result, critical, ok, unknown
from watchdogd.plugins.disk_quota import write_program
from watchdogd.plugins.disk_quota.path_state import ASK
from watchdogd.system.account import own_name
from watchdogd.system.command import Failure, ask
from watchdogd.system.smallfile import unanswered
from watchdogd.units import age

WRITE = "write"
"""Subject of the results of the write test."""


@dataclass(slots=True)
class WriteTestState:
    """Time since when writing hangs; None if it does not."""

    hangs: float | None = None


def write_test(path: str, known: WriteTestState, now: float, within: float, most: str = "") -> Result:
    """Write a small file in `path`, within a number of seconds. `most`: who holds most there, if known.

    While an earlier test still hangs in the kernel, no other is started.
    """
    argv = [sys.executable, "-I", "-S", write_program.__file__, path]
    where = f"{path} on {platform.node()}"
    since = known.hangs
    if since is not None and any(each.info["cmdline"] == argv for each in psutil.process_iter(["cmdline"])):
        return _hangs(where, since, now)
    answer = ask(argv, deadline=within)
    if answer.silent and answer.failure is not Failure.UNSTARTED:
        known.hangs = since = now if since is None else since
        return _hangs(where, since, now)
    known.hangs = None
    step, _, number = answer.output.strip().rpartition(" ")
    if answer.output.strip() == "ok":
        seconds = Metric(round(answer.seconds, 3), "s", crit=within)
        fine = ok("a test file was written, read back and removed", subject=WRITE, write_time=seconds)
        return fine.ending("can be written again")
    if not number.isdecimal():
        short = Advice("To see whether this machine, which watches, is short of memory:", "free -h")
        return unknown(f"writing could not be tried: {answer.complaint()}", subject=WRITE).saying(
            where, advice=[short]
        )
    return _failed(path, where, step, int(number), most)


def _bad(say: Callable[..., Result], line: str, where: str, advice: Advice = ASK) -> Result:
    """Report what is wrong with writing there."""
    return say(line, subject=WRITE).saying(where, advice=[advice])


def relief(path: str, most: str, *, inodes: bool = False) -> Advice:
    """Return what makes room: a word with those who hold most, else the command that shows what does."""
    if most:
        return Advice(f"Make room: {most}.")
    what = "--inodes" if inodes else "-h"
    return Advice(
        "Make room; to see what holds most:", f"du {what} -x -d1 {shlex.quote(path)} | sort -h | tail"
    )


def _failed(path: str, where: str, step: str, number: int, most: str = "") -> Result:
    if number == 0:
        wrong = "a test file came back with other content than was written"
        return _bad(critical, wrong, where)
    why = f"{os.strerror(number)} ({errno.errorcode.get(number, number)})"
    line = f"a test file could not be {step}: {why}"
    if number in (errno.EACCES, errno.EPERM):
        asked = Advice("Correct its path in config.toml, or ask its owner for access.")
        return _bad(
            unknown, f"permission denied for {own_name()}: a test file could not be {step}", where, asked
        )
    if number in (errno.ENOSPC, errno.EDQUOT):
        return _bad(critical, line, where, relief(path, most))
    return replace(_bad(critical, line, where), unanswered=unanswered(OSError(number, why)))


def _hangs(where: str, since: float, now: float) -> Result:
    lasted = f"writes have not ended for {age(now - since)}" if now - since >= 1.0 else "writes do not end"
    return replace(_bad(critical, lasted, where).dated(since), unanswered=True)
